#!/usr/bin/env python3
"""Writes the seeds of tests/fuzz/corpus/gguf: small files that between them use every part of the format.

Usage: make_gguf.py FOLDER
"""
import struct
import sys
from pathlib import Path


def text(value):
    return struct.pack("<Q", len(value)) + value


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def array(kind, count, values):
    return struct.pack("<IQ", kind, count) + values


def tensor(name, dims, kind, offset):
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def file(keys, tensors=(), data=0, alignment=32, version=3):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(keys) + b"".join(tensors)
    padding = -len(head) % alignment if data else 0
    return head + bytes(padding) + bytes(i % 256 for i in range(data))


SCALARS = [
    key(b"u8", 0, b"\x01"), key(b"i8", 1, b"\xff"), key(b"u16", 2, b"\x01\x02"), key(b"i16", 3, b"\xff\xff"),
    key(b"u32", 4, struct.pack("<I", 7)), key(b"i32", 5, struct.pack("<i", -7)), key(b"f32", 6, struct.pack("<f", 1.5)),
    key(b"bool", 7, b"\x01"), key(b"string", 8, text(b"text")), key(b"u64", 10, struct.pack("<Q", 1 << 63)),
    key(b"i64", 11, struct.pack("<q", -1)), key(b"f64", 12, struct.pack("<d", 0.1)),
]
NESTED = array(9, 2, array(8, 2, text(b"a") + text(b"")) + array(9, 1, array(4, 1, b"\0\0\0\1")))
SEEDS = {
    "scalars": file(SCALARS),
    "arrays": file([
        key(b"strings", 9, array(8, 40, b"".join(text(b"x" * (i % 3)) for i in range(40)))),
        key(b"numbers", 9, array(5, 3, bytes(12))), key(b"bools", 9, array(7, 2, b"\0\1")), key(b"nested", 9, NESTED),
    ]),
    "tensors": file(
        [key(b"general.alignment", 4, struct.pack("<I", 8))],
        [tensor(b"f32", [3, 2], 0, 0), tensor(b"q4_0", [32, 2], 2, 24), tensor(b"empty", [0, 5], 1, 0), tensor(b"q6_k", [256], 14, 64)],
        data=64 + 210, alignment=8),
    "no-tensors-v2": file([key(b"general.architecture", 8, text(b"llama"))], version=2),
    "version-1": file([], version=1),
    "overlap": file([], [tensor(b"a", [8], 0, 0), tensor(b"b", [8], 0, 0)], data=64),
    "beyond": file([], [tensor(b"a", [1 << 40], 0, 0)], data=64),
    "unknown-type": file([], [tensor(b"a", [8], 77, 0)], data=64),
    "huge-counts": b"GGUF" + struct.pack("<IQQ", 3, 1 << 62, 1 << 62),
    "deep": file([key(b"deep", 9, array(9, 1, b"") * 50)]),
    "empty": b"",
}
for name, content in SEEDS.items():
    (Path(sys.argv[1]) / name).write_bytes(content)
