"""A GGUF file taken apart, changed at will, and put together again, wrong on purpose where asked."""
import struct

U32, F32, STRING, ARRAY, U64 = 4, 6, 8, 9, 10
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Tensor:
    def __init__(self, name, dims, kind, data):
        self.name, self.dims, self.kind, self.data = name, dims, kind, data
        self.offset = None  # None: where it belongs


class GgufFile:
    """keys: {name: (type, raw bytes)} in order; tensors: [Tensor]."""

    def __init__(self, path):
        blob = open(path, "rb").read()
        self.at, self.blob = 0, blob
        self.magic = self._take(4)
        self.version, tensors, keys = struct.unpack("<IQQ", self._take(20))
        self.keys = {}
        for _ in range(keys):
            name = self._string()
            kind = struct.unpack("<I", self._take(4))[0]
            start = self.at
            self._skip(kind)
            self.keys[name] = (kind, blob[start:self.at])
        heads = []
        for _ in range(tensors):
            name = self._string()
            rank = struct.unpack("<I", self._take(4))[0]
            dims = list(struct.unpack(f"<{rank}Q", self._take(8 * rank)))
            kind, offset = struct.unpack("<IQ", self._take(12))
            heads.append((name, dims, kind, offset))
        start = (self.at + 31) // 32 * 32
        ends = sorted(h[3] for h in heads) + [len(blob) - start]
        self.tensors = [Tensor(n, d, k, blob[start + o:start + ends[ends.index(o) + 1]]) for n, d, k, o in heads]
        self.tensor_count = self.key_count = None  # None: the true number

    def _take(self, count):
        self.at += count
        return self.blob[self.at - count:self.at]

    def _string(self):
        return self._take(struct.unpack("<Q", self._take(8))[0]).decode()

    def _skip(self, kind):
        if kind == STRING:
            self._string()
        elif kind == ARRAY:
            inner, count = struct.unpack("<IQ", self._take(12))
            for _ in range(count):
                self._skip(inner)
        else:
            self._take(SIZES[kind])

    def set_u32(self, name, value):
        self.keys[name] = (U32, struct.pack("<I", value))

    def set_f32(self, name, value):
        self.keys[name] = (F32, struct.pack("<f", value))

    def set_string(self, name, value):
        raw = value.encode()
        self.keys[name] = (STRING, struct.pack("<Q", len(raw)) + raw)

    def tensor(self, name):
        return next(t for t in self.tensors if t.name == name)

    def write(self, path):
        def text(value):
            raw = value.encode()
            return struct.pack("<Q", len(raw)) + raw
        out = bytearray(self.magic)
        out += struct.pack("<IQQ", self.version,
                           len(self.tensors) if self.tensor_count is None else self.tensor_count,
                           len(self.keys) if self.key_count is None else self.key_count)
        for name, (kind, raw) in self.keys.items():
            out += text(name) + struct.pack("<I", kind) + raw
        offset = 0
        data = bytearray()
        for t in self.tensors:
            out += text(t.name) + struct.pack("<I", len(t.dims)) + struct.pack(f"<{len(t.dims)}Q", *t.dims)
            out += struct.pack("<IQ", t.kind, offset if t.offset is None else t.offset)
            data += t.data + bytes(-len(t.data) % 32)
            offset = len(data)
        out += bytes(-len(out) % 32)
        with open(path, "wb") as f:
            f.write(out + data)
        return path
