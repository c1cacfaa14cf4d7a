# The equalities (tests/engine/test_equal.c, tests/model/test_equal.c) on the instruction sets that this machine has but does not choose by
# itself; the best one runs in those tests. Needs TENON_TEST_MODEL. Arguments: the tenon command, the folder of test data.
tests=$(dirname "$1")/tests
chosen=$("$1" devices --driver cpu | awk '/instruction_set/ {print $2}')
failed=0
for set in $("$1" version | sed -n "s/^instruction sets: //p"); do
  [ "$set" = "$chosen" ] && continue
  if ! TENON_CPU=$set "$1" devices --driver cpu >/dev/null 2>&1; then
    echo "$set: not on this machine"
    continue
  fi
  # of the default model a page and a bit of tokens, as portable kernels take their time
  for test in engine-equal "model-equal 36"; do
    if TENON_CPU=$set "$tests"/test-$test >/dev/null 2>&1; then
      echo "$set: $test passes"
    else
      echo "$set: $test FAILED"
      failed=1
    fi
  done
done
exit $failed
