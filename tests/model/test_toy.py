"""The example of a fixed-shape device, built outside the tree against an installed prefix: the conformance kit, and the
default model's reference tokens (data/golden/smollm2.json), on 1 and 32 rows, with the move from 128 to 512 slots of KV
in mid-text. TENON_TEST_MODEL names the model file. Arguments: the tenon command, test data."""
import array
import json
import os
import subprocess
import sys
import tempfile

TENON, DATA = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.environ.get("TENON_TEST_MODEL") or sys.exit("TENON_TEST_MODEL is not set; ./dev test sets it")
GOLDEN = json.load(open(os.path.join(DATA, "golden", "smollm2.json")))
FLOAT = ["--activations", "float", "--kv", "f32"]
SOURCE = os.path.join(ROOT, "examples", "driver-toy", "driver.c")
failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)


def build(folder):
    """The driver as its first lines say to build it; and the installed command."""
    prefix = os.path.join(folder, "prefix")
    subprocess.run(["cmake", "--install", os.path.dirname(TENON), "--prefix", prefix], check=True,
                   stdout=subprocess.DEVNULL)
    (config,) = [at for at, _, names in os.walk(prefix) if "tenon-driver.pc" in names]
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "tenon-driver"], check=True, capture_output=True,
                           text=True, env=dict(os.environ, PKG_CONFIG_PATH=config)).stdout.split()
    library = os.path.join(folder, "toy.so")
    subprocess.run(["cc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", SOURCE, *flags, "-o",
                    library], check=True)
    return os.path.join(prefix, "bin", "tenon"), library


def tenon(command, *arguments):
    result = subprocess.run([command, *arguments], capture_output=True, timeout=600)
    if result.returncode:
        sys.exit(f"tenon {' '.join(arguments)[:300]}: {result.stdout.decode()[-2000:]}{result.stderr.decode()[-2000:]}")
    return result.stdout


def logits(command, device, tokens, folder):
    """One row of logits for each token."""
    out, listed = os.path.join(folder, "out"), os.path.join(folder, "tokens")
    with open(listed, "w", encoding="ascii") as file:
        file.write(",".join(map(str, tokens)))
    tenon(command, "logits", MODEL, "--tokens-file", listed, "--all", "--out", out, "--device", device, *FLOAT)
    values = array.array("f")
    values.frombytes(open(out, "rb").read())
    width = len(values) // len(tokens)
    return [values[i * width:(i + 1) * width] for i in range(len(tokens))]


def best(row):
    return max(range(len(row)), key=row.__getitem__)


with tempfile.TemporaryDirectory(prefix="tenon-toy-") as scratch:
    lines = len(open(SOURCE, encoding="utf-8").read().splitlines())
    expect(lines <= 600, f"the toy has {lines} lines")
    installed, toy = build(scratch)
    report = json.loads(tenon(installed, "test-device", "--driver", toy, "--json"))
    summary = report["summary"]
    native = {c["op"] for c in report["coverage"] if c["native"]}
    print(f"kit: {summary['passed']} passed, {summary['failed']} failed, {summary['fallback']} fall back")
    expect(summary["failed"] == 0 and summary["passed"] > 500, f"the kit: {summary}")
    expect({"linear", "norm", "attention_masked", "kv_columns"} <= native, f"native: {sorted(native)}")
    expect(not {"embed", "select_rows", "softcap"} & native, f"native: {sorted(native)}")

    # the golden ids fed 32 rows at a time: the argmax where the reference's gap is clear
    for prompt in GOLDEN["prompts"]:
        if len(prompt["ids"]) > 100:
            continue
        greedy = prompt["greedy_ids"]
        rows = logits(installed, toy, prompt["ids"] + greedy[:-1], scratch)[len(prompt["ids"]) - 1:]
        for token, value in prompt["top10"]:
            expect(abs(rows[0][token] - value) <= 0.002, f"{prompt['name']}: logit {token}: {rows[0][token]}, not {value}")
        for step, (token, gap) in enumerate(zip(greedy, prompt["greedy_gaps"])):
            expect(best(rows[step]) == token or gap <= 0.004, f"{prompt['name']}: step {step} gives {best(rows[step])}")

    # the engine's own loop: one row a step
    prompt = next(p for p in GOLDEN["prompts"] if p["name"] == "english-short")
    text = tenon(installed, "run", MODEL, "--raw", "-p", prompt["text"], "-n", "16", "--temp", "0", "--device", toy, *FLOAT)
    expect(len(text) > 20 and bytes.fromhex(prompt["greedy_hex"]).startswith(text.rstrip(b"\n")), f"run answered {text!r}")

    # a longer text, which outgrows 128 slots: as the cpu has it, and in the engine's loop
    tokens = next(p for p in GOLDEN["prompts"] if p["name"] == "wiki-long")["ids"][:150]
    wanted, got = (logits(installed, device, tokens, scratch) for device in ("cpu", toy))
    worst = max(abs(a - b) for x, y in zip(wanted[100:], got[100:]) for a, b in zip(x, y))
    expect(worst <= 0.002, f"across 128 slots the logits differ by {worst}")
    long_text = tenon(installed, "detokenize", MODEL, "--tokens", ",".join(map(str, tokens[:120]))).decode().rstrip("\n")
    answers = [tenon(installed, "run", MODEL, "--raw", "-p", long_text, "-n", "12", "--temp", "0", "--device", device,
                     *FLOAT) for device in ("cpu", toy)]
    expect(answers[0] == answers[1] and len(answers[0]) > 20, f"across 128 slots: {answers}")

for failure in failures[:30]:
    print(failure)
sys.exit(1 if failures else 0)
