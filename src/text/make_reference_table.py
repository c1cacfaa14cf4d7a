#!/usr/bin/env python3
"""Writes reference_table.c beside this file: where the `tokenizers` library, whose vocabularies were made with it, has properties of an
older Unicode version than ours, measured character by character.

Needs `pip install tokenizers==0.23.3 unicodedata2==16.0.0`."""
import os
import unicodedata2 as ucd
from tokenizers import normalizers, pre_tokenizers

POINTS = [c for c in range(1, 0x110000) if not 0xd800 <= c < 0xe000]
CATEGORY = {c: ucd.category(chr(c)) for c in POINTS}


def removed(normalizer):
    return {c for c in POINTS if normalizer.normalize_str("a" + chr(c) + "b") == "ab"}


def bert(**options):
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**{**off, **options})


def unchanged(name):
    form = getattr(normalizers, name)()
    return {c for c in POINTS if ucd.normalize(name, chr(c)) != chr(c) and form.normalize_str(chr(c)) == chr(c)}


def of(*categories):
    return {c for c in POINTS if CATEGORY[c] in categories}


def ranges(points):
    out = []
    for c in sorted(points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def write(f, name, comment, points):
    rows = ranges(points)
    f.write(f"/* {comment} */\nconst size_t {name}_count = {len(rows)};\nconst uint32_t {name}[][2] = {{\n")
    for i in range(0, len(rows), 6):
        f.write("    " + " ".join(f"{{0x{a:x}, 0x{b:x}}}," for a, b in rows[i:i + 6]) + "\n")
    f.write("};\n\n")


punctuation = pre_tokenizers.Punctuation()
cut = {c for c in POINTS if len(punctuation.pre_tokenize_str("a" + chr(c))) == 2}
ours = {c for c in POINTS if CATEGORY[c][0] == "P" or (c < 128 and CATEGORY[c][0] == "S")}
marks = removed(bert(strip_accents=True))
controls = removed(bert(clean_text=True))
accents = removed(normalizers.StripAccents())
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference_table.c")
with open(path, "w", encoding="ascii") as f:
    f.write("/* Made by make_reference_table.py with tokenizers 0.23.3. Don't edit. */\n/* clang-format off */\n")
    f.write('#include "text/reference_table.h"\n\n')
    write(f, "tn_bert_unknown", "no punctuation, mark or format character for BERT's steps",
          (ours - cut) | (of("Mn") - marks) | (of("Cc", "Cf", "Co") - controls - {9, 10, 13}))
    write(f, "tn_bert_more", "punctuation or mark for BERT's steps, though not now", (cut - ours) | (marks - of("Mn")))
    write(f, "tn_accents_unknown", "no mark for StripAccents", of("Mn", "Mc", "Me") - accents)
    write(f, "tn_accents_more", "a mark for StripAccents, though not now", accents - of("Mn", "Mc", "Me"))
    lowercase = normalizers.Lowercase()
    pairs = [(c, ord(low)) for c in POINTS for low in [lowercase.normalize_str(chr(c))] if len(low) == 1 and low != chr(c)]
    f.write(f"/* {{character, its lower case}}; U+0130, whose lower case is two characters, is not among them */\n")
    f.write(f"const size_t tn_lowercase_count = {len(pairs)};\nconst uint32_t tn_lowercase[][2] = {{\n")
    for i in range(0, len(pairs), 6):
        f.write("    " + " ".join(f"{{0x{a:x}, 0x{b:x}}}," for a, b in pairs[i:i + 6]) + "\n")
    f.write("};\n\n")
    write(f, "tn_forms_unknown", "without decomposition for the compatibility forms", unchanged("NFKD"))
