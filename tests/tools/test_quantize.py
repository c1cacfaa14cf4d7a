"""tenon quantize: what was asked for is what is in the file, and wrong wishes leave no file."""
import array
import os
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1:3]
MODEL = DATA + "/golden/llama/model.gguf"
EXPERTS = DATA + "/golden/gemma4-moe/model.gguf"


def run(*arguments):
    return subprocess.run([TENON, *arguments], capture_output=True, text=True, timeout=120)


def logits(path):
    out = path + ".f32"
    done = run("logits", path, "--tokens", ",".join(map(str, range(3, 40))), "--all", "--out", out, "--activations", "float")
    assert done.returncode == 0, done.stderr
    values = array.array("f")
    with open(out, "rb") as file:
        values.frombytes(file.read())
    return values


def stray(path, want):
    got = logits(path)
    return max(abs(a - b) for a, b in zip(got, want)) / (max(want) - min(want))


with tempfile.TemporaryDirectory() as folder:
    out = folder + "/out.gguf"
    run("quantize", MODEL, folder + "/same.gguf", "--type", "f32")
    want = logits(folder + "/same.gguf")
    for kind, limit in (("bf16", 0.02), ("f16", 0.003), ("q8_0", 0.06), ("q5_1", 0.3), ("mxfp6", 0.4), ("q4_0", 0.8)):
        done = run("quantize", MODEL, out, "--type", kind)
        assert done.returncode == 0 and kind in done.stdout, (kind, done.stderr)
        assert stray(out, want) <= limit, (kind, stray(out, want))
        listed = [line for line in run("inspect", out).stdout.splitlines() if line.strip().startswith("blk.0.ffn_up.weight")]
        assert listed and f" {kind} " in listed[0], listed

    done = run("quantize", MODEL, out, "--type", "q4_0", "--tensor", "blk.*=q8_0", "--tensor", "*ffn_down*=f16")
    assert done.returncode == 0, done.stderr
    text = run("inspect", out).stdout
    kinds = {line.split()[0]: line.split()[1] for line in text.splitlines() if line.strip().startswith(("blk.0.", "token_embd"))}
    assert kinds["blk.0.ffn_up.weight"] == "q8_0" and kinds["blk.0.ffn_down.weight"] == "f16", kinds
    assert kinds["token_embd.weight"] == "q4_0" and kinds["blk.0.attn_norm.weight"] == "f32", kinds

    done = run("quantize", EXPERTS, out, "--type", "q8_0")
    assert done.returncode == 0, done.stderr
    logits(out)

    os.remove(out)
    for wrong in (["--type", "q4_k"], ["--type", "q9"], [], ["--type", "q8_0", "--tensor", "nothing*=f16"],
                  ["--type", "q8_0", "--tensor", "blk.0"], ["--type", "q8_0", "--tensor", "*=iq4_nl"]):
        done = run("quantize", MODEL, out, *wrong)
        assert done.returncode == (1 if wrong else 2) and done.stderr.startswith("tenon"), (wrong, done.stderr)
        assert not os.path.exists(out) and os.listdir(folder) and not [f for f in os.listdir(folder) if "out.gguf." in f and not f.endswith(".f32")]
print("ok")
