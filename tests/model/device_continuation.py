"""The default model on one device against its recorded continuation (data/golden/smollm2.json): the logits of the prompt's
last row, each greedy token as long as the reference's choice is clear, and the text that the engine's own loop gives.
TENON_TEST_MODEL names the model file. Arguments: the tenon command, test data, tokens, auto or float (activations), then
the options that choose the device."""
import array
import json
import os
import subprocess
import sys
import tempfile

TENON, DATA, TOKENS, ACTIVATIONS, *DEVICE = sys.argv[1:]
MODEL = os.environ["TENON_TEST_MODEL"]
PROMPT = next(p for p in json.load(open(os.path.join(DATA, "golden", "smollm2.json")))["prompts"]
              if p["name"] == "english-short")
# Largest difference of a logit, and the gap between the two best tokens from which on the best must be the reference's.
DIFFERENCE, GAP = (0.002, 0.004) if ACTIVATIONS == "float" else (0.6, 0.6)
OPTIONS = DEVICE + (["--activations", "float", "--kv", "f32"] if ACTIVATIONS == "float" else ["--activations", "auto"])
failures = []


def tenon(*arguments):
    result = subprocess.run([TENON, *arguments], capture_output=True, timeout=900)
    if result.returncode:
        sys.exit(f"tenon {' '.join(arguments)[:300]}: {result.stderr.decode()}")
    return result.stdout


ids, greedy, gaps = PROMPT["ids"], PROMPT["greedy_ids"][:int(TOKENS)], PROMPT["greedy_gaps"]
with tempfile.TemporaryDirectory() as folder:
    out = os.path.join(folder, "out")
    tenon("logits", MODEL, "--tokens", ",".join(map(str, ids + greedy[:-1])), "--all", "--out", out, *OPTIONS)
    values = array.array("f")
    values.frombytes(open(out, "rb").read())
width = len(values) // (len(ids) + len(greedy) - 1)
rows = [values[i * width:(i + 1) * width] for i in range(len(ids) - 1, len(ids) + len(greedy) - 1)]
for token, value in PROMPT["top10"]:
    if not abs(rows[0][token] - value) <= DIFFERENCE:
        failures.append(f"logit {token} is {rows[0][token]:.4f}, expected {value}")
for step, (token, gap) in enumerate(zip(greedy, gaps)):
    best = max(range(width), key=rows[step].__getitem__)
    if best != token and gap > GAP:
        failures.append(f"step {step} gives {best}, expected {token} (gap {gap})")

clear = next((i for i, gap in enumerate(gaps) if gap <= GAP), len(gaps))
count = min(len(greedy), clear)
text = tenon("run", MODEL, "--raw", "-p", PROMPT["text"], "-n", str(count), "--temp", "0", *OPTIONS)
want = tenon("detokenize", MODEL, "--tokens", ",".join(map(str, greedy[:count])))
if count < 4 or text != want:
    failures.append(f"run answered {text!r}, expected {count} tokens: {want!r}")
print("\n".join(failures))
print(f"{len(rows)} rows, {count} tokens, {len(failures)} failures")
sys.exit(1 if failures else 0)
