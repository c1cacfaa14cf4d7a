"""Blocks of 256 in a model with the widths of Qwen3-0.6B (rows of 1024, 2048 and 3072; 16 query and 8 key heads of 128) and
random blocks: with float activations its logits are within 1e-3 of their range of those of its exactly dequantised F32 twin,
on every instruction set of this machine. Arguments: the tenon command, test data."""
import array
import os
import random
import struct
import subprocess
import sys
import tempfile

TENON = sys.argv[1]
WIDTH, HEADS, KV_HEADS, HEAD, FFN, VOCABULARY, LAYERS = 1024, 16, 8, 128, 3072, 512, 1
# number in GGUF, bytes of a block, places of its f16 scales and their size: 255 values of a block have this spread then
TYPES = {"q2_k": (10, 84, {80: 2.0**-7, 82: 2.0**-8}), "q3_k": (11, 110, {108: 2.0**-11}),
         "q4_k": (12, 144, {0: 2.0**-13, 2: 2.0**-10}), "q5_k": (13, 176, {0: 2.0**-14, 2: 2.0**-10}),
         "q6_k": (14, 210, {208: 2.0**-16}), "iq4_xs": (23, 136, {0: 2.0**-15})}
generator = random.Random(1)


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def key(name, kind, value):
    return text(name) + struct.pack("<I", {"u": 4, "f": 6, "s": 8}[kind]) + (
        text(value) if kind == "s" else struct.pack("<I" if kind == "u" else "<f", value))


def blocks(count, kind):
    _, size, scales = TYPES[kind]
    data = bytearray(generator.randbytes(count * size))
    for at, scale in scales.items():
        factors = [struct.pack("<e", scale * (0.5 + i / 256)) for i in range(256)]
        for block in range(count):
            factor = factors[data[block * size + at]]
            data[block * size + at:block * size + at + 2] = factor
    return bytes(data)


def write_model(path, kind):
    keys = [key("general.architecture", "s", "qwen3"), key("qwen3.block_count", "u", LAYERS), key("qwen3.context_length", "u", 64),
            key("qwen3.embedding_length", "u", WIDTH), key("qwen3.feed_forward_length", "u", FFN),
            key("qwen3.attention.head_count", "u", HEADS), key("qwen3.attention.head_count_kv", "u", KV_HEADS),
            key("qwen3.attention.key_length", "u", HEAD), key("qwen3.attention.value_length", "u", HEAD),
            key("qwen3.rope.freq_base", "f", 1e6), key("qwen3.attention.layer_norm_rms_epsilon", "f", 1e-6)]
    tensors = []

    def matrix(name, rows, cols):
        tensors.append((name, [cols, rows], TYPES[kind][0], blocks(rows * cols // 256, kind)))

    def ones(name, count):
        tensors.append((name, [count], 0, struct.pack("<f", 1.0) * count))

    matrix("token_embd.weight", VOCABULARY, WIDTH)
    ones("output_norm.weight", WIDTH)
    for layer in range(LAYERS):
        prefix = f"blk.{layer}."
        ones(prefix + "attn_norm.weight", WIDTH)
        ones(prefix + "ffn_norm.weight", WIDTH)
        ones(prefix + "attn_q_norm.weight", HEAD)
        ones(prefix + "attn_k_norm.weight", HEAD)
        matrix(prefix + "attn_q.weight", HEADS * HEAD, WIDTH)
        matrix(prefix + "attn_k.weight", KV_HEADS * HEAD, WIDTH)
        matrix(prefix + "attn_v.weight", KV_HEADS * HEAD, WIDTH)
        matrix(prefix + "attn_output.weight", WIDTH, HEADS * HEAD)
        matrix(prefix + "ffn_gate.weight", FFN, WIDTH)
        matrix(prefix + "ffn_up.weight", FFN, WIDTH)
        matrix(prefix + "ffn_down.weight", WIDTH, FFN)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    offset = 0
    for name, dims, number, data in tensors:
        head += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + struct.pack("<IQ", number, offset)
        offset += -(-len(data) // 32) * 32
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % 32))
        for _, _, _, data in tensors:
            file.write(data + b"\0" * (-len(data) % 32))


def logits(folder, path, instruction_set):
    out = folder + "/out.f32"
    done = subprocess.run([TENON, "logits", path, "--tokens", "1,17,300,42,511,8,9", "--all", "--out", out, "--activations",
                           "float"], env={**os.environ, "TENON_CPU": instruction_set}, capture_output=True, text=True, timeout=120)
    if done.returncode and "TENON_CPU" in done.stderr:
        return None
    assert done.returncode == 0, done.stderr
    values = array.array("f")
    with open(out, "rb") as file:
        values.frombytes(file.read())
    return values


with tempfile.TemporaryDirectory() as temporary:
    model, twin = temporary + "/model.gguf", temporary + "/twin.gguf"
    for kind in TYPES:
        write_model(model, kind)
        done = subprocess.run([TENON, "quantize", model, twin, "--type", "f32"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        for instruction_set in ("", "avx2", "portable") if kind in ("q4_k", "q6_k") else ("",):  # "": the machine's best
            got = logits(temporary, model, instruction_set)
            if got is None:
                continue
            want = logits(temporary, twin, instruction_set)
            spread = max(want) - min(want)
            stray = max(abs(a - b) for a, b in zip(got, want)) / spread
            print(f"{kind} {instruction_set or 'best'}: {stray:.2e} of a range of {spread:.3g}")
            assert 1 < spread < 1e4 and stray <= 1e-3, (kind, instruction_set, stray, spread)
print("ok")
