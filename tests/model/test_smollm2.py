"""The default model against recorded float32 results (data/golden/smollm2.json, made with llama.cpp and cross-checked in float64):
token ids, top-10 logits, greedy continuations, perplexity. TENON_TEST_MODEL names the model file. Arguments: the tenon command, test data."""
import array
import json
import os
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1], sys.argv[2]
MODEL = os.environ.get("TENON_TEST_MODEL") or sys.exit("TENON_TEST_MODEL is not set; ./dev test sets it")
GOLDEN = json.load(open(os.path.join(DATA, "golden", "smollm2.json")))
FLOAT = ["--activations", "float", "--kv", "f32"]
failures = []


def tenon(*arguments, stdin=None):
    result = subprocess.run([TENON, *arguments], input=stdin, capture_output=True, timeout=900)
    if result.returncode:
        sys.exit(f"tenon {' '.join(arguments)[:200]}: {result.stderr.decode()}")
    return result.stdout


def logits_rows(tokens, first, options, folder):
    """Rows of logits from position `first` on."""
    out, tokens_file = os.path.join(folder, "out"), os.path.join(folder, "tokens")
    with open(tokens_file, "w") as f:
        f.write(",".join(map(str, tokens)))
    tenon("logits", MODEL, "--tokens-file", tokens_file, "--all", "--out", out, *options)
    values = array.array("f")
    values.frombytes(open(out, "rb").read())
    width = len(values) // len(tokens)
    return [values[i * width:(i + 1) * width] for i in range(first, len(tokens))]


def check_prompt(prompt, options, largest_difference, smallest_gap, folder):
    """The golden ids are fed; each argmax is compared where the reference's gap is clear enough."""
    ids, greedy = prompt["ids"], prompt["greedy_ids"]
    rows = logits_rows(ids + greedy[:-1], len(ids) - 1, options, folder)
    for token, value in prompt["top10"]:
        if not abs(rows[0][token] - value) <= largest_difference:
            failures.append(f"{prompt['name']} {options}: logit {token} is {rows[0][token]:.4f}, expected {value}")
    for step, (token, gap) in enumerate(zip(greedy, prompt["greedy_gaps"])):
        best = max(range(len(rows[step])), key=rows[step].__getitem__)
        if best != token and gap > smallest_gap:
            failures.append(f"{prompt['name']} {options}: step {step} gives {best}, expected {token} (gap {gap})")


def check_greedy_text(prompt):
    """The engine's own loop: float, one prompt at a time, as text. A tie closer than float differences may go either way."""
    if min(prompt["greedy_gaps"]) < 0.004 or "<|" in prompt["text"]:
        return
    text = tenon("run", MODEL, "--raw", "-p", prompt["text"], "-n", str(len(prompt["greedy_ids"])), *FLOAT)
    want = bytes.fromhex(prompt["greedy_hex"]).replace(b"<|im_end|>", b"").replace(b"<|endoftext|>", b"")
    if text != want + b"\n":
        failures.append(f"{prompt['name']}: run answered {text!r}, expected {want!r}")


def check_perplexity(options, low, high):
    text = os.path.join(DATA, "golden", "wiki-40k.txt")
    value = json.loads(tenon("eval", "perplexity", MODEL, "--file", text, "--json", *options))["perplexity"]
    print(f"perplexity {' '.join(options) or 'by default'}: {value:.4f}")
    if not low <= value <= high:
        failures.append(f"perplexity {options}: {value:.4f}, expected {low:.4f} .. {high:.4f}")
    return value


with tempfile.TemporaryDirectory() as temporary:
    for case in GOLDEN["prompts"]:
        ids = json.loads(tenon("tokenize", MODEL, "--special", "--file", "-", stdin=case["text"].encode()))
        if ids != case["ids"]:
            failures.append(f"{case['name']}: ids {ids}, expected {case['ids']}")
        check_prompt(case, FLOAT, 0.002, 0.004, temporary)
        check_prompt(case, [], 0.6, 0.6, temporary)
        check_greedy_text(case)
check_perplexity(["--activations", "float"], 26.957 * 0.9995, 26.957 * 1.0005)
usual = check_perplexity([], 0, 27.092 * 1.001)
check_perplexity(["--kv", "int8"], usual * 0.997, usual * 1.003)
for failure in failures[:30]:
    print(failure)
print(f"{len(GOLDEN['prompts'])} prompts, {len(failures)} failures")
sys.exit(1 if failures else 0)
