"""Model folders that are wrong, or mean harm: each is refused with a message that names the file, the key and what was
expected, before the first token. And what only looks odd is taken."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1:3]
sys.path.insert(0, os.path.join(os.path.dirname(DATA), "golden"))
import shapes  # noqa: E402

PLAIN, SHARDED = (shapes.load(f"{DATA}/shapes/{name}.json") for name in ("llama-one-kv", "llama-rope3"))
NAMES = sorted(PLAIN["tensors"])
INDEX = "model.safetensors.index.json"
failures = []
folder = tempfile.mkdtemp() + "/model"


def fresh(description=PLAIN):
    shutil.rmtree(folder, ignore_errors=True)
    shapes.write_folder(description, folder)


def run():
    done = subprocess.run([TENON, "logits", folder, "--tokens", "3,4,5", "--all", "--out", folder + "/out", "--activations", "float"],
                          capture_output=True, text=True, timeout=60, errors="replace")
    return done.returncode, done.stderr


def refused(what, *words):
    code, message = run()
    if code != 1 or not all(word in message for word in words):
        failures.append(f"{what}: exit {code}, {message!r}, expected {words}")


def taken(what):
    code, message = run()
    if code:
        failures.append(f"{what}: exit {code}, {message!r}")


def header(change=lambda entries: None, raw=None):
    """Changes the header of model.safetensors, or puts bytes in its place."""
    path = folder + "/model.safetensors"
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8:8 + size])
    change(entries)
    text = json.dumps(entries).encode() if raw is None else raw
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data[8 + size:])


def put(name, value):
    with open(f"{folder}/{name}", "wb") as file:
        file.write(value if isinstance(value, bytes) else json.dumps(value).encode())


def index(change):
    value = shapes.load(f"{folder}/{INDEX}")
    change(value["weight_map"])
    put(INDEX, value)


# ---- the index and its shards
fresh(SHARDED)
taken("three shards")
os.remove(folder + "/model-00002-of-00003.safetensors")
refused("a shard that is not there", "model-00002-of-00003.safetensors", "No such file")
fresh(SHARDED)
FIRST = next(iter(shapes.load(f"{folder}/{INDEX}")["weight_map"]))
index(lambda weights: weights.update({FIRST: "model-00009-of-00003.safetensors"}))
refused("an index that names another shard", "model-00009-of-00003.safetensors", "No such file")
fresh(SHARDED)
index(lambda weights: weights.update({FIRST: "model-00002-of-00003.safetensors"}))
taken("an index that is wrong about which of its shards")
fresh(SHARDED)
index(lambda weights: weights.update({"model.more.weight": weights[FIRST]}))
refused("an index that names another tensor", INDEX, "model.more.weight", "should be in")
for name in ("../model.safetensors", "/etc/passwd", "", "a\0b"):
    fresh(SHARDED)
    index(lambda weights, name=name: weights.update({FIRST: name}))
    refused(f"the shard {name!r}", INDEX, "beside the index")
for value in ({"weight_map": 5}, {"weight_map": {}}, {}, {"weight_map": {"a": 1}}, []):
    fresh(SHARDED)
    put(INDEX, value)
    refused(f"the index {value}", INDEX)

# ---- headers
for size, words in ((100 << 30, ("107374182400", "at most 100000000")), ((1 << 64) - 1, ("18446744073709551615", "at most")),
                    (90_000_000, ("90000000", "but the file has"))):
    fresh()
    with open(folder + "/model.safetensors", "r+b") as file:
        file.write(struct.pack("<Q", size))
    refused(f"a header of {size} bytes", "model.safetensors", *words)


def offsets(place):
    """The second tensor elsewhere: place(its bytes, where the first begins, where it begins)."""
    fresh()

    def change(entries):
        at, first = entries[NAMES[1]]["data_offsets"], entries[NAMES[0]]["data_offsets"]
        entries[NAMES[1]]["data_offsets"] = place(at[1] - at[0], first[0], at[0])
    header(change)


offsets(lambda size, first, own: [first, first + size])
refused("tensors that overlap", "model.safetensors", "overlaps")
offsets(lambda size, first, own: [own + size, own])
refused("offsets the wrong way round", "model.safetensors", "data_offsets")
offsets(lambda size, first, own: [1 << 40, (1 << 40) + size])
refused("an offset behind the end", "model.safetensors", "but the file has")
offsets(lambda size, first, own: [own - 2, own + size - 2])
refused("an overlap of two bytes", "model.safetensors", "overlaps")
offsets(lambda size, first, own: [own, own + size - 2])
refused("too few bytes", "model.safetensors", NAMES[1], "elements of BF16")
offsets(lambda size, first, own: [-own, size])
refused("a negative offset", "model.safetensors", "data_offsets")
offsets(lambda size, first, own: [own])
refused("one offset", "model.safetensors", "data_offsets")


def changed(tensor, **changes):
    fresh()
    header(lambda entries: entries[tensor].update(changes))


for name, words in (("F32", ("elements of F32",)), ("I16", ("i16", "expected f32")), ("U16", ("type that tenon does not use",)),
                    ("Q99", ("Q99",)), ("f16", ("f16",))):
    for tensor in ("lm_head.weight", "model.norm.weight"):
        changed(tensor, dtype=name)
        refused(f"{tensor} in {name}", tensor, *words)
changed("model.norm.weight", shape=[1, 45])
refused("a norm of two dimensions", "model.norm.weight", "[45, 1]", "expected [45]")
changed("model.layers.0.mlp.up_proj.weight", shape=[45, 50])
refused("a matrix transposed", "up_proj", "[50, 45]", "expected [45, 50]")
changed("model.layers.0.mlp.up_proj.weight", shape=[1 << 40, 1 << 40])
refused("a shape that wraps", "up_proj")
changed("model.layers.0.mlp.up_proj.weight", shape=[0, 45])
refused("an empty matrix", "up_proj")
for raw in (b'{"a":' * 5000, b'{"__metadata__":' + b"[" * 100000, b"[]", b"", b"{", b"null", b"\xff" * 64, b'{"a":{}}',
            b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'):
    fresh()
    header(raw=raw)
    refused(f"the header {raw[:20]!r}", "model.safetensors")

# ---- config.json
for raw in (b"[" * 100000, b'{"model_type":"llama","x":' + b"[" * 100000, b'{"a":' * 100000, b"{" * 100000):
    fresh()
    put("config.json", raw)
    refused(f"config.json {raw[:20]!r}", "config.json", "JSON line 1")


def config(what, *words, **changes):
    fresh()
    put("config.json", {**PLAIN["config"], **changes})
    if words:
        refused(f"{what} {changes}", "config.json", *words)
    else:
        taken(f"{what} {changes}")


for key in ("model_type", "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"):
    fresh()
    put("config.json", {name: value for name, value in PLAIN["config"].items() if name != key})
    refused(f"config.json without {key}", "config.json", key, "missing")
    config("null", key, "missing", **{key: None})
fresh()
put("config.json", {name: value for name, value in PLAIN["config"].items() if name != "intermediate_size"})
refused("config.json without intermediate_size", "intermediate_size", "missing")
for kind in ("dynamic", "foo", "axial", ""):
    config("rope", "rope_scaling.rope_type", f'"{kind}"', "longrope", rope_scaling={"rope_type": kind, "factor": 2.0})
    config("rope", "rope_parameters.rope_type", f'"{kind}"', rope_parameters={"type": kind, "rope_theta": 1e4})
config("rope", "rope_scaling.factor", "missing", rope_scaling={"rope_type": "linear"})
config("rope", "rope_scaling.low_freq_factor", "missing", rope_scaling={"rope_type": "llama3", "factor": 2.0})
config("rope", "rope_scaling.factor", "string", rope_scaling={"rope_type": "yarn", "factor": "4"})
config("rope", "factor", rope_scaling={"rope_type": "linear", "factor": 0})
config("rope", "rope_scaling.surprise", rope_scaling={"rope_type": "linear", "factor": 2.0, "surprise": 1})
config("rope", "long_factor", "expected 3 numbers", rope_scaling={"rope_type": "longrope", "original_max_position_embeddings": 8,
                                             "short_factor": [1.0], "long_factor": [1.0]})
config("rope", "rope_scaling", rope_scaling=5)
config("rope", "rope_theta", rope_theta=-1)
for key, value in (("attn_logit_softcapping", 30.0), ("embedding_multiplier", 2.0), ("layer_types", ["full_attention"] * 3),
                   ("query_pre_attn_scalar", 10), ("use_qk_norm", True), ("alibi", True), ("logit_scale", 0.5),
                   ("parallel_attn", True), ("sliding_window", 4), ("hidden_activation", "gelu"), ("rope_interleave", True),
                   ("rope_local_base_freq", 1e4), ("no_rope_layers", [1, 0]), ("final_logit_softcapping", 9.0), ("clip_qkv", 0.5),
                   ("residual_multiplier", 0.5), ("attention_chunk_size", 4), ("text_config", {"hidden_size": 45, "clip_qkv": 8.0})):
    config("a key that changes the mathematics", "may change the mathematics", **{key: value})
for key, value in (("head_dim", 0), ("head_dim", 7), ("head_dim", 4096), ("num_hidden_layers", True), ("num_hidden_layers", 10**9),
                   ("vocab_size", 1 << 40), ("vocab_size", 66), ("rms_norm_eps", -1), ("sliding_window", -5), ("sliding_window", 1.5),
                   ("tie_word_embeddings", "no"), ("num_key_value_heads", 2), ("max_position_embeddings", 0), ("hidden_size", [45]),
                   ("hidden_act", "gelu_9")):
    config("a value out of range", key, **{key: value})
config("quantised", "quant_method", "gptq", quantization_config={"quant_method": "gptq", "bits": 4})
config("model type", "model_type", "LlamaX", "expected one of", model_type="LlamaX")
config("model type", "model_type", model_type=["llama"])
config("odd but legal", rope_theta=PLAIN["config"]["rope_theta"], rope_scaling=None, quantization_config=None, text_config={},
       id2label={"0": "a"}, _name_or_path="x", torch_dtype="float64", sliding_window=None, bos_token_id=[1], unsloth_version="1")
fresh()
put("config.json", json.dumps(PLAIN["config"]).replace('"hidden_size": 45', '"hidden_size": 9, "hidden_size": 45').encode())
taken("a key said twice: the last counts")

config("a part of the head", "partial_rotary_factor", "whole heads", partial_rotary_factor=0.5)


def other(name, *words, without=(), **changes):
    """Another model without some keys: refused with these words, or the same as before."""
    description = shapes.load(f"{DATA}/shapes/{name}.json")
    fresh(description)
    taken(name)
    with open(folder + "/out", "rb") as file:
        before = file.read()
    put("config.json", {**{key: value for key, value in description["config"].items() if key not in without}, **changes})
    if words:
        refused(f"{name} without {without}, with {changes}", "config.json", *words)
        return
    taken(f"{name} without {without}, with {changes}")
    with open(folder + "/out", "rb") as file:
        if file.read() != before:
            failures.append(f"{name} without {without}, with {changes}: other logits")


other("gptoss-odd", "rope_parameters", "missing", without=["rope_parameters"])
other("gemma4-odd", "rope_parameters", "missing", without=["rope_parameters"])
other("olmo2-one-kv", "sliding_window", "may change", sliding_window=4)
other("olmo2-one-kv", "layer_types", "may change", layer_types=["full_attention"] * 3)
other("gpt2-odd", without=["layer_norm_epsilon", "activation_function", "scale_attn_weights", "tie_word_embeddings"])
other("gemma2-odd", without=["tie_word_embeddings", "rms_norm_eps", "hidden_activation"])
other("gemma3-listed", without=["tie_word_embeddings", "rms_norm_eps"], hidden_act="relu")

# ---- pipes, which nobody writes
for name in ("config.json", "model.safetensors", "tokenizer.json", "generation_config.json", "chat_template.jinja"):
    fresh()
    if os.path.exists(f"{folder}/{name}"):
        os.remove(f"{folder}/{name}")
    os.mkfifo(f"{folder}/{name}")
    refused(f"{name} is a pipe", name, "is a pipe")

# ---- values that are no numbers
def spoil(name, index, number):
    fresh()
    with open(folder + "/model.safetensors", "r+b") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        about = json.loads(file.read(size))[name]
        data, width = struct.pack("<f", number), 4 if about["dtype"] == "F32" else 2
        assert about["dtype"] in ("F32", "BF16"), about
        file.seek(8 + size + about["data_offsets"][0] + index * width)
        file.write(data[4 - width:])


matrix, vector = (next(n for n in NAMES if n.endswith(end)) for end in ("0.mlp.up_proj.weight", "input_layernorm.weight"))
for name, index, number in ((matrix, 7, float("nan")), (matrix, 0, float("-inf")), (vector, 1, float("nan"))):
    spoil(name, index, number)
    refused(f"{name} with {number}", folder, name, f"value {index} is {number}")


def tensor_places(data):
    """Where the tensors of a GGUF file begin."""
    listed = subprocess.run([TENON, "inspect", folder + "/out.gguf"], check=True, capture_output=True, text=True).stdout
    names = [line.split()[0] for line in listed.splitlines() if line.startswith("  ") and ".weight " in line]
    offsets, end = {}, 0
    for name in names:
        at = data.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name)
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4
        offsets[name] = struct.unpack_from("<Q", data, at)[0]
        end = max(end, at + 8)
    return {name: (end + 31) // 32 * 32 + offset for name, offset in offsets.items()}


def spoil_block(kind, block_bytes, at, scale):
    """A block of a GGUF file gets another scale."""
    tensor, block = "blk.0.attn_q.weight", 5
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    path = folder + "/out.gguf"
    subprocess.run([TENON, "quantize", DATA + "/golden/qwen3", path, "--type", kind], check=True, capture_output=True)
    with open(path, "r+b") as file:
        begin = tensor_places(file.read())[tensor]
        file.seek(begin + block * block_bytes + at)
        file.write(scale)
    done = subprocess.run([TENON, "logits", path, "--tokens", "3,4,5", "--all", "--out", folder + "/out"], capture_output=True,
                          text=True, timeout=60)
    if done.returncode != 1 or not all(word in done.stderr for word in (path, tensor, f"block {block} ", "no number")):
        failures.append(f"{kind} with the scale {scale}: exit {done.returncode}, {done.stderr!r}")


for kind, block_bytes, at, scale in (("q8_0", 34, 0, struct.pack("<e", float("nan"))), ("q4_0", 18, 0, struct.pack("<e", float("inf"))),
                                     ("q4_1", 20, 2, struct.pack("<e", float("-inf"))), ("mxfp4", 17, 0, b"\xff"),
                                     ("mxfp6", 25, 0, b"\xff")):
    spoil_block(kind, block_bytes, at, scale)

# ---- generation_config.json
for value, words in (({"temperature": "hot"}, ("temperature", "a number")), ({"top_p": 7}, ("top_p is 7", "0 .. 1")), ([], ("JSON",)),
                     ({"top_k": -2}, ("top_k",)), ({"repetition_penalty": 0}, ("repetition_penalty",)), (b"{", ("JSON",))):
    fresh()
    put("generation_config.json", value)
    refused(f"generation_config.json {value}", "generation_config.json", *words)

# ---- the tokenizer beside it
def tokenizer(count, added=()):
    fresh()
    tokens = [{"id": i, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
               "special": True} for i, text in added]
    put("tokenizer.json", {"version": "1.0", "added_tokens": tokens, "normalizer": None, "pre_tokenizer": None,
                           "post_processor": None, "decoder": None,
                           "model": {"type": "BPE", "vocab": {f"t{i}": i for i in range(count)}, "merges": []}})


tokenizer(67)
taken("a token for each row")
tokenizer(60)
taken("rows without a token")
tokenizer(67, [(67, "<image>")])
taken("a control token without a row")
tokenizer(90)
refused("tokens without a row", "tokenizer.json", "token 67", "t67", "vocab_size 67")

shutil.rmtree(os.path.dirname(folder))
if failures:
    sys.exit("\n".join(failures))
print("ok")
