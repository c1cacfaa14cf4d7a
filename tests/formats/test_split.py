"""GGUF files split in parts give the logits of the whole; parts that are missing, swapped or doubled are refused."""
import os
import struct
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1:3]
TYPES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Reader:
    """Just enough of GGUF to cut a file: keys as bytes, tensor infos, data."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        tensors, keys = struct.unpack_from("<QQ", self.data, 8)
        self.at = 24
        begin = self.at
        for _ in range(keys):
            self.text()
            self.value(self.number("I"))
        self.keys, self.key_count = self.data[begin:self.at], keys
        self.tensors = []
        for _ in range(tensors):
            name = self.text()
            rank = self.number("I")
            dims = [self.number("Q") for _ in range(rank)]
            self.tensors.append([name, dims, self.number("I"), self.number("Q")])
        base = (self.at + 31) // 32 * 32
        ends = sorted(t[3] for t in self.tensors) + [len(self.data) - base]
        for tensor in self.tensors:
            tensor.append(self.data[base + tensor[3]:base + ends[ends.index(tensor[3]) + 1]])

    def number(self, kind):
        value = struct.unpack_from("<" + kind, self.data, self.at)[0]
        self.at += struct.calcsize("<" + kind)
        return value

    def text(self):
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def value(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            inner, count = self.number("I"), self.number("Q")
            for _ in range(count):
                self.value(inner)
        else:
            self.number(TYPES[kind])


def text(value):
    return struct.pack("<Q", len(value)) + value


def key(name, kind, code, value):
    return text(name.encode()) + struct.pack("<I" + code, kind, value)


def write(path, keys, key_count, tensors, number, parts, total):
    keys += key("split.no", 2, "H", number) + key("split.count", 2, "H", parts) + key("split.tensors.count", 5, "i", total)
    infos, data = b"", b""
    for name, dims, kind, _, content in tensors:
        infos += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data += content + b"\0" * (-len(content) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), key_count + 3) + keys + infos
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % 32) + data)


def logits(path, folder):
    out = folder + "/out.f32"
    done = subprocess.run([TENON, "logits", path, "--tokens", "3,5,8,13", "--all", "--out", out], capture_output=True, text=True,
                          timeout=60)
    if done.returncode:
        return done.stderr
    with open(out, "rb") as file:
        return file.read()


whole = DATA + "/golden/llama/model.gguf"
model = Reader(whole)
third = len(model.tensors) // 3
cuts = [model.tensors[:third], model.tensors[third:2 * third], model.tensors[2 * third:]]
with tempfile.TemporaryDirectory() as folder:
    want = logits(whole, folder)
    assert isinstance(want, bytes), want
    paths = [f"{folder}/m-{i + 1:05d}-of-00003.gguf" for i in range(3)]

    def write_parts(parts, total=len(model.tensors), numbers=(0, 1, 2)):
        for i, tensors in enumerate(parts):
            write(paths[i], model.keys if i == 0 else b"", model.key_count if i == 0 else 0, tensors, numbers[i], 3, total)
        return logits(paths[0], folder)

    assert write_parts(cuts) == want
    assert "first" in logits(paths[1], folder)
    assert "split.no" in write_parts(cuts, numbers=(0, 2, 1))
    assert "split.tensors.count" in write_parts(cuts, total=7)
    assert "earlier part" in write_parts([cuts[0], cuts[0] + cuts[1], cuts[2]], total=len(model.tensors) + third)
    assert "blk.2" in write_parts([cuts[0], cuts[1], cuts[2][:-4]], total=len(model.tensors) - 4)
    write_parts(cuts)
    os.rename(paths[2], folder + "/gone")
    assert paths[2] in logits(paths[0], folder)
    os.rename(folder + "/gone", paths[2])
    os.rename(paths[0], folder + "/first.gguf")
    assert "00001-of-00003" in logits(folder + "/first.gguf", folder)
print("ok")
