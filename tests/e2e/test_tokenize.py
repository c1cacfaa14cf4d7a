#!/usr/bin/env python3
"""tenon tokenize and detokenize: one text, files, stdin, request lines, and what they refuse. Arguments: the tenon command, tests/data."""
import json
import os
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1:3]
FOLDER = os.path.join(DATA, "tokenizers", "smollm2")
GGUF = os.path.join(DATA, "tokenizers", "vocab", "llama-spm.gguf")
failures = 0


def run(*arguments, stdin=""):
    return subprocess.run([TENON, *arguments], input=stdin.encode(), capture_output=True, timeout=60)


def expect(what, good):
    global failures
    if not good:
        failures += 1
        print("FAILED:", what)


def refused(status, word, *arguments, stdin=""):
    result = run(*arguments, stdin=stdin)
    message = result.stderr.decode(errors="replace")
    expect(f"{arguments}: exit {result.returncode}, {message!r}", result.returncode == status and word in message)


def ids(*arguments, stdin=""):
    return json.loads(run("tokenize", *arguments, stdin=stdin).stdout)


first = ids(GGUF, "-p", "Hello world")
expect("BOS in front", first[0] == 1 and len(first) == 3)
expect("--no-bos", ids(GGUF, "-p", "Hello world", "--no-bos") == first[1:])
expect("stdin", ids(GGUF, stdin="Hello world") == first)
expect("control tokens are text", len(ids(FOLDER, "-p", "<|im_end|>")) > 1)
expect("--special", len(ids(FOLDER, "-p", "<|im_end|>", "--special")) == 1)
expect("a tokenizer.json alone", ids(os.path.join(FOLDER, "tokenizer.json"), "-p", "a b") == ids(FOLDER, "-p", "a b"))
with tempfile.NamedTemporaryFile(suffix=".txt") as file:
    file.write(b"bytes \xff\xfe stay")
    file.flush()
    listed = ids(GGUF, "--file", file.name, "--no-bos")
back = run("detokenize", GGUF, "--tokens", ",".join(map(str, listed))).stdout
expect("detokenize", back == "bytes \ufffd\ufffd stay\n".encode())
expect("ids on stdin", run("detokenize", GGUF, stdin=json.dumps(listed)).stdout == back)
expect("--skip-special", run("detokenize", GGUF, "--tokens", "1," + str(first[1]), "--skip-special").stdout == b"Hello\n")

requests = ['{"text": "a\\u0000b", "special": false, "bos": false}', "not JSON", '{"text": 1}', "{}", '{"text": "x", "odd": 1}',
            '{"text": "", "bos": true}', '{"text": "\\ud800"}', '{"text": "last"}']
answers = [json.loads(line) for line in run("tokenize", GGUF, "--jsonl", stdin="\n".join(requests) + "\n").stdout.splitlines()]
expect("one answer a line", len(answers) == len(requests))
expect("bad lines are answered", [("error" in a) for a in answers] == [False, True, True, True, True, False, True, False])
expect("empty text", answers[5]["ids"] == [1])
answers = [json.loads(line) for line in run("detokenize", GGUF, "--jsonl", stdin='{"ids": [15043, 3186]}\n{"ids": [99999999]}\n{"ids": [-1]}\n').stdout.splitlines()]
expect("pieces", answers[0] == {"text": "Hello world", "pieces": [" Hello", " world"]})
expect("ids out of range", all("below 32000" in a["error"] for a in answers[1:]))

refused(2, "bloat", "tokenize", GGUF, "--bloat")
refused(2, "", "tokenize")
refused(1, "no-such", "tokenize", "/no-such/file.gguf", "-p", "x")
refused(1, "no-such", "tokenize", GGUF, "--file", "/no-such/file")
refused(1, "32000", "detokenize", GGUF, "--tokens", "32000")
refused(1, "token id", "detokenize", GGUF, "--tokens", "one")
refused(1, "token id", "detokenize", GGUF, "--tokens", "1,,2")
refused(1, "tokenizer.json", "tokenize", DATA, "-p", "x")
refused(1, "JSON", "tokenize", os.path.join(FOLDER, "vectors.jsonl"), "-p", "x")
with open("/dev/full", "wb") as full:
    result = subprocess.run([TENON, "tokenize", GGUF, "-p", "x"], stdout=full, stderr=subprocess.PIPE, timeout=60)
    expect("a full disk is an error", result.returncode == 1 and result.stderr)
sys.exit(1 if failures else 0)
