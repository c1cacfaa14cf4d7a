"""The logits of the default model are the same bits on every instruction set with a fused multiplication and addition, on x86
and on Arm: the digests below. They change only with the order of arithmetic (docs/architecture.md), and then for all sets.
TENON_TEST_MODEL names the model file. Argument: the tenon command."""
import hashlib
import os
import subprocess
import sys
import tempfile

TENON = sys.argv[1]
MODEL = os.environ["TENON_TEST_MODEL"]
TOKENS = "1,2,3,400,5000,77"
DIGESTS = {
    (): "e644ec7bb74929edf6e173bbb8391ec43a73b40ca220ddd8982bd8db8f611abd",
    ("--activations", "float", "--kv", "f32"): "4223fe44784a0d5c04420232c0810a103ab8eb74b9d0f95e5afb2a5311711cdd",
    ("--kv", "int8"): "f30437965549954dec523fd57f089f4f8e66e33d7fc1c6c8959948dbe943466e",
}
SETS = [os.environ["TENON_CPU"]] if os.environ.get("TENON_CPU") else [
    name for name in subprocess.run([TENON, "version"], capture_output=True, text=True).stdout.splitlines()[2].split()[2:]
    if name != "portable"]
compared, failures = 0, []
with tempfile.TemporaryDirectory() as folder:
    out = os.path.join(folder, "out")
    for name in SETS:
        for options, want in DIGESTS.items():
            result = subprocess.run([TENON, "logits", MODEL, "--tokens", TOKENS, "--all", "--out", out, *options],
                                    capture_output=True, text=True, timeout=900, env={**os.environ, "TENON_CPU": name})
            if "which this processor doesn't have" in result.stderr:
                continue
            if result.returncode:
                sys.exit(f"{name}: {result.stderr}")
            compared += 1
            if hashlib.sha256(open(out, "rb").read()).hexdigest() != want:
                failures.append(f"{name} {' '.join(options)}: other bits")
print("\n".join(failures))
print(f"{', '.join(SETS)}: {compared} compared, {len(failures)} failures")
sys.exit(1 if failures or not compared else 0)
