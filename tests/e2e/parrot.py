"""A parrot (see support/parrot.h, of which this is the small sister): a model file that answers any prompt with the given
texts, one a token, and then ends."""
import random
import struct

CODE, WIDTH, HEADS = 160, 192, 6
SPECIAL_BYTES = [b for b in range(256) if not (33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255)]
LETTERS = {b: chr(256 + SPECIAL_BYTES.index(b)) if b in SPECIAL_BYTES else chr(b) for b in range(256)}


def spell(text):
    return "".join(LETTERS[b] for b in text.encode())


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def key(name, kind, raw):
    return text(name) + struct.pack("<I", kind) + raw


def strings(values):
    return struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values))


def write(path, chat_template, script):
    tokens = ["<end>"] + [LETTERS[b] for b in range(256)] + [spell(piece) for piece in script]
    count, first = len(tokens), 257
    signs = random.Random(7)
    codes = [[signs.choice((-1.0, 1.0)) for _ in range(CODE)] for _ in tokens]
    for code in codes[1:first]:  # every byte is the same to the model, and is followed by the script
        code[:] = codes[0]
    rows = [[0.0] * CODE for _ in tokens]
    for i in range(first, count):
        rows[i] = codes[0] if i == first else codes[i - 1]
    pad = WIDTH - CODE
    embedding = [c + [20.0 if i == count - 1 else 0.0] + [0.0] * (pad - 1) for i, c in enumerate(codes)]
    output = [r + [50.0 if i == 0 else 0.0] + [0.0] * (pad - 1) for i, r in enumerate(rows)]
    square, ones, wide = [[0.0] * WIDTH] * WIDTH, [[1.0] * WIDTH], [[0.0] * WIDTH] * 32
    tensors = {"token_embd.weight": embedding, "output.weight": output, "output_norm.weight": ones,
               "blk.0.attn_norm.weight": ones, "blk.0.ffn_norm.weight": ones,
               **{"blk.0.attn_%s.weight" % n: square for n in ("q", "k", "v", "output")},
               "blk.0.ffn_gate.weight": wide, "blk.0.ffn_up.weight": wide,
               "blk.0.ffn_down.weight": [[0.0] * 32] * WIDTH}
    u32 = lambda name, value: key(name, 4, struct.pack("<I", value))
    types = [3] + [1] * (count - 1)
    keys = [key("general.architecture", 8, text("llama")), u32("llama.block_count", 1), u32("llama.context_length", 512),
            u32("llama.embedding_length", WIDTH), u32("llama.feed_forward_length", 32),
            u32("llama.attention.head_count", HEADS), key("tokenizer.ggml.model", 8, text("gpt2")),
            key("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-6)),
            key("tokenizer.ggml.pre", 8, text("gpt-2")), key("tokenizer.ggml.tokens", 9, strings(tokens)),
            key("tokenizer.ggml.token_type", 9, struct.pack("<IQ", 5, count) + struct.pack("<%di" % count, *types)),
            key("tokenizer.ggml.merges", 9, strings([])), u32("tokenizer.ggml.eos_token_id", 0),
            key("tokenizer.chat_template", 8, text(chat_template))]
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    data = b""
    for name, matrix in tensors.items():
        dims = [len(matrix[0])] + ([len(matrix)] if len(matrix) > 1 else [])
        out += text(name) + struct.pack("<I", len(dims)) + struct.pack("<%dQ" % len(dims), *dims)
        out += struct.pack("<IQ", 0, len(data))
        data += b"".join(struct.pack("<%df" % len(row), *row) for row in matrix)
    with open(path, "wb") as file:
        file.write(out + bytes(-len(out) % 32) + data)
