#!/usr/bin/env python3
"""Writes tests/data/formats/NAME.bin: blocks of each quantised format and what they decode to.

Needs the PyPI packages `gguf` (whose dequantisation is the reference for the formats of GGUF) and numpy. MXFP6 and the 8-bit
floats have no reference there: they are computed here from the OCP specifications, in exact fractions.

A file: u32 blocks, the blocks, then float32 for every element. Usage: make_vectors.py FOLDER
"""
import struct
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

# format: byte offsets of the f16 numbers in a block (they are kept finite)
FORMATS = {
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "IQ4_NL": [0], "MXFP4": [],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0],
}
# zero, smallest subnormal, largest subnormal, one, minus one, largest, smallest
EXTREME_HALVES = [0x0000, 0x0001, 0x03FF, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF]


def blocks_of(name, rng):
    elements, size = GGML_QUANT_SIZES[T[name]]
    blocks = rng.integers(0, 256, (16 if elements == 256 else 64, size), dtype=np.uint8)
    blocks[0] = 0
    blocks[1] = 255
    blocks[2] = 0xAA
    blocks[3] = 0x55
    for offset in FORMATS[name]:
        halves = rng.normal(0, 0.01, len(blocks)).astype(np.float16).view(np.uint16)
        halves[1 : 1 + len(EXTREME_HALVES)] = EXTREME_HALVES
        blocks[:, offset : offset + 2] = halves.astype("<u2").view(np.uint8).reshape(-1, 2)
    if name == "MXFP4":
        blocks[:, 0] = rng.integers(100, 140, len(blocks))
        blocks[0:6, 0] = [0, 1, 2, 127, 253, 254]
    return blocks


def write(folder, name, count, blocks, values):
    values = np.asarray(values, dtype="<f4")
    (folder / f"{name.lower()}.bin").write_bytes(struct.pack("<I", count) + bytes(blocks) + values.tobytes())


def minifloat(code, exponent_bits, mantissa_bits, bias):
    """The value of a float without infinities and NaN."""
    mantissa = code & ((1 << mantissa_bits) - 1)
    exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1)
    sign = -1 if code >> (mantissa_bits + exponent_bits) & 1 else 1
    fraction = Fraction(mantissa, 1 << mantissa_bits) + (1 if exponent else 0)
    return sign * fraction * Fraction(2) ** (max(exponent, 1) - bias)


def to_float(value, code, sign_bit):
    return -0.0 if value == 0 and code >> sign_bit & 1 else float(value)


def mxfp6(folder, rng):
    blocks = rng.integers(0, 256, (64, 25), dtype=np.uint8)
    blocks[:, 0] = rng.integers(100, 140, len(blocks))
    blocks[0:5, 0] = [0, 1, 127, 251, 252]  # 7.5 x 2^(252 - 127) is the largest that fits a float
    values = []
    for block in blocks.tolist():
        for i in range(32):
            low = block[1 + i % 16] >> (4 * (i // 16)) & 15
            code = low | (block[17 + i % 8] >> (2 * (i // 8)) & 3) << 4
            values.append(to_float(minifloat(code, 2, 3, 1) * Fraction(2) ** (block[0] - 127), code, 5))
    write(folder, "mxfp6", len(blocks), blocks.tobytes(), values)


def float8(folder):
    codes = bytes(range(256))
    e4m3 = [float("nan") if c & 0x7F == 0x7F else to_float(minifloat(c, 4, 3, 7), c, 7) for c in codes]
    write(folder, "f8_e4m3", 256, codes, e4m3)
    e5m2 = []
    for c in codes:
        if c & 0x7F > 0x7C:
            e5m2.append(float("nan"))
        elif c & 0x7F == 0x7C:
            e5m2.append(float("-inf") if c & 0x80 else float("inf"))
        else:
            e5m2.append(to_float(minifloat(c, 5, 2, 15), c, 7))
    write(folder, "f8_e5m2", 256, codes, e5m2)


def main():
    folder = Path(sys.argv[1])
    rng = np.random.default_rng(20240607)
    for name in FORMATS:
        blocks = blocks_of(name, rng)
        with np.errstate(over="ignore"):
            values = np.concatenate([dequantize(block, T[name]) for block in blocks])
        assert not np.isnan(values).any(), name
        if name == "MXFP4":  # a zero of the reference has no sign, one of the specification has
            codes = np.concatenate([np.concatenate([b[1:] & 15, b[1:] >> 4]) for b in blocks])
            values[codes == 8] = -0.0
        write(folder, name, len(blocks), blocks.tobytes(), values)
    mxfp6(folder, rng)
    float8(folder)


main()
