#!/usr/bin/env python3
"""shapes.py DESCRIPTIONS OUT: writes the models of tests/data/shapes as folders of safetensors, and as GGUF where that is kept.

A description is config.json, the names and shapes of the tensors and a prompt; beside it lie the logits that Hugging Face
transformers gives for it (make_shapes.py made both). The weights themselves are not kept: each value is one byte of
SHAKE-128 over the model's and the tensor's name, looked up in a table of 256 values whose mean and spread follow from what
the tensor's name says it is. So a model costs kilobytes, and whoever has the description has the same weights, to the bit.
Standard library only; make_shapes.py uses the same functions."""
import hashlib
import json
import lzma
import os
import struct
import sys

ADDS_ONE = ("gemma2", "gemma3_text", "gemma3", "qwen3_next", "qwen3_5_text", "qwen3_5", "qwen3_5_moe_text", "qwen3_5_moe")
TRANSPOSED = ("c_attn.weight", "c_proj.weight", "c_fc.weight")  # [in, out]


def moments(model_type, name, shape):
    """Mean and standard deviation of a tensor's values, so that every part of a model matters."""
    last = name.split(".")[-1]
    if last == "e_score_correction_bias":
        return 0, 0.2
    if last == "A_log":
        return -0.9, 0.6
    if last == "dt_bias":
        return -0.5, 0.4
    if last in ("layer_scalar", "per_expert_scale", "scale", "correct_output_scale"):
        return 1, 0.2
    if "norm" in name or ".ln_" in name or name.split(".")[-2].startswith("ln_"):
        adds_one = model_type in ADDS_ONE and "linear_attn" not in name
        return (0 if adds_one or last == "bias" else 1), 0.25
    if last == "bias" or last.endswith("_bias") or len(shape) == 1:
        return 0, 0.25
    if "embed_tokens" in name or "lm_head" in name or "wte" in name or "wpe" in name:
        return 0, 0.4
    inputs = shape[-1]
    if name.endswith(TRANSPOSED) or (model_type == "gpt_oss" and len(shape) == 3):
        inputs = shape[-2]
    gain = 1.45 if any(part in name for part in ("q_proj", "k_proj", "q_b_proj")) else 2.0 if "mlp" in name else 1.5
    if "correction_coefs" in name or "prediction_coefs" in name:
        gain = 0.5
    if "modality_router" in name:
        gain = 1.5 * inputs  # its input is divided by the width
    return 0, gain * inputs ** -0.5


def bf16(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


ENCODE = {"BF16": bf16, "F16": lambda value: struct.pack("<e", value), "F32": lambda value: struct.pack("<f", value),
          "U8": lambda value: bytes([int(value) & 255])}


def tensor_type(description, name):
    return "U8" if name.endswith(("_blocks", "_scales")) else description["dtype"]


def tensor_bytes(description, name):
    """The values of one tensor, in order, as the file holds them."""
    shape, config = description["tensors"][name], description["config"]
    kind = config.get("text_config", config).get("model_type", config["model_type"])
    count = 1
    for size in shape:
        count *= size
    raw = hashlib.shake_128(f"{description['seed']}/{name}".encode()).digest(count)
    if name.endswith("_blocks"):
        return raw
    if name.endswith("_scales"):
        return bytes(121 + byte % 3 for byte in raw)
    mean, spread = moments(kind, name, shape)
    encode = ENCODE[tensor_type(description, name)]
    # evenly spread over mean -+ sqrt(3) standard deviations
    table = [encode(mean + spread * 1.7320508 * ((2 * byte + 1) / 256 - 1)) for byte in range(256)]
    width = len(table[0])
    out = bytearray(count * width)
    for part in range(width):
        out[part::width] = raw.translate(bytes(entry[part] for entry in table))
    return bytes(out)


def write_safetensors(description, names, path):
    header, parts, at = {}, [], 0
    for name in names:
        data = tensor_bytes(description, name)
        header[name] = {"dtype": tensor_type(description, name), "shape": description["tensors"][name],
                        "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def write_folder(description, folder):
    """The model as a folder: config.json and its tensors in one file, or in several with their index."""
    os.makedirs(folder, exist_ok=True)
    with open(folder + "/config.json", "w", encoding="utf-8") as file:
        json.dump(description["config"], file)
    if "generation_config" in description:
        with open(folder + "/generation_config.json", "w", encoding="utf-8") as file:
            json.dump(description["generation_config"], file)
    names, files = sorted(description["tensors"]), description.get("files", 1)
    if files == 1:
        write_safetensors(description, names, folder + "/model.safetensors")
        return
    weight_map = {}
    for i in range(files):
        file_name = f"model-{i + 1:05d}-of-{files:05d}.safetensors"
        write_safetensors(description, names[i::files], f"{folder}/{file_name}")
        weight_map.update((name, file_name) for name in names[i::files])
    with open(folder + "/model.safetensors.index.json", "w", encoding="utf-8") as file:
        json.dump({"metadata": {}, "weight_map": weight_map}, file)


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main(source, out):
    names = []
    for entry in sorted(os.listdir(source)):
        if not entry.endswith(".json"):
            continue
        description = load(f"{source}/{entry}")
        folder = f"{out}/{entry[:-5]}"
        write_folder(description, folder)
        with open(folder + "/ref.json", "w", encoding="utf-8") as file:
            json.dump({"V": description["V"], "input_ids": description["input_ids"]}, file)
        with open(f"{source}/{entry[:-5]}.f32", "rb") as logits, open(folder + "/logits.f32", "wb") as copy:
            copy.write(logits.read())
        if os.path.exists(f"{source}/{entry[:-5]}.gguf.xz"):
            with lzma.open(f"{source}/{entry[:-5]}.gguf.xz") as packed, open(folder + "/model.gguf", "wb") as file:
                file.write(packed.read())
        names.append(entry[:-5] + "\n")
    with open(out + "/list", "w", encoding="utf-8") as file:
        file.writelines(names)


if __name__ == "__main__":
    main(*sys.argv[1:3])
