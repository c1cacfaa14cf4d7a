"""What `inspect` says a run will take, beside what the run took: weights and the KV that was filled must be there, the
sum must hold. TENON_TEST_MODEL names the default model. Arguments: the tenon command, test data."""
import json
import os
import resource
import subprocess
import sys

TENON = sys.argv[1]
MODEL = os.environ.get("TENON_TEST_MODEL") or sys.exit("TENON_TEST_MODEL is not set; ./dev test sets it")
failures = []


def peak_of(*arguments):
    """Peak resident bytes of one run of tenon (of the largest child so far, so the runs grow)."""
    subprocess.run([TENON, *arguments], check=True, capture_output=True, timeout=600)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def memory_of(*arguments):
    inspected = subprocess.run([TENON, "inspect", MODEL, "--json", *arguments], check=True, capture_output=True)
    return json.loads(inspected.stdout)["memory"]


# a short text in the model's whole context touches little KV, whatever pages the system has
said, took = memory_of(), peak_of("run", MODEL, "--raw", "-p", "Once upon a time", "-n", "8")
print(f"8 tokens: the run took {took}; {said}")
if took > said["weights"] + said["arena"] + (24 << 20):
    failures.append("a run of 8 tokens took more than 24 MB beside its weights and arena")
for context in (512, 1024):
    said = memory_of("--ctx", str(context))
    took = peak_of("run", MODEL, "--raw", "-p", "Once upon a time", "-n", str(context - 16), "--ctx", str(context))
    print(f"context {context}: inspect says at most {said['total']}, the run took {took}; {said}")
    if said["fixed"] > 64 << 20:
        failures.append("the fixed part is above 64 MB")
    if took > said["total"]:
        failures.append(f"context {context}: the run took more than inspect said")
    if took < said["weights"] + said["kv"] // 2:
        failures.append(f"context {context}: the run took less than its weights and KV, so inspect's figures are wrong")
print("\n".join(failures))
sys.exit(1 if failures else 0)
