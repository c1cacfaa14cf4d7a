"""--weights: a model quantised at load computes what `tenon quantize` writes into a file, bit for bit, in every command;
what can't be quantised is an error. Arguments: the tenon command, test data."""
import os
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1:3]
MODELS = [DATA + "/golden/" + name for name in ("llama/model.gguf", "gemma4-moe/model.gguf", "qwen3next/model.gguf")]
FOLDER = DATA + "/golden/llama-rope3-tied"  # of safetensors
ODD = DATA + "/golden/granite"  # rows of 60
TOKENS = ",".join(map(str, range(3, 40)))


def run(*arguments):
    return subprocess.run([TENON, *arguments], capture_output=True, text=True, timeout=120)


def logits(folder, model, *options):
    out = folder + "/out.f32"
    done = run("logits", model, "--tokens", TOKENS, "--all", "--out", out, *options)
    assert done.returncode == 0, (model, options, done.stderr)
    with open(out, "rb") as file:
        return file.read()


def refused(expected, *arguments):
    done = run(*arguments)
    assert done.returncode in (1, 2) and all(part in done.stderr for part in expected), (expected, arguments, done.stderr)


with tempfile.TemporaryDirectory() as folder:
    compared = 0
    for model in (path for path in MODELS if os.path.exists(path)):
        for kind in ("q8_0", "q4_0", "mxfp4", "mxfp6"):
            written = f"{folder}/{kind}.gguf"
            done = run("quantize", model, written, "--type", kind)
            assert done.returncode == 0, done.stderr
            for options in ([], ["--activations", "float"]):
                assert logits(folder, model, "--weights", kind, *options) == logits(folder, written, *options), (model, kind)
                compared += 1
    assert compared >= 16, compared

    assert len({logits(folder, FOLDER, "--weights", kind) for kind in ("q8_0", "q4_0", "mxfp4", "mxfp6")}) == 4
    plain = logits(folder, FOLDER, "--packed", folder + "/store")
    small = logits(folder, FOLDER, "--packed", folder + "/store", "--weights", "q4_0")
    assert plain != small and len(os.listdir(folder + "/store")) == 2
    assert small == logits(folder, FOLDER, "--packed", folder + "/store", "--weights", "q4_0")
    assert small == logits(folder, FOLDER, "--weights", "q4_0", "--threads", "1")

    model = MODELS[0]
    refused(["weights", "q4_k", "expected q8_0"], "logits", model, "--tokens", "1", "--out", folder + "/x", "--weights", "q4_k")
    refused(["no matrix", "q8_0"], "logits", folder + "/q8_0.gguf", "--tokens", "1", "--out", folder + "/x", "--weights", "q4_0")
    refused(["rows of 60", "multiple of 32"], "logits", ODD, "--tokens", "1", "--out", folder + "/x", "--weights", "q8_0")
    refused(["expected q8_0"], "run", model, "-p", "x", "--weights", "q2")
    refused(["expected q8_0"], "serve", model, "--weights", "q2", "--port", "0")
    refused(["expected q8_0"], "bench", "model", model, "-p", "8", "-n", "4", "--weights", "q2")
    text = folder + "/text"
    with open(text, "w") as file:
        file.write("word " * 400)
    refused(["expected q8_0"], "eval", "perplexity", model, "--file", text, "--ctx", "64", "--weights", "q2")
print("ok")
