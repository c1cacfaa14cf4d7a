"""All logits of the default model as bytes, for every instruction set this machine has and three KV types: prefill in
chunks of 1, 7, 32 and 512 rows, on one thread and on two, equals the whole in one step. TENON_TEST_MODEL names the model.
Arguments: the tenon command, test data."""
import hashlib
import os
import subprocess
import sys
import tempfile

TENON = sys.argv[1]
MODEL = os.environ.get("TENON_TEST_MODEL") or sys.exit("TENON_TEST_MODEL is not set; ./dev test sets it")
failures = []
compared = 0


def digest(instruction_set, tokens, folder, *options):
    """SHA-256 of all logits; None where the machine does not have the instruction set."""
    out, tokens_file = os.path.join(folder, "out"), os.path.join(folder, "tokens")
    with open(tokens_file, "w") as f:
        f.write(",".join(map(str, tokens)))
    result = subprocess.run([TENON, "logits", MODEL, "--tokens-file", tokens_file, "--all", "--out", out, *options],
                            env={**os.environ, "TENON_CPU": instruction_set}, capture_output=True, timeout=600)
    if result.returncode:
        if b"TENON_CPU" in result.stderr:
            return None
        sys.exit(result.stderr.decode())
    return hashlib.sha256(open(out, "rb").read()).hexdigest()


def compare(instruction_set, count, variants, folder, kv):
    global compared
    tokens = [(i * 7919 + i * i) % 49000 for i in range(count)]
    whole = digest(instruction_set, tokens, folder, "--kv", kv, "--chunk", "1024", "--threads", "2")
    if whole is None:
        print(f"{instruction_set}: not on this machine")
        return
    for chunk, threads in variants:
        compared += 1
        options = ["--kv", kv, "--chunk", str(chunk), "--threads", str(threads)]
        if digest(instruction_set, tokens, folder, *options) != whole:
            failures.append(f"{instruction_set}: {count} tokens with {' '.join(options)} differ from the whole")


with tempfile.TemporaryDirectory() as temporary:
    for name in ("avx512vnni", "avxvnni", "avx2", "portable"):
        compare(name, 40, [(1, 2), (7, 1), (32, 1)], temporary, "f16")
        compare(name, 40, [(7, 2)], temporary, "f32")
        compare(name, 40, [(1, 1), (7, 2)], temporary, "int8")
    compare("avx512vnni", 600, [(512, 1), (512, 2), (32, 2)], temporary, "f16")
    compare("avx512vnni", 600, [(33, 1), (512, 2)], temporary, "int8")
print("\n".join(failures + [f"{compared} comparisons, {len(failures)} failures"]))
sys.exit(1 if failures or not compared else 0)
