# cmake --install gives a tree that stands alone and may be moved: programs and drivers build against it by pkg-config,
# the shared library exports what tenon.h declares and needs few libraries, the driver archive needs no C library.
# Usage: test_install.sh TENON DATA; with TENON_TEST_MODEL set, the example answers a prompt too.
set -eu
tenon=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
fail() {
  echo "FAILED: $*"
  status=1
}
# same WHAT EXPECTED FOUND: files of sorted lines
same() { diff -u "$2" "$3" || fail "$1"; }

cmake --install "$(dirname "$tenon")" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/prefix"
library=$(dirname "$(find "$work/prefix" -name libtenon.so)")
export PKG_CONFIG_PATH="$library/pkgconfig" LD_LIBRARY_PATH="$library"

# exports: the functions of tenon.h, no more and no fewer
sed -n 's/^TN_API [^(]*[ *]\(tn_[a-z0-9_]*\)(.*/\1/p' "$work/prefix/include/tenon/tenon.h" | sort >"$work/declared"
[ -s "$work/declared" ] || fail "tenon.h declares nothing"
nm -D --defined-only "$library/libtenon.so" | awk '{ print $3 }' | sort >"$work/exported"
same "libtenon.so exports something else than tenon.h declares" "$work/declared" "$work/exported"

# what libtenon links
readelf -d "$library/libtenon.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$work/needed"
grep -vE '^(libpcre2-8|libutf8proc|libjansson|libc|libm|libpthread|libdl|ld-linux[^.]*)\.so' "$work/needed" &&
  fail "libtenon.so links more than PCRE2, utf8proc, jansson and the C library"

# what the driver archive leaves to others
nm -g --defined-only "$library/libtenon-driver.a" | awk 'NF == 3 { print $3 }' | sort -u >"$work/defined"
nm -u "$library/libtenon-driver.a" | awk '$1 == "U" { print $2 }' | sort -u |
  grep -vxE 'mem(cpy|set|move|cmp)|_GLOBAL_OFFSET_TABLE_' | comm -23 - "$work/defined" >"$work/undefined"
[ ! -s "$work/undefined" ] || fail "libtenon-driver.a needs: $(tr '\n' ' ' <"$work/undefined")"

# a program against the shared library, and against the archive
flags="-std=c11 -Wall -Wextra -Werror -O1"
program=$root/examples/minimal/main.c
# shellcheck disable=SC2046,SC2086 # lists of flags
cc $flags "$program" $(pkg-config --cflags --libs tenon) -o "$work/minimal"
# shellcheck disable=SC2046,SC2086
cc $flags "$program" $(pkg-config --static --cflags --libs tenon | sed 's/-ltenon/-l:libtenon.a/') -o "$work/minimal-static"
for minimal in "$work/minimal" "$work/minimal-static"; do
  code=0
  "$minimal" "$work/no-such.gguf" hello >"$work/out" 2>&1 || code=$?
  [ $code = 1 ] || fail "a missing file gives status $code"
  grep -q 'no-such.gguf' "$work/out" || fail "the missing file isn't named: $(cat "$work/out")"
  if [ -n "${TENON_TEST_MODEL:-}" ]; then
    "$minimal" "$TENON_TEST_MODEL" "The capital of France is" >"$work/out" || fail "$minimal: status $?"
    grep -q Paris "$work/out" || fail "an answer about Paris was expected: $(cat "$work/out")"
  fi
done

# a driver, loaded by path
# shellcheck disable=SC2046,SC2086
cc $flags -shared -fPIC -fvisibility=hidden "$root/examples/driver-minimal/driver.c" \
  $(pkg-config --cflags --libs tenon-driver) -o "$work/minimal.so"
"$work/prefix/bin/tenon" devices --driver "$work/minimal.so" >"$work/out" || fail "tenon devices --driver: status $?"
grep -q minimal "$work/out" || fail "the driver isn't listed: $(cat "$work/out")"
if [ -n "${TENON_TEST_MODEL:-}" ]; then
  for device in cpu "$work/minimal.so"; do
    "$work/prefix/bin/tenon" run "$TENON_TEST_MODEL" --raw -p "The capital of France is" -n 4 --temp 0 \
      --activations float --device "$device" >"$work/answer.$(basename "$device")" || fail "tenon run --device $device: status $?"
  done
  same "the driver answers otherwise than cpu" "$work/answer.cpu" "$work/answer.minimal.so"
fi
exit $status
