"""8-bit floats in folders: a model in F8 with scales, in each form they come in, computes exactly what the same model does
with its values multiplied out in F32; forms that are not known, and scales that don't fit, are refused by name.
Arguments: the tenon command, test data."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1:3]
TOKENS = ",".join(map(str, range(3, 45)))


def e4m3(code):
    """The value of an E4M3 code (OCP OFP8): bias 7, no infinity."""
    exponent, mantissa = code >> 3 & 15, code & 7
    value = mantissa * 2.0**-9 if not exponent else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -value if code & 0x80 else value


def e5m2(code):
    return struct.unpack("<e", bytes([0, code]))[0]


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def bf16(value):
    return struct.unpack("<f", b"\0\0" + struct.pack("<f", value)[2:])[0]


def load(name):
    with open(f"{DATA}/golden/{name}/model.safetensors", "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for key, about in json.loads(data[8:8 + size]).items():
        if key != "__metadata__":
            begin, end = (8 + size + at for at in about["data_offsets"])
            tensors[key] = (about["dtype"], about["shape"], data[begin:end])
    with open(f"{DATA}/golden/{name}/config.json", encoding="utf-8") as file:
        return json.load(file), tensors


def save(folder, config, tensors):
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    with open(folder + "/model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))
    with open(folder + "/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)


def run(folder, *options):
    out = folder + "/out.f32"
    done = subprocess.run([TENON, "logits", folder, "--tokens", TOKENS, "--all", "--out", out, *options],
                          capture_output=True, text=True, timeout=60)
    if done.returncode:
        return done.stderr
    with open(out, "rb") as file:
        return file.read()


def is_linear(name):
    return name.endswith("_proj.weight") or name.endswith("lm_head.weight")


def quantise(tensors, form):
    """The F8 model and its F32 twin."""
    decode, kind, top = (e5m2, "F8_E5M2", 57344.0) if form.get("e5m2") else (e4m3, "F8_E4M3", 448.0)
    codes = {decode(c): c for c in range(256) if c & 0x7F not in ((0x7C, 0x7D, 0x7E, 0x7F) if form.get("e5m2") else (0x7F,))}
    values = sorted(codes)
    packed, twin = {}, {}

    def nearest(value):
        low, high = 0, len(values) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if values[middle] <= value else (low, middle)
        return values[low] if value - values[low] < values[high] - value else values[high]

    for name, (dtype, shape, data) in tensors.items():
        packed[name] = twin[name] = (dtype, shape, data)
        if not is_linear(name) or len(shape) != 2:
            continue
        rows, cols = shape
        numbers = struct.unpack(f"<{rows * cols}f", data) if dtype == "F32" else [
            struct.unpack("<f", b"\0\0" + data[i:i + 2])[0] for i in range(0, len(data), 2)]
        down, across = form["block"](rows, cols)
        scales, quantised, exact = {}, bytearray(rows * cols), [0.0] * (rows * cols)
        for r in range(rows):
            for c in range(cols):
                scales[r // down, c // across] = max(scales.get((r // down, c // across), 0), abs(numbers[r * cols + c]))
        for place, largest in scales.items():
            scales[place] = form["round"](largest / top or 1.0)
        for r in range(rows):
            for c in range(cols):
                scale = scales[r // down, c // across]
                value = nearest(numbers[r * cols + c] / scale)
                quantised[r * cols + c] = codes[value]
                exact[r * cols + c] = f32(value * scale)
        shape_of_scales = form["shape"](-(-rows // down), -(-cols // across))
        flat = [scales[place] for place in sorted(scales)]
        packed[name] = (kind, shape, bytes(quantised))
        packed[name + form["end"]] = form["store"](shape_of_scales, flat)
        if form.get("inputs"):
            packed[name[:-6] + "input_scale"] = ("F32", [1], struct.pack("<f", 0.5))
        twin[name] = ("F32", shape, struct.pack(f"<{rows * cols}f", *exact))
    return packed, twin


def as_f32(shape, flat):
    return "F32", shape, struct.pack(f"<{len(flat)}f", *flat)


def as_bf16(shape, flat):
    return "BF16", shape, b"".join(struct.pack("<f", value)[2:] for value in flat)


FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [16, 24],
       "modules_to_not_convert": ["lm_head"]}
GROUP = {"weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True, "dynamic": False,
                     "group_size": None, "block_structure": None, "observer": "minmax", "observer_kwargs": {}, "actorder": None},
         "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True, "symmetric": True},
         "output_activations": None, "targets": ["Linear"]}
COMPRESSED = {"quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed",
              "config_groups": {"group_0": GROUP}, "ignore": ["lm_head"], "kv_cache_scheme": None, "global_compression_ratio": 1.2,
              "sparsity_config": {}, "transform_config": {}, "version": "0.11.0"}
FORMS = {
    "blocks": dict(block=lambda rows, cols: (16, 24), shape=lambda down, across: [down, across], round=f32, store=as_f32,
                   end="_scale_inv", config=FP8),
    # as DeepSeek and Qwen publish them: matrices that are smaller than a block, and the head's rows in three
    "wide blocks": dict(block=lambda rows, cols: (128, 128), shape=lambda down, across: [down, across], round=f32, store=as_f32,
                        end="_scale_inv", config={**FP8, "weight_block_size": [128, 128]}),
    "rows": dict(block=lambda rows, cols: (1, cols), shape=lambda down, across: [down, 1], round=bf16, store=as_bf16,
                 end="_scale", config=COMPRESSED),
    "tensors": dict(block=lambda rows, cols: (rows, cols), shape=lambda down, across: [], round=f32, store=as_f32, end="_scale",
                    e5m2=True, inputs=True, config={"quant_method": "fp8", "activation_scheme": "static", "fmt": "e5m2"}),
}

with tempfile.TemporaryDirectory() as base:
    for model, names in (("qwen3moe", FORMS), ("deepseek3", ["blocks", "wide blocks"])):
        config, tensors = load(model)
        for name in names:
            form = FORMS[name]
            packed, twin = quantise(tensors, form)
            save(base + "/twin", config, twin)
            save(base + "/f8", {**config, "quantization_config": form["config"]}, packed)
            want, got = run(base + "/twin", "--activations", "float"), run(base + "/f8", "--activations", "float")
            assert isinstance(want, bytes) and got == want, (model, name, got if isinstance(got, str) else "differs")
            # in f16, what devices compute with: as near as f16 is
            half = run(base + "/f8", "--kv", "f32")
            assert isinstance(half, bytes), half
            a, b = (struct.unpack(f"<{len(x) // 4}f", x) for x in (half, want))
            stray = sorted(map(lambda x, y: abs(x - y), a, b))
            print(model, name, "f16: half of the logits within %.1e, all within %.1e of their range" % tuple(
                stray[at] / (max(b) - min(b)) for at in (len(stray) // 2, -1)))
            # a rounded score may choose another expert in such small models: most logits count, not all
            assert stray[len(stray) // 2] <= 1e-3 * (max(b) - min(b)), (model, name)
            if model == "qwen3moe" and name == "blocks":
                assert isinstance(run(base + "/f8", "--device", "reference"), bytes)
                for kind in ("q8_0", "mxfp6"):
                    a, b = run(base + "/f8", "--weights", kind), run(base + "/twin", "--weights", kind)
                    assert isinstance(a, bytes) and a == b, (kind, a if isinstance(a, str) else "differs")

    config, tensors = load("qwen3moe")
    packed, _ = quantise(tensors, FORMS["blocks"])
    first = next(name for name in packed if name.endswith("q_proj.weight"))

    def refused(expected, change_config=None, change_tensors=None):
        about, contents = json.loads(json.dumps(FP8)), dict(packed)
        if change_config:
            about = change_config(about)
        if change_tensors:
            change_tensors(contents)
        save(base + "/bad", {**config, "quantization_config": about}, contents)
        got = run(base + "/bad", "--activations", "float")
        assert isinstance(got, str) and all(part in got for part in expected), (expected, got)

    refused(["quantization_config.quant_method", "gptq"], lambda c: {**c, "quant_method": "gptq"})
    refused(["quantization_config.rotation"], lambda c: {**c, "rotation": "hadamard"})
    refused(["quantization_config.weight_block_size"], lambda c: {**c, "weight_block_size": [16]})
    refused(["quant_method"], lambda c: {"bits": 4})
    refused(["transform_config"], lambda c: {**COMPRESSED, "transform_config": {"kind": "hadamard"}})
    refused(["config_groups.group_0.weights.num_bits", "8"],
            lambda c: {**COMPRESSED, "config_groups": {"group_0": {**GROUP, "weights": {**GROUP["weights"], "num_bits": 4}}}})
    refused(["quantization_config.format", "pack-quantized"][:1], lambda c: {**COMPRESSED, "format": "pack-quantized"})
    refused([first, "scale_inv"], None, lambda t: t.pop(first + "_scale_inv"))
    refused([first + "_scale_inv", "block"], None, lambda t: t.update({first + "_scale_inv": as_f32([3, 1], [1.0] * 3)}))
    refused([first + "_scale_inv", "f32"], None, lambda t: t.update({first + "_scale_inv": ("I32", [1], b"\0\0\0\0")}))
    kind, shape, data = packed[first]
    refused([first, "no number"], None, lambda t: t.update({first: (kind, shape, b"\x7f" + data[1:])}))
    refused(["stray.weight_scale"], None, lambda t: t.update({"stray.weight_scale": as_f32([1], [1.0])}))
print("ok")
