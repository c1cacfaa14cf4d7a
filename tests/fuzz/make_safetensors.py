#!/usr/bin/env python3
"""Writes the seeds of tests/fuzz/corpus/safetensors. Usage: make_safetensors.py FOLDER"""
import struct
import sys
from pathlib import Path


def file(header, data=0):
    return struct.pack("<Q", len(header)) + header + bytes(i % 256 for i in range(data))


SEEDS = {
    "two": file(b'{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},'
                b'"b":{"dtype":"F32","shape":[],"data_offsets":[12,16]}}  ', 16),
    "odd-types": file(b'{"a":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"BOOL","shape":[1],'
                      b'"data_offsets":[3,4]},"c":{"dtype":"F4","shape":[1,1,1,1,2],"data_offsets":[4,5]},'
                      b'"d":{"dtype":"I64","shape":[0,9],"data_offsets":[5,5]}}', 5),
    "escapes": file(b'{"\\u00e9\\ud83d\\ude00":{"shape":[2],"dtype":"U8","x":[[1.5e3,true,null]],"data_offsets":[0,2]}}', 2),
    "overlap": file(b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}', 3),
    "overflow": file(b'{"a":{"dtype":"F64","shape":[4294967296,4294967296,8],"data_offsets":[0,8]}}', 8),
    "huge-header": struct.pack("<Q", 100 << 30) + b"{}",
    "no-tensors": file(b"{}"),
    "not-json": file(b"{\"a\": {]}"),
    "empty": b"",
}
for name, content in SEEDS.items():
    (Path(sys.argv[1]) / name).write_bytes(content)
