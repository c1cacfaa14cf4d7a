"""tenon quantize of a folder: the GGUF file computes what the folder does, tokenizes and renders what it does; what GGUF has
no way to say is refused by name, and no file is left. Arguments: the tenon command, test data."""
import array
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1:3]
sys.path.insert(0, os.path.join(os.path.dirname(DATA), "golden"))
import shapes  # noqa: E402
GOLDEN = DATA + "/golden/"
TOKENS = ",".join(map(str, range(3, 40)))
# GGUF has rows of q and k (llama's kin) or value heads (qwen35) in another order, or longrope's factors in 32 bits: sums go in
# another order, or are of numbers that differ in the last bit
REORDERED = {"llama", "mistral", "mixtral", "granite", "smollm3", "qwen3_5_text", "qwen3_5", "qwen3_5_moe", "phi3"}
# what only tenon reads, and the report says so
RARE = {"gemma2": "gemma2.attention.scale", "gptoss-mxfp4": "gpt-oss.rope.scaling.yarn_truncate",
        "qwen2-window": "qwen2.attention.sliding_window_pattern"}


def run(*arguments):
    return subprocess.run([TENON, *arguments], capture_output=True, text=True, timeout=120)


def logits(folder, model, *options):
    out = folder + "/out.f32"
    done = run("logits", model, "--tokens", TOKENS, "--all", "--out", out, *options)
    assert done.returncode == 0, (model, done.stderr)
    values = array.array("f")
    with open(out, "rb") as file:
        values.frombytes(file.read())
    return values


def quantised(source, out, *options):
    done = run("quantize", source, out, *options)
    assert done.returncode == 0, (source, options, done.stderr)
    return done.stdout


def write_folder(folder, tokenizer, vocabulary):
    """A llama of random weights beside a tokenizer."""
    width, heads, kv_heads, ffn = 64, 4, 2, 96
    shutil.copytree(tokenizer, folder)
    config = {"model_type": "llama", "hidden_size": width, "intermediate_size": ffn, "num_hidden_layers": 1,
              "num_attention_heads": heads, "num_key_value_heads": kv_heads, "max_position_embeddings": 512,
              "rms_norm_eps": 1e-5, "vocab_size": vocabulary, "tie_word_embeddings": True, "rope_theta": 10000.0}
    with open(folder + "/config.json", "w") as file:
        json.dump(config, file)
    with open(folder + "/chat_template.jinja", "w") as file:
        file.write("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}")
    generator, header, parts, at = random.Random(3), {}, [], 0
    shapes = {"embed_tokens.weight": [vocabulary, width], "norm.weight": [width], "layers.0.input_layernorm.weight": [width],
              "layers.0.post_attention_layernorm.weight": [width], "layers.0.self_attn.q_proj.weight": [width, width],
              "layers.0.self_attn.k_proj.weight": [width // 2, width], "layers.0.self_attn.v_proj.weight": [width // 2, width],
              "layers.0.self_attn.o_proj.weight": [width, width], "layers.0.mlp.gate_proj.weight": [ffn, width],
              "layers.0.mlp.up_proj.weight": [ffn, width], "layers.0.mlp.down_proj.weight": [width, ffn]}
    numbers = [struct.pack("<f", generator.gauss(0, 0.2))[2:] for _ in range(4096)]
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        data = b"".join(generator.choices(numbers, k=count))
        header["model." + name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    with open(folder + "/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def answers(command, model, requests):
    done = subprocess.run([TENON, command, model, "--jsonl"], input="".join(json.dumps(r) + "\n" for r in requests),
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


SMALL = DATA + "/tokenizers/small/"


def changed_tokenizer(folder, name, change, source=None):
    """A folder with a small tokenizer, changed; `source`: the tokenizer goes into that folder."""
    if source is None:
        shutil.rmtree(folder, ignore_errors=True)
        write_folder(folder, SMALL + name, 1200)
    with open(f"{SMALL}{name}/tokenizer.json", encoding="utf-8") as file:
        tokenizer = json.load(file)
    change(tokenizer)
    with open(folder + "/tokenizer.json", "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)


def texts_of(name):
    with open(f"{SMALL}{name}/vectors.jsonl", encoding="utf-8") as file:
        return [text for text in (json.loads(line).get("text", "") for line in file) if "</s>" not in text]


def same_tokens(made, folder, texts):
    requests = [{"text": text, "special": special} for text in texts for special in (False, True)]
    assert len(requests) > 8 and answers("tokenize", made, requests) == answers("tokenize", folder, requests), folder


def refused(folder, made, *words):
    done = run("quantize", folder, made, "--type", "bf16")
    assert done.returncode == 1 and all(word in done.stderr for word in words) and not os.path.exists(made), done.stderr


def added(text, number, **flags):
    return {"id": number, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": True, **flags}


def pieces_as_trained(tokenizer, prefix=True):
    """SentencePiece's unigram as transformers writes it: runs of blanks are one, those at the end go."""
    steps = tokenizer["normalizer"]["normalizers"]
    tokenizer["normalizer"]["normalizers"] = [steps[0], {"type": "Strip", "strip_left": False, "strip_right": True}, {
        "type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}]
    if not prefix:
        tokenizer["pre_tokenizer"]["prepend_scheme"] = "never"


def pieces_with_bytes(tokenizer):
    """All blanks stay, nothing is normalized, and unknown characters are bytes."""
    tokenizer["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    tokenizer["pre_tokenizer"] = None
    tokenizer["decoder"] = {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                                                             {"type": "ByteFallback"}, {"type": "Fuse"}]}
    tokenizer["model"]["vocab"] += [[f"<0x{byte:02X}>", 0.0] for byte in range(256)]
    tokenizer["model"]["byte_fallback"] = True


def unigram(folder, made):
    """SentencePiece's unigram as GGUF has it (model "t5"): scores, types, blanks, the map of characters. (A folder's Strip takes
    off all white space of Unicode, GGUF's readers blanks.)"""
    texts = [text for text in texts_of("precompiled") if not text.endswith("\x85")]
    changed_tokenizer(folder, "precompiled", pieces_as_trained)
    assert "tokenizer.ggml.charsmap_by_cluster" in quantised(folder, made, "--type", "bf16")
    with open(made, "rb") as file:
        head = file.read(1 << 20)
    assert b"tokenizer.ggml.model\x08\0\0\0\x02\0\0\0\0\0\0\0t5" in head and b"precompiled_charsmap" in head
    same_tokens(made, folder, texts)
    changed_tokenizer(folder, "precompiled", pieces_with_bytes)
    assert "tokenizer.ggml.byte_fallback" in quantised(folder, made, "--type", "bf16")
    same_tokens(made, folder, texts)
    os.remove(made)
    for name in ("precompiled", "t5"):  # blanks at the end that stay; NFKC without a map
        changed_tokenizer(folder, name, lambda tokenizer: None)
        refused(folder, made, "Unigram", "--no-tokenizer")
    changed_tokenizer(folder, "bert", lambda tokenizer: None)
    refused(folder, made, "WordPiece", "--no-tokenizer")


def gemma4(folder, made):
    """Gemma 4's kind: merges of characters, blanks as U+2581, bytes for what has no token."""
    description = shapes.load(DATA + "/shapes/gemma4-odd.json")
    rows, description["config"]["vocab_size"] = description["V"], 900
    description["tensors"] = {name: [900 if size == rows else size for size in shape]
                              for name, shape in description["tensors"].items()}
    shapes.write_folder(description, folder)

    def change(tokenizer):
        tokenizer["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
        tokenizer["pre_tokenizer"] = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
        tokenizer["decoder"]["decoders"].pop()
        merges = tokenizer["model"]["merges"]  # Gemma's never join the end of a line with what is not one
        tokenizer["model"]["merges"] = [pair for pair in merges if len({c == "\n" for c in "".join(pair)}) == 1]
    changed_tokenizer(folder, "llama", change, folder)
    quantised(folder, made, "--type", "bf16")
    with open(made, "rb") as file:
        assert b"tokenizer.ggml.model\x08\0\0\0\x06\0\0\0\0\0\0\0gemma4" in file.read(1 << 20)
    same_tokens(made, folder, texts_of("llama"))


def normal_form(folder, made):
    """Text that byte-level BPE brings into a normal form first (Qwen)."""
    def change(tokenizer):
        tokenizer["normalizer"] = {"type": "NFC"}
        tokenizer["pre_tokenizer"]["add_prefix_space"] = False
    changed_tokenizer(folder, "gpt2", change)
    assert "tokenizer.ggml.normal_form" in quantised(folder, made, "--type", "bf16")
    same_tokens(made, folder, texts_of("gpt2") + ["e\u0301 a\u0323\u0302 \u1112\u1161\u11ab A\u030angstro\u0308m"])
    os.remove(made)


def added_tokens(folder, made):
    """How tokens that are found in the text itself are found, and which end a generation."""
    changed_tokenizer(folder, "llama", lambda t: t["added_tokens"].extend(
        [added("<right>", 900, rstrip=True), added("<left>", 901, lstrip=True), added("own", 902, special=False)]))
    report = quantised(folder, made, "--type", "bf16")
    assert "tokenizer.ggml.strips_left" in report and "tokenizer.ggml.strips_right" in report, report
    same_tokens(made, folder, [f"a{blank}{name}{blank}b" for name in ("<right>", "<left>", "own", "<s>") for blank in ("", " ", "  ")])
    os.remove(made)
    changed_tokenizer(folder, "llama", lambda t: t["added_tokens"].append(added("<word>", 900, single_word=True)))
    refused(folder, made, "<word>", "--no-tokenizer")
    changed_tokenizer(folder, "llama", lambda t: None)
    for ends in ([2], [2, 7], [7, 8, 2], [7, 8, 9]):
        with open(folder + "/generation_config.json", "w") as file:
            json.dump({"eos_token_id": ends}, file)
        if len(set(ends) - {2}) < 3:
            quantised(folder, made, "--type", "bf16")
            os.remove(made)
        else:
            refused(folder, made, "end a generation")


with tempfile.TemporaryDirectory() as folder:
    out = folder + "/out.gguf"
    for name in sorted(os.listdir(GOLDEN)):
        if not os.path.exists(f"{GOLDEN}{name}/config.json"):
            continue
        report = quantised(GOLDEN + name, out, "--type", "f32")
        assert " f32 " in report and " all " in report, report
        assert RARE.get(name, "") in report and ("note: " in report) == (RARE.get(name) is not None or name == "gptoss-plain")
        want, got = (logits(folder, model, "--activations", "float") for model in (GOLDEN + name, out))
        stray = max(abs(a - b) for a, b in zip(got, want)) / (max(want) - min(want))
        with open(f"{GOLDEN}{name}/config.json") as file:
            reordered = json.load(file)["model_type"] in REORDERED
        assert stray <= (1e-5 if reordered else 0), (name, stray)

    # blocks stay, bit for bit, beside matrices of another type
    report = quantised(GOLDEN + "gptoss-mxfp4", out, "--type", "f32", "--tensor", "*_exps.weight=mxfp4")
    assert [len(line.split()) for line in report.splitlines() if line.startswith("  mxfp4 ")] == [4], report  # no error
    assert logits(folder, out, "--activations", "float") == logits(folder, GOLDEN + "gptoss-mxfp4", "--activations", "float")

    quantised(GOLDEN + "qwen3", out, "--type", "q8_0", "--tensor", "*ffn_down*=f16")
    listed = {line.split()[0]: line.split()[1] for line in run("inspect", out).stdout.splitlines() if line.startswith("  blk.0")}
    assert listed["blk.0.ffn_down.weight"] == "f16" and listed["blk.0.attn_q.weight"] == "q8_0", listed
    assert listed["blk.0.attn_q_norm.weight"] == "f32", listed
    quantised(GOLDEN + "qwen3", out, "--type", "mxfp6")
    assert logits(folder, out) == logits(folder, GOLDEN + "qwen3", "--weights", "mxfp6")
    with open(out, "rb") as file:
        head = file.read(20000)
    assert b"tenon.format" in head and struct.pack("<I", 0x544E0000)[2:] in head, "MXFP6 must be marked"
    os.remove(out)

    source = folder + "/smollm2"
    write_folder(source, DATA + "/tokenizers/smollm2", 49152)
    quantised(source, out, "--type", "bf16")
    with open(DATA + "/tokenizers/smollm2/vectors.jsonl", encoding="utf-8") as file:
        texts = [json.loads(line).get("text", "") for _, line in zip(range(400), file)]
    with open(out, "rb") as file:
        assert b"tokenizer.ggml.pre\x08\0\0\0\x06\0\0\0\0\0\0\0smollm" in file.read(4 << 20), "its pre-tokenizer's name"
    requests = [{"text": text, "special": special} for text in texts for special in (False, True)]
    assert answers("tokenize", out, requests) == answers("tokenize", source, requests)
    context = folder + "/context.json"
    with open(context, "w") as file:
        json.dump({"messages": [{"role": "user", "content": "Hi"}]}, file)
    rendered = [run("render", model, "--context", context) for model in (out, source)]
    assert rendered[0].returncode == 0 and rendered[0].stdout == rendered[1].stdout, rendered[0].stderr
    quantised(source, out, "--type", "q8_0", "--no-tokenizer")
    assert run("tokenize", out, "-p", "Hi").returncode == 1
    assert run("quantize", out, folder + "/again.gguf", "--type", "q8_0", "--no-tokenizer").returncode == 1

    # SentencePiece's BPE: scores of the order of merges. (GGUF's readers never make </s> of what a user types.)
    pieces = folder + "/pieces"
    write_folder(pieces, DATA + "/tokenizers/small/llama", 900)
    quantised(pieces, out, "--type", "bf16")
    with open(DATA + "/tokenizers/small/llama/vectors.jsonl", encoding="utf-8") as file:
        texts = [text for text in (json.loads(line).get("text", "") for line in file) if "</s>" not in text]
    assert len(texts) > 80
    requests = [{"text": text, "special": special} for text in texts for special in (False, True)]
    assert answers("tokenize", out, requests) == answers("tokenize", pieces, requests)
    write_folder(folder + "/words", DATA + "/tokenizers/small/metaspace", 900)
    assert "pre-tokenizer" in run("quantize", folder + "/words", folder + "/words.gguf", "--type", "bf16").stderr

    unigram(folder + "/unigram", out)
    gemma4(folder + "/gemma4", out)
    normal_form(folder + "/form", folder + "/form.gguf")
    added_tokens(folder + "/added", folder + "/added.gguf")

    # a tokenizer that GGUF has no name for
    path = source + "/tokenizer.json"
    with open(path, encoding="utf-8") as file:
        tokenizer = json.load(file)
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": "[aeiou]"}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(tokenizer, file)
    os.remove(out)
    done = run("quantize", source, out, "--type", "bf16")
    assert done.returncode == 1 and "pre-tokenizer" in done.stderr and not os.path.exists(out), done.stderr
print("ok")
