# Runs a test that needs the default model: with-model.sh COMMAND [arguments]
if [ -z "${TENON_TEST_MODEL:-}" ]; then
  echo "TENON_TEST_MODEL is not set: it names the default model's file. ./dev test fetches it and sets it;" >&2
  echo "to leave these tests out, run ctest -LE model." >&2
  exit 1
fi
if [ ! -r "$TENON_TEST_MODEL" ]; then
  echo "TENON_TEST_MODEL names a file that can't be read: $TENON_TEST_MODEL" >&2
  exit 1
fi
exec "$@"
