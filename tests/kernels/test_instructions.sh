#!/bin/sh
# The kernels of each instruction set hold its own instructions and none beyond it: sets that no machine at hand has
# can at least be checked this way.
build=$(dirname "$1")
arm=$build/../CMakeFiles/kernels-neon.dir # where the command is emulated, it stands in a folder of its own
if [ -d "$arm" ]; then build=$build/..; else arm=$build/CMakeFiles/kernels-neon.dir; fi
objdump=objdump
if [ -d "$arm" ] && [ "$(uname -m)" != aarch64 ]; then objdump=aarch64-linux-gnu-objdump; fi
command -v $objdump >/dev/null || { echo "no $objdump: nothing checked"; exit 0; }
failed=0

# check SET INSTRUCTION-OR-EMPTY FORBIDDEN
check() {
  for object in "$build"/CMakeFiles/kernels-$1.dir/src/kernels/*.o; do
    [ -e "$object" ] || return
    $objdump -d --no-show-raw-insn "$object" >"$code"
    case $1-$object in
      # The one file that asks the processor before it uses more than its set has.
      avx512vnni-*linear_pairs*)
        grep -q 'vdpbf16ps .*%zmm' "$code" || { echo "$1: no vdpbf16ps in $object"; failed=1; }
        continue ;;
    esac
    if grep -qE "$3" "$code"; then
      echo "$1: $object has $(grep -oE "$3" "$code" | head -1)"
      failed=1
    fi
    case $object in
      *linear_blocks*)
        if [ -n "$2" ] && ! grep -qE "$2" "$code"; then
          echo "$1: no $2 in $object"
          failed=1
        fi ;;
    esac
  done
}

code=$(mktemp)
trap 'rm -f "$code"' EXIT
if [ -d "$arm" ]; then
  check portable '' '[su]dot|mmla'
  check neon 'smlal2' '[su]dot|mmla'
  check neon-dotprod 'sdot' 'usdot|mmla'
  check neon-i8mm 'usmmla' 'bfdot|bfmmla'
elif [ "$(uname -m)" = x86_64 ]; then
  check portable '' '%ymm|%zmm'
  check avx2 'vpmaddubsw.*%ymm' '%zmm|%k[0-7]|vpdpbusd'
  check avxvnni '{vex} vpdpbusd .*%ymm' '%zmm|%k[0-7]'
  check avx512vnni 'vpdpbusd .*%zmm' 'vdpbf16ps'
fi
exit $failed
