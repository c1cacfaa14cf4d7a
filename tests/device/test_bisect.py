"""tenon test-device --bisect over small models of several families: the cpu is right in every op, an injected fault is
found where it was put, and the saved op shows it when it is run alone."""
import os
import re
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1], sys.argv[2]
SCRATCH = tempfile.mkdtemp(prefix="tenon-bisect-")
CASE = os.path.join(SCRATCH, "op.case")


def run(*arguments):
    return subprocess.run([TENON, "test-device", *arguments], capture_output=True, text=True, timeout=120)


def model(name):
    file = os.path.join(DATA, "golden", name, "model.gguf")
    return file if os.path.exists(file) else os.path.dirname(file)


def bisect(device, name, *more):
    return run(device, "--model", model(name), "--bisect", "--save", CASE, *more)


def expect(condition, *what):
    if not condition:
        print(*what)
        sys.exit(1)


def sound_devices():
    for name in ("llama", "gpt2", "gemma3", "mixtral", "qwen3next", "deepseek3"):
        for device, mode in (("cpu", "auto"), ("reference,private-memory=1", "float")):
            answer = bisect(device, name, "--activations", mode, "--rows", "35")
            expect(answer.returncode == 0 and re.search(r"^all \d+ ops are within tolerance$", answer.stdout, re.M),
                   device, name, answer.stdout[-1500:], answer.stderr)
            expect(not os.path.exists(CASE), "a case was saved")


def faults():
    for fault, op in (("wrong-pairing", "rope"), ("swapped-heads", "kv_write"), ("no-activation", "linear"),
                      ("wrong-page", "kv_write")):
        answer = bisect("faulty:cpu,fault=" + fault, "llama", "--rows", "40")
        wrong = re.search(r"^ *(\d+)  (\w+) .*OUT OF TOLERANCE$", answer.stdout, re.M)
        expect(answer.returncode == 1 and wrong and wrong.group(2) == op, fault, answer.stdout[-1500:], answer.stderr)
        alone = run("faulty:cpu,fault=" + fault, "--replay", CASE)
        expect(alone.returncode == 1 and alone.stdout.startswith("FAILED  " + op), fault, alone.stdout, alone.stderr)
        alone = run("cpu", "--replay", CASE)
        expect(alone.returncode == 0 and alone.stdout.startswith("ok "), fault, alone.stdout, alone.stderr)


def one_op():
    """A fault in one op in the middle: exactly that one is named, with --all too."""
    for more in ((), ("--all",)):
        answer = bisect("faulty:cpu,fault=tail,fault-at=20", "llama", *more)
        wrong = re.findall(r"^ *(\d+)  (\w+) .*OUT OF TOLERANCE$", answer.stdout, re.M)
        expect(answer.returncode == 1 and [int(n) for n, _ in wrong] == [19], answer.stdout[-2500:])
        expect("row 0, column" in answer.stdout and " --replay " + CASE in answer.stdout, answer.stdout[-500:])


def damaged_files():
    with open(CASE, "rb") as file:
        whole = file.read()
    damaged = os.path.join(SCRATCH, "damaged.case")
    for content in (b"", whole[:50], whole[:-8], whole + b"12345678", b"X" + whole[1:], whole[:12] + b"\xff" * 8 + whole[20:]):
        with open(damaged, "wb") as file:
            file.write(content)
        answer = run("cpu", "--replay", damaged)
        expect(answer.returncode == 1 and damaged in answer.stderr, len(content), answer.stdout, answer.stderr)
    for at in range(0, min(len(whole), 4000), 61):
        with open(damaged, "wb") as file:
            file.write(whole[:at] + bytes([whole[at] ^ 0xff]) + whole[at + 1:])
        expect(run("cpu", "--replay", damaged).returncode in (0, 1), "byte", at)


sound_devices()
faults()
one_op()
damaged_files()
expect(run("cpu", "--bisect").returncode == 2, "--bisect without a model")
for name in os.listdir(SCRATCH):
    os.remove(os.path.join(SCRATCH, name))
os.rmdir(SCRATCH)
