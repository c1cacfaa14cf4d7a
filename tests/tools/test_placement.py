"""`--place` on the commands that take it, and what `inspect --placement` says: parts, their memory, what crosses, what
fell back. Arguments: the tenon command, test data."""
import json
import os
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1], sys.argv[2]
LLAMA = os.path.join(DATA, "golden", "llama", "model.gguf")
GEMMA = os.path.join(DATA, "golden", "gemma4-ple", "model.gguf")
TOY = os.path.join(os.path.dirname(TENON), "tests", "module-device-toy.so")
PLACE = "0-1=reference,private-memory=1,rest=cpu,threads=1"
failures = []


def expect(condition, *what):
    if not condition:
        failures.append(" ".join(map(str, what)))


def tenon(*arguments, status=0):
    result = subprocess.run([TENON, *arguments], capture_output=True, text=True, timeout=60)
    expect(result.returncode == status, arguments, "ends with", result.returncode, result.stderr)
    return result.stderr if status else result.stdout


def parts(model, *options):
    return json.loads(tenon("inspect", model, "--placement", "--json", "--ctx", "128", *options))


# what is where
got = parts(LLAMA, "--place", PLACE)
expect([(p["device"], p["layers"]) for p in got["parts"]] ==
       [("cpu,threads=1", "embeddings"), ("reference,private-memory=1", "0-1"), ("cpu,threads=1", "2 head")], got)
expect([p["kv_position"] for p in got["parts"]] == [0, 256, 128], "KV lies with its layers:", got)
expect([len(p["carried"]) for p in got["parts"]] == [0, 2, 1] and got["parts"][2]["carried_row"] == 64 * 4, got)
expect(not got["fallbacks"], got)
weights = json.loads(tenon("inspect", LLAMA, "--json", "--ctx", "128", "--place", PLACE))["memory"]["weights"]
named = sum(p["weights"] for p in got["parts"])
expect(named <= weights <= named + 1024, "weights:", named, weights)

# what falls back: ops a device lacks, and a layer that reads another's KV
got = parts(LLAMA, "--device", TOY)
expect({f["op"].split(" ")[0]: f["why"] for f in got["fallbacks"]} == {"embed": "lacks it", "select_rows": "lacks it"}, got)
expect(all(f["device"] == "cpu" and f["wanted"] == TOY for f in got["fallbacks"]), got)
got = parts(GEMMA, "--place", "0-1=reference,rest=cpu")
expect([(f["op"], f["layers"], f["device"]) for f in got["fallbacks"]] == [("attention (f32, f16)", [3, 4], "reference")], got)
table = tenon("inspect", GEMMA, "--placement", "--place", "0-1=reference,rest=cpu")
expect("in layers 3 to 4: on reference, not cpu" in table and "carried here" in table, table)

# a device of fixed shapes among others; two that differ
got = parts(LLAMA, "--place", f"1={TOY},rest=cpu")
expect([p["layers"] for p in got["parts"] if p["device"] == TOY] == ["1"], got)
message = tenon("inspect", LLAMA, "--placement", "--place", f"0={TOY},length=128,1={TOY},length=512,rest=cpu", status=1)
expect("can't run one model" in message, message)

# on every command, and the same bits
with tempfile.TemporaryDirectory() as folder:
    def logits(*options):
        out = os.path.join(folder, "out")
        tenon("logits", LLAMA, "--tokens", "1,2,3,4,5,6,7", "--all", "--out", out, *options)
        return open(out, "rb").read()
    expect(logits("--place", "0-1=cpu,threads=1,rest=cpu,threads=2") == logits(), "two devices of a kind give other bits")
    expect(logits("--place", "1=reference", "--device", "reference,private-memory=1") == logits("--device", "reference"),
           "private memory gives other bits")
expect('"tokens_per_s"' in tenon("bench", "model", LLAMA, "--place", PLACE, "-p", "8", "-n", "4", "-r", "1", "--json"), "bench")
for command in ("run", "chat", "serve", "logits", "inspect"):
    expect("--place P" in tenon("help", command), command, "has no --place")
for command in (("eval", "perplexity"), ("eval", "speculate"), ("bench", "model")):
    expect("--place P" in tenon(*command, "--help"), command, "has no --place")

# what is refused
for place, more, why in (("0-1=cpu", (), "layer 2 of 0 to 2 has no device"), ("0-9=cpu", (), "the model has layers 0 to 2"),
                         ("rest=cpu", ("--device", "reference"), "it has a device already"),
                         ("0=reference", ("--threads", "2", "--device", "reference,private-memory=1"), "no device of the placement is a cpu"),
                         ("auto", ("--device", "cpu:0"), "names one of them")):
    message = tenon("logits", LLAMA, "--tokens", "1", "--out", os.devnull, "--place", place, *more, status=1)
    expect(why in message, place, more, ":", message)
print("\n".join(failures + [f"{len(failures)} failures"]))
sys.exit(1 if failures else 0)
