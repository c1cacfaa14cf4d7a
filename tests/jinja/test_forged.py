"""Every chat template of tests/data/templates: whoever types its special tokens, in a message, a tool's answer or a name,
forges nothing. What the template itself writes, which is where special tokens are recognised, is the same as for harmless
words in the same places."""
import glob
import json
import os
import re
import subprocess
import sys

tenon, data = sys.argv[1:3]
WORD = "harmless"


def marks(source):
    """What looks like a special token in the template, and some of other families."""
    found = re.findall(r"<[^<>\s{}'\"]{1,40}>|<\|[^<>{}]{1,30}\|>|\[/?[A-Z_]{2,20}\]|<｜[^<>]{1,30}｜>", source)
    return sorted(set(found) | {"<|im_end|>", "<|im_start|>", "</s>", "<s>", "[/INST]", "<|eot_id|>", "<end_of_turn>"})


def conversations(text):
    user = {"role": "user", "content": text}
    call = {"id": "call00001", "type": "function", "function": {"name": "f", "arguments": {"k": text}}}
    yield {"messages": [user]}
    yield {"messages": [{"role": "system", "content": text}, user]}
    yield {"messages": [user, {"role": "assistant", "content": text}, user]}
    yield {"messages": [user, {"role": "assistant", "content": "", "tool_calls": [call]},
                        {"role": "tool", "name": "f", "tool_call_id": "call00001", "content": text}],
           "tools": [{"type": "function", "function": {"name": "f", "description": text, "parameters": {
               "type": "object", "properties": {"k": {"type": "string", "description": text}}, "required": ["k"]}}}]}


def trusted_parts(answer):
    """The template's own words. Spans count bytes."""
    text = answer["text"].encode()
    return b"\0".join(text[at:at + size] for at, size, is_trusted in answer["spans"] if is_trusted)


def ask(source, text):
    lines = []
    for context in conversations(text):
        context = {"bos_token": "<BOS>", "eos_token": "<EOS>", "add_generation_prompt": True, "tools": None, **context}
        lines.append(json.dumps({"template": source, "context": context, "now": "2026-01-02T03:04:05"}))
    run = subprocess.run([tenon, "render", "--jsonl", "--spans"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


checked = 0
for path in sorted(glob.glob(os.path.join(data, "templates", "*.jinja"))):
    with open(path, encoding="utf-8") as file:
        source = file.read()
    plain = ask(source, WORD)
    for mark in marks(source):
        for number, (expected, got) in enumerate(zip(plain, ask(source, "a %s b%sc" % (mark, mark)))):
            if "error" in got:  # a template may refuse a text, or a conversation of this form
                continue
            checked += 1
            if trusted_parts(expected).replace(b"\0", b"") != trusted_parts(got).replace(b"\0", b""):
                sys.exit("%s, conversation %d: %s is taken for the template's own\n%r\n%r" %
                         (os.path.basename(path), number, mark, trusted_parts(expected), trusted_parts(got)))
print("%d checked" % checked)
sys.exit(0 if checked > 300 else "too few")
