# Which instruction set the cpu device chooses, and refuses, on Arm processors that qemu emulates: QEMU_CPU names them.
# Argument: the tenon command.
failed=0

# chooses PROCESSOR SET
chooses() {
  set_chosen=$(QEMU_CPU=$1 "$tenon" devices --driver cpu | awk '/instruction_set/ {print $2}')
  [ "$set_chosen" = "$2" ] || { echo "$1: $set_chosen is chosen, expected $2"; failed=1; }
}

# refuses PROCESSOR SET
refuses() {
  message=$(QEMU_CPU=$1 TENON_CPU=$2 "$tenon" test-device cpu --op add 2>&1) && { echo "$1: $2 runs"; failed=1; }
  case $message in
    *"TENON_CPU asks for $2, which this processor doesn't have"*) ;;
    *) echo "$1: $2: $message"; failed=1 ;;
  esac
}

tenon=$1
chooses cortex-a72 neon
chooses neoverse-n1 neon-dotprod
chooses max neon-i8mm
refuses cortex-a72 neon-dotprod
refuses cortex-a72 neon-i8mm
refuses neoverse-n1 neon-i8mm
exit $failed
