"""Model folders: old and new forms of config.json mean the same; what is wrong or unknown is refused by file, key and
expectation; parts for images and drafts are left alone."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1:3]
TOKENS = ",".join(map(str, range(3, 45)))


def load(name):
    with open(f"{DATA}/golden/{name}/config.json", encoding="utf-8") as file:
        return json.load(file)


def write(folder, name, config):
    """The model `name` with another config.json (a value or raw bytes)."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(f"{DATA}/golden/{name}", folder)
    for part in os.listdir(folder):
        os.chmod(os.path.join(folder, part), 0o644)
    with open(folder + "/config.json", "wb") as file:
        file.write(config if isinstance(config, bytes) else json.dumps(config).encode())


def logits(folder):
    out = folder + "/out.f32"
    done = subprocess.run([TENON, "logits", folder, "--tokens", TOKENS, "--all", "--out", out, "--activations", "float"],
                          capture_output=True, text=True, timeout=60)
    if done.returncode:
        return done.stderr
    with open(out, "rb") as file:
        return file.read()


def edit_header(folder, change):
    """Applies `change` to the header of model.safetensors."""
    path = folder + "/model.safetensors"
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    change(header)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data[8 + size:])


with tempfile.TemporaryDirectory() as base:
    work = base + "/model"

    def same(name, change):
        write(work, name, load(name))
        want = logits(work)
        assert isinstance(want, bytes), want
        config = load(name)
        change(config)
        write(work, name, config)
        got = logits(work)
        assert got == want, (name, got if isinstance(got, str) else "other logits")

    def other(name, change):
        write(work, name, load(name))
        want = logits(work)
        config = load(name)
        change(config)
        write(work, name, config)
        got = logits(work)
        assert isinstance(got, bytes) and got != want, (name, got if isinstance(got, str) else "the same logits")

    def refused(name, config, *words):
        write(work, name, config)
        got = logits(work)
        assert isinstance(got, str), (name, "was taken")
        for word in words:
            assert word in got, (word, got)

    def old_rope(config):
        rope = config.pop("rope_parameters")
        config["rope_theta"] = rope.pop("rope_theta")
        rope["type"] = rope.pop("rope_type")
        config["rope_scaling"] = rope

    def old_phi(config):
        old_rope(config)
        config["rope_scaling"]["type"] = "su"
        config["original_max_position_embeddings"] = config["rope_scaling"].pop("original_max_position_embeddings")
        config["partial_rotary_factor"] = config["rope_scaling"].pop("partial_rotary_factor")

    same("llama-yarn-bias", old_rope)
    same("deepseek3", old_rope)
    same("phi3-long", old_phi)
    same("gemma4-ple", lambda c: c.update(rope_theta=123.0) or c.update(torch_dtype="float16"))
    same("qwen35-nested", lambda c: c["text_config"].update(tie_word_embeddings=False, _name_or_path="x"))
    same("llama-yarn-bias", lambda c: c.update(use_cache=False, sliding_window=None, transformers_version="9"))
    same("gemma3", lambda c: c.pop("rope_theta") and c.pop("rope_local_base_freq") and c.pop("rms_norm_eps"))
    other("llama-yarn-bias", lambda c: c["rope_parameters"].update(factor=2.0))
    other("gptoss-plain", lambda c: c["rope_parameters"].update(truncate=True))
    other("mistral-window", lambda c: c.update(sliding_window=7))
    other("qwen3moe-mixed", lambda c: c.update(norm_topk_prob=True))
    other("gemma2", lambda c: c.update(final_logit_softcapping=3.0))

    def wrong(name, *words, **changes):
        config = load(name)
        config.update(changes)
        refused(name, config, *words)

    wrong("llama-yarn-bias", "config.json", "surprise", surprise=1)
    wrong("llama-yarn-bias", "dynamic", rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4})
    wrong("llama-yarn-bias", "rope_parameters.short", rope_parameters={"rope_type": "default", "short": 1})
    wrong("llama-yarn-bias", "vocab_size", "311", vocab_size=311)
    wrong("llama-yarn-bias", "num_key_value_heads", "divisor", num_key_value_heads=4)
    wrong("llama-yarn-bias", "hidden_size", hidden_size="60")
    wrong("llama-yarn-bias", "hidden_size", hidden_size=60.5)
    wrong("llama-yarn-bias", "num_hidden_layers", num_hidden_layers=0)
    wrong("llama-yarn-bias", "hidden_act", "quick_gelu", hidden_act="quick_gelu")
    wrong("llama-yarn-bias", "model_type", "llamb", model_type="llamb")
    wrong("llama-yarn-bias", "quant_method", "fp8", quantization_config={"quant_method": "fp8"})
    wrong("llama-yarn-bias", "layers.3", num_hidden_layers=4)
    wrong("llama-yarn-bias", "layers.2", num_hidden_layers=2)
    wrong("llama-yarn-bias", "shape", intermediate_size=96)
    wrong("olmo3", "layer_types", layer_types=["full_attention"])
    wrong("olmo3", "chunked_attention", layer_types=["chunked_attention"] * 5)
    wrong("deepseek3", "num_experts_per_tok", num_experts_per_tok=9)
    wrong("gemma2", "rms_norm_eps", rms_norm_eps="small")
    missing = load("llama-yarn-bias")
    del missing["num_attention_heads"]
    refused("llama-yarn-bias", missing, "num_attention_heads")
    for raw in (b"", b"[]", b"{", b'{"a": ' * 3000, b"\xff\xfe", b'{"model_type": "llama"}', b"null"):
        refused("llama-yarn-bias", raw, "config.json")

    write(work, "llama-yarn-bias", load("llama-yarn-bias"))
    edit_header(work, lambda h: h.update({"model.layers.0.more": h.pop("model.layers.0.self_attn.q_proj.bias")}))
    assert "model.layers.0.more" in logits(work)
    write(work, "llama-yarn-bias", load("llama-yarn-bias"))
    edit_header(work, lambda h: h["model.layers.0.mlp.up_proj.weight"].update(shape=[60, 88]))
    assert "up_proj" in logits(work) and "shape" in logits(work)
    write(work, "llama-yarn-bias", load("llama-yarn-bias"))
    os.remove(work + "/model.safetensors")
    assert "model.safetensors" in logits(work)
    os.remove(work + "/config.json")
    assert "config.json" in logits(work)
print("ok")
