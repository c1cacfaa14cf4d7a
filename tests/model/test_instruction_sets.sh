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
  for test in engine model; do
    if TENON_CPU=$set "$tests/test-$test-equal" >/dev/null 2>&1; then
      echo "$set: $test.equal passes"
    else
      echo "$set: $test.equal FAILED"
      failed=1
    fi
  done
done
exit $failed
