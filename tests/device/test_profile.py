"""tenon bench model --profile and --trace on a small model: every op of the graph is counted in every step, and the
trace is one that Chrome and Perfetto read."""
import json
import os
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1], sys.argv[2]
MODEL = os.path.join(DATA, "golden", "llama", "model.gguf")


def expect(condition, *what):
    if not condition:
        print(*what)
        sys.exit(1)


def bench(*arguments):
    run = subprocess.run([TENON, "bench", "model", MODEL, "-p", "16", "-n", "4", "-r", "2", *arguments],
                         capture_output=True, text=True, timeout=120)
    return run


def profiles(device):
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.json")
        run = bench("--device", device, "--json", "--trace", trace)
        expect(run.returncode == 0, run.stderr)
        with open(trace, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    results = json.loads(run.stdout)["results"]
    expect([r["test"] for r in results] == ["prefill", "decode"], results)
    for result, steps in zip(results, (2, 8)):
        calls = {op["op"]: op["calls"] for op in result["profile"]}
        expect(calls["embed"] == steps and calls["attention"] % steps == 0 and calls["linear"] >= 4 * steps, calls)
        shares = [op["percent"] for op in result["profile"]]
        expect(abs(sum(shares) - 100) < 0.01 and shares == sorted(shares, reverse=True), shares)
    spans = [e for e in events if e["ph"] == "X"]
    names = [e for e in events if e["ph"] == "M"]
    expect(len(names) == 1 and names[0]["args"]["name"] == device, names)
    expect({e["args"]["test"] for e in spans} == {"warm-up", "prefill", "decode"}, "tests of the trace")
    ends = 0
    for e in spans:  # one after the other, never together
        expect(e["ts"] >= ends - 0.01 and e["dur"] >= 0 and "layer" in e["args"], e)
        ends = e["ts"] + e["dur"]


def main():
    for device in ("cpu", "reference"):
        profiles(device)
    run = bench("--profile")
    expect(run.returncode == 0 and " calls " in run.stdout and " GB/s" in run.stdout, run.stdout, run.stderr)
    run = bench("--trace", "/no/such/folder/t.json")
    expect(run.returncode == 1 and "/no/such/folder/t.json" in run.stderr, run.stderr)


main()
