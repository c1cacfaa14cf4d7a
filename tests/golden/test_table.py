"""docs/families.md is true: lines of code of each family, and the largest difference of its logits from those of transformers,
by container, over all models of data/golden and data/shapes. `test_table.py TENON DATA --write` writes it."""
import array
import json
import math
import os
import re
import subprocess
import sys
import tempfile

TENON, DATA = sys.argv[1:3]
ROOT = os.path.dirname(os.path.dirname(DATA))
PAGE = ROOT + "/docs/families.md"
sys.path.insert(0, ROOT + "/tests/golden")
import shapes  # noqa: E402

INTRO = """# Families
What `tenon` runs, from GGUF files and from folders of safetensors with `config.json`, and how far its logits are from those
of Hugging Face transformers in float32: the largest difference of any logit at any position, as a part of their range, with
`--activations float`, over all tiny reference models of a family in `tests/data`; GGUF files are those that llama.cpp's
converter made (`tests/data`) and those that `tenon quantize FOLDER OUT.gguf --type f32` makes of every folder, and run on the
cpu and on the reference device. Written and held true by `tests/golden/test_table.py`; [adding-a-model.md](adding-a-model.md) tells how a family gets in.

| family | model types of config.json | lines | models | GGUF | folder |
|---|---|---|---|---|---|
"""
OUTRO = """
## Where files can't say all
- GGUF has no key for the window of Mistral and Qwen 2, for `norm_topk_prob` of Qwen 3 MoE, for the scale of the scores of
  Gemma 2 and 3, and for `truncate` of YaRN. A GGUF file is run as published models are: no window, weights divided by their
  sum, one over the root of the head's size, the corrected range rounded to whole numbers (for gpt-oss too, as GGUF readers
  do; its folder says otherwise and is run so). A folder is run as its config.json says.
- longrope has two sets of frequencies, for contexts up to the original one and beyond. Transformers chooses by the longest
  position of each call and thereby changes what earlier tokens meant; tenon chooses once, by the context that the engine is
  made for (`--ctx`; `tenon logits`: the tokens given), so that a token's keys never change. A context of at most the original one gives what transformers gives
  for short texts, a larger one what it gives for long ones.
- `rope_type` dynamic is refused: its frequencies change with the length, and with them all keys in memory.
- config.json is read in the forms of transformers 4 (`rope_theta`, `rope_scaling`, `torch_dtype`) and 5 (`rope_parameters`,
  also by kind of layer, `dtype`, `per_layer_config`), with the text part in `text_config` or at the top. What it leaves out is
  what transformers has for the model type, but for sizes and the scaled positions of gpt-oss and Gemma 4, which must be said.
  A key that nobody reads is refused, as it may change the mathematics. Biases are used where the file has them, whatever
  `attention_bias` and `mlp_bias` say.
- `generation_config.json`: `eos_token_id`, a number or a list, ends answers. Its `temperature`, `top_p`, `top_k`, `min_p` and
  `repetition_penalty` (GGUF: `general.sampling.*`) are offered in `tn_model_info`; the server takes them where a request says
  nothing, as others who serve models do, `tenon run` and `chat` are greedy unless asked.
- Tokens of the tokenizer that text can become must have rows in the embedding; control tokens need not (Gemma 3's for images
  has none), a request with one is refused.
"""


def families():
    """{model type: family's file} as the families' tables have it."""
    found, lines = {}, {}
    folder = ROOT + "/src/model/families"
    for entry in sorted(os.listdir(folder)):
        if not entry.endswith(".c"):
            continue
        with open(f"{folder}/{entry}", encoding="utf-8") as file:
            source = file.read()
        lines[entry[:-2]] = source.count("\n")
        name = re.search(r"\.model_types = (\w+)", source).group(1)
        listed = re.search(r"\*const " + name + r"\[\] = \{([^}]*)\}", source).group(1)
        for kind in re.findall(r'"([^"]*)"', listed):
            found[kind] = entry[:-2]
    return found, lines


def floats(path):
    values = array.array("f")
    with open(path, "rb") as file:
        values.frombytes(file.read())
    return values


def run(*arguments):
    done = subprocess.run([TENON, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (arguments, done.stderr)


def difference(model, ids, wanted, out, device="cpu"):
    run("logits", model, "--tokens", ",".join(map(str, ids)), "--all", "--out", out, "--activations", "float", "--device", device)
    want, got = floats(wanted), floats(out)
    assert len(want) == len(got), model
    return max(map(lambda a, b: abs(a - b), want, got)) / (max(want) - min(want))


def measure(work):
    """{family: [models, worst of GGUF or None, worst of a folder]}"""
    kinds, lines = families()
    table = {family: [0, None, None] for family in lines}
    shapes.main(DATA + "/shapes", work)
    folders = [f"{DATA}/golden/{name}" for name in sorted(os.listdir(DATA + "/golden"))]
    folders += [f"{work}/{name}" for name in sorted(os.listdir(work))]
    for folder in folders:
        if not os.path.exists(folder + "/ref.json"):
            continue
        ids = shapes.load(folder + "/ref.json")["input_ids"]
        gguf = folder + "/model.gguf"
        # a model that is there as GGUF only is a llama
        kind = shapes.load(folder + "/config.json")["model_type"] if os.path.exists(folder + "/config.json") else "llama"
        row = table[kinds[kind]]
        row[0] += 1
        logits = folder + "/logits_gguf.f32"
        if os.path.exists(gguf):
            worst = difference(gguf, ids, logits if os.path.exists(logits) else folder + "/logits.f32", work + "/out")
            row[1] = max(row[1] or 0, worst)
        if os.path.exists(folder + "/config.json"):
            row[2] = max(row[2] or 0, difference(folder, ids, folder + "/logits.f32", work + "/out"))
            run("quantize", folder, work + "/made.gguf", "--type", "f32")
            for device in ("cpu", "reference"):
                worst = difference(work + "/made.gguf", ids, folder + "/logits.f32", work + "/out", device)
                row[1] = max(row[1] or 0, worst)
    return kinds, lines, table


def rounded_up(value):
    if value is None:
        return "-"
    power = math.floor(math.log10(value))
    digit = math.ceil(value / 10 ** power - 1e-9)
    return f"{digit}e{power}" if digit < 10 else f"1e{power + 1}"


def agrees(stated, value):
    """Instruction sets without fma round twice as often: elsewhere a difference may be some times as large."""
    if value is None or stated == "-":
        return value is None and stated == "-"
    return value <= 4 * float(stated) and float(stated) <= 10 * value + 1e-6


def main():
    with tempfile.TemporaryDirectory() as work:
        kinds, lines, table = measure(work)
    rows = {}
    for family, (count, gguf, folder) in sorted(table.items()):
        assert count and (folder is not None), f"{family} has no reference model"
        assert max(gguf or 0, folder) < 1e-3, (family, gguf, folder)
        types = ", ".join(kind for kind, of in kinds.items() if of == family)
        rows[family] = [types, str(lines[family]), str(count), rounded_up(gguf), rounded_up(folder)]
    if "--write" in sys.argv:
        with open(PAGE, "w", encoding="utf-8") as file:
            file.write(INTRO + "".join(f"| {' | '.join([family] + row)} |\n" for family, row in rows.items()) + OUTRO)
        return
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    assert page.startswith(INTRO) and page.endswith(OUTRO), "docs/families.md: run this with --write"
    stated = dict((cells[1], cells[2:7]) for cells in
                  (re.split(r" *\| *", line) for line in page[len(INTRO):-len(OUTRO)].splitlines()))
    for family, row in rows.items():
        told = stated.get(family)
        _, gguf, folder = table[family]
        if told is None or told[:3] != row[:3] or not agrees(told[3], gguf) or not agrees(told[4], folder):
            sys.exit(f"docs/families.md: {family} is {row} now, the page says {told}; run {sys.argv[0]} TENON DATA --write")
    assert len(stated) == len(rows), "docs/families.md has a family too many"
    print("ok")


main()
