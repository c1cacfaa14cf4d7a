"""What inspect says of KV memory against a count of its own: layers, heads, types and bytes a position of full, sliding,
shared and low-rank layers. Arguments: the tenon command, test data."""
import json
import os
import subprocess
import sys

TENON, DATA = sys.argv[1], sys.argv[2]
ELEMENT = {"f32": 4, "f16": 2, "bf16": 2, "int8": 1}
failures = []


def groups_of(model, kv):
    path = os.path.join(DATA, "golden", model)
    if os.path.exists(os.path.join(path, "model.gguf")):
        path = os.path.join(path, "model.gguf")
    out = subprocess.run([TENON, "inspect", path, "--ctx", "64", "--kv", kv, "--json"], capture_output=True, timeout=60)
    if out.returncode:
        sys.exit(out.stderr.decode())
    memory = json.loads(out.stdout)["memory"]
    return memory["kv_groups"], memory


def check(model, kv, want):
    """want: (layers with KV of their own, layers that read it, heads, key dim, value dim, window, type)"""
    got, memory = groups_of(model, kv)
    if len(got) != len(want):
        failures.append(f"{model} {kv}: {len(got)} kinds of KV, expected {len(want)}: {got}")
        return
    for group, (layers, readers, heads, key, value, window, kind) in zip(got, want):
        position = layers * heads * ((key + value) * ELEMENT[kind] + (8 if kind == "int8" else 0))
        expected = {"layers": layers, "readers": readers, "heads": heads, "key": key, "value": value, "type": kind,
                    "position": position, "window": window}
        wrong = {name: group[name] for name in expected if group[name] != expected[name]}
        if wrong:
            failures.append(f"{model} {kv}: {wrong}, expected {expected}")
    total = sum(group["position"] * 32 * group["pages"] for group in got)
    if not total <= memory["kv"] <= total * 4 // 3 + 4096:  # a device may pad
        failures.append(f"{model} {kv}: {memory['kv']} bytes of KV, {total} computed")


for kv in ELEMENT:
    check("llama", kv, [(3, 3, 2, 16, 16, 0, kv)])
    check("gemma4-ple", kv, [(2, 4, 1, 16, 16, 12, kv), (1, 2, 1, 32, 32, 0, kv)])
    check("gemma3", kv, [(6, 6, 2, 24, 24, 16, kv), (1, 1, 2, 24, 24, 0, kv)])
    check("deepseek3", kv, [(3, 3, 1, 28, 20, 0, "f16" if kv == "int8" else kv)])
print("\n".join(failures + [f"{len(failures)} failures"]))
sys.exit(1 if failures else 0)
