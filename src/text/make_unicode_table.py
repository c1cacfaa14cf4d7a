#!/usr/bin/env python3
"""Writes unicode_table.c beside this file: general categories, scripts and simple case folding of one pinned Unicode
version, so that a tokenizer gives the same ids whatever libraries a machine has.

Needs `pip install unicodedata2==16.0.0 fonttools==4.56.0` (both carry the tables of Unicode 16.0.0)."""
import os
import unicodedata2 as ucd
from fontTools.unicodedata import Scripts

assert ucd.unidata_version == "16.0.0"
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()


def rows(items, per_line):
    lines = []
    for i in range(0, len(items), per_line):
        lines.append("    " + " ".join(items[i:i + per_line]))
    return "\n".join(lines)


def categories():
    out, last = [], None
    for codepoint in range(0x110000):
        category = CATEGORIES.index(ucd.category(chr(codepoint)))
        if category != last:
            out.append(f"0x{codepoint << 5 | category:x},")
            last = category
    return out


def scripts():
    names = sorted({Scripts.NAMES[v] for v in Scripts.VALUES})
    out, last = [], None
    for start, value in zip(Scripts.RANGES, Scripts.VALUES):
        index = names.index(Scripts.NAMES[value])
        if index != last:
            out.append(f"0x{start << 8 | index:x},")
            last = index
    return names, out


def folds():
    out = []
    for codepoint in range(0x110000):
        if 0xd800 <= codepoint < 0xe000 or codepoint == 0x131:  # the dotless i folds to itself
            continue
        text = chr(codepoint)
        # A character's simple folding: the lower case of its upper case, where each is one character.
        upper = text.upper() if len(text.upper()) == 1 else text
        fold = upper.lower() if len(upper.lower()) == 1 else text
        if fold != text:
            out.append(f"{{0x{codepoint:x}, 0x{ord(fold):x}}},")
    return out


names, script_ranges = scripts()
category_ranges, fold_pairs = categories(), folds()
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "unicode_table.c")
with open(path, "w", encoding="ascii") as f:
    f.write("/* Made by make_unicode_table.py from Unicode 16.0.0. Don't edit. */\n/* clang-format off */\n")
    f.write('#include "text/unicode_table.h"\n\n')
    f.write(f"const size_t tn_category_range_count = {len(category_ranges)};\n")
    f.write("const uint32_t tn_category_ranges[] = {\n" + rows(category_ranges, 12) + "\n};\n\n")
    f.write(f"const size_t tn_script_range_count = {len(script_ranges)};\n")
    f.write("const uint32_t tn_script_ranges[] = {\n" + rows(script_ranges, 12) + "\n};\n\n")
    f.write(f"const size_t tn_script_name_count = {len(names)};\n")
    f.write("const char *const tn_script_names[] = {\n" + rows([f'"{n}",' for n in names], 8) + "\n};\n\n")
    f.write(f"const size_t tn_fold_count = {len(fold_pairs)};\n")
    f.write("const uint32_t tn_folds[][2] = {\n" + rows(fold_pairs, 6) + "\n};\n")
