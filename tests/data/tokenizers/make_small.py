#!/usr/bin/env python3
"""Writes small/: small tokenizers of every kind with what the `tokenizers` library makes of some texts, and patterns.jsonl: what its
Split makes of them. Needs `pip install tokenizers==0.23.3 sentencepiece protobuf`."""
import itertools
import json
import os
import random
import shutil
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders as D, models as M, normalizers as N, pre_tokenizers as P, processors as R, trainers as T

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "small")
with open(os.path.join(HERE, "smollm2", "vectors.jsonl"), encoding="utf-8") as file:
    LINES = [json.loads(line) for line in file]
LINES = [line["text"] for line in LINES if "text" in line and len(line["text"]) < 400]
TEXTS = random.Random(1).sample(LINES, 70) + [
    "Hello, y'all! How are you \U0001f601 ?", "na\u00efve caf\u00e9 \u00c5ngstr\u00f6m \u0130stanbul \ufb01ne \u00bd \u2460\u2461 \uff46\uff55\uff4c\uff4c",
    "  leading and trailing  ", "a[MASK]b [MASK] c", "foo <s>bar</s> <extra>baz", "[CLS] x [SEP]", "\u0391\u0392\u0393 Stra\u00dfe \u1e9e",
    "e\u0301 a\u0323\u0302 \u1e69 s\u0323\u0307", "x\u00a0y\u2003z\u200bw\ufeff", "don't can't I'm we've they're ... do not",
    "12345678 1,234.56", "Tab\there\nnew\r\nline", "snake_case CamelCase", "", " ", "\u2581x \u2581\u2581 y\u2581", "foobar foo", "xfoo foo. foofoo",
    "\ud55c\uad6d\uc5b4 \ud14d\uc2a4\ud2b8 \u65e5\u672c\u8a9e\u30c6\u30ad\u30b9\u30c8 \u3072\u3089 \u30fc"]
CORPUS = [text for text in TEXTS if text]
SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
SPACE = "\u2581"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PLAIN_BYTES = P.ByteLevel(add_prefix_space=False, use_regex=False)


def split(pattern, behavior="isolated", invert=False):
    return P.Split(Regex(pattern), behavior, invert)


def wordpiece(normalizer, **decoder):
    t = Tokenizer(M.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, P.BertPreTokenizer(), D.WordPiece(**decoder)
    t.train_from_iterator(CORPUS, T.WordPieceTrainer(vocab_size=900, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"]))
    t.post_processor = R.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return t


def unigram(normalizer, pre, decoder):
    t = Tokenizer(M.Unigram())
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre, decoder
    t.train_from_iterator(CORPUS, T.UnigramTrainer(vocab_size=1200, show_progress=False, unk_token="<unk>", special_tokens=["<pad>", "</s>", "<unk>"]))
    t.post_processor = R.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return t


def precompiled():
    with tempfile.TemporaryDirectory() as folder:
        corpus = os.path.join(folder, "c.txt")
        with open(corpus, "w", encoding="utf-8") as f:
            f.write("\n".join(" ".join(text.split()) for text in CORPUS if "\0" not in text))
        prefix = os.path.join(folder, "m")
        sentencepiece.SentencePieceTrainer.train(input=corpus, model_prefix=prefix, vocab_size=700, model_type="unigram",
                                                 hard_vocab_limit=False, character_coverage=0.98, minloglevel=2)
        proto = sentencepiece_model_pb2.ModelProto()
        with open(prefix + ".model", "rb") as f:
            proto.ParseFromString(f.read())
    t = Tokenizer(M.Unigram([(piece.piece, piece.score) for piece in proto.pieces], unk_id=0))
    t.normalizer = N.Sequence([N.Precompiled(proto.normalizer_spec.precompiled_charsmap), N.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer, t.decoder = P.Metaspace(), D.Metaspace()
    return t


def bpe(normalizer, pre, decoder, model={}, **trainer):
    t = Tokenizer(M.BPE(**model))
    t.normalizer, t.pre_tokenizer, t.decoder = normalizer, pre, decoder
    t.train_from_iterator(CORPUS, T.BpeTrainer(vocab_size=900, show_progress=False, **trainer))
    return t


def byte_level(pre, normalizer=None, model={}, alphabet=True):
    trainer = dict(initial_alphabet=P.ByteLevel.alphabet()) if alphabet else {}
    return bpe(normalizer, pre, D.ByteLevel(), model, special_tokens=["<|endoftext|>"], **trainer)


def added(base, number):
    flags = list(itertools.product((False, True), repeat=3))[number]
    left, right, word = flags
    t = Tokenizer.from_str(base.to_str())
    t.add_tokens([AddedToken("foo", lstrip=left, rstrip=right, single_word=word, normalized=True),
                  AddedToken("foobar", lstrip=right, rstrip=left, normalized=False),
                  AddedToken("\u00c5ngstr\u00f6m", normalized=left)])
    t.add_special_tokens([AddedToken("<extra>", lstrip=right, rstrip=left, single_word=word, normalized=word),
                          AddedToken("[MASK]", lstrip=True, normalized=False)])
    return t


def cases():
    bert = wordpiece(N.BertNormalizer(lowercase=True))
    llama = bpe(N.Sequence([N.Prepend(SPACE), N.Replace(" ", SPACE)]), None,
                D.Sequence([D.Replace(SPACE, " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]),
                dict(unk_token="<unk>", byte_fallback=True, fuse_unk=True), special_tokens=SPECIAL + BYTES,
                limit_alphabet=200, max_token_length=20)
    description = json.loads(llama.to_str())  # the byte tokens are no control tokens
    description["added_tokens"] = [token for token in description["added_tokens"] if token["content"] in SPECIAL]
    llama = Tokenizer.from_str(json.dumps(description))
    gpt2 = byte_level(P.ByteLevel(add_prefix_space=True))
    t5 = unigram(N.Sequence([N.NFKC(), N.Replace(Regex(" {2,}"), " ")]), P.Metaspace(), D.Metaspace())
    yield "bert", bert
    yield "bert_cased", wordpiece(N.BertNormalizer(lowercase=False, strip_accents=True, clean_text=False), cleanup=False)
    yield "t5", t5
    yield "unigram_first", unigram(N.Sequence([N.NFD(), N.StripAccents()]), P.Metaspace(prepend_scheme="first"), D.Metaspace(prepend_scheme="first"))
    yield "unigram_never", unigram(N.Sequence([N.Strip(), N.Nmt()]), P.Metaspace(prepend_scheme="never", split=False), D.Metaspace(prepend_scheme="never"))
    yield "precompiled", precompiled()
    yield "llama", llama
    yield "metaspace", bpe(None, P.Metaspace(), D.Metaspace(), dict(unk_token="<unk>"), special_tokens=SPECIAL, limit_alphabet=150)
    yield "suffix", bpe(N.Lowercase(), P.Whitespace(), D.BPEDecoder(), dict(unk_token="<unk>", fuse_unk=True, end_of_word_suffix="</w>"),
                        special_tokens=SPECIAL, limit_alphabet=150, end_of_word_suffix="</w>")
    yield "prefix", bpe(N.NFKD(), P.WhitespaceSplit(), D.WordPiece(prefix="@@"), dict(unk_token="<unk>", continuing_subword_prefix="@@"),
                        special_tokens=SPECIAL, limit_alphabet=150, continuing_subword_prefix="@@")
    yield "gpt2", gpt2
    yield "missing_bytes", byte_level(P.ByteLevel(add_prefix_space=False), alphabet=False)
    yield "o200k", byte_level(P.Sequence([split(O200K), PLAIN_BYTES]), model=dict(ignore_merges=True))
    yield "aya", byte_level(P.Sequence([split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(O200K), PLAIN_BYTES]))
    yield "superbpe", byte_level(P.Sequence([split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))"), PLAIN_BYTES]))
    yield "punctuation", byte_level(P.Sequence([P.Punctuation("contiguous"), P.Digits(individual_digits=False), P.FixedLength(7), PLAIN_BYTES]))
    yield "clip", byte_level(P.Sequence([split(r"'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "removed", True), PLAIN_BYTES]),
                             N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]), dict(end_of_word_suffix="</w>"))
    for number, (name, base) in enumerate((("bert", bert), ("t5", t5), ("llama", llama), ("gpt2", gpt2))):
        yield f"added_{name}_a", added(base, number)
        yield f"added_{name}_b", added(base, 7 - number)


def write(name, t):
    folder = os.path.join(OUT, name)
    os.makedirs(folder)
    text = t.to_str()
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        f.write(text)
    t = Tokenizer.from_str(text)
    special = {token["id"] for token in json.loads(text)["added_tokens"] if token["special"]}
    unknown = t.token_to_id("<unk>") if t.token_to_id("<unk>") is not None else t.token_to_id("[UNK]")
    with open(os.path.join(folder, "vectors.jsonl"), "w", encoding="utf-8") as f:
        for n, sample in enumerate(TEXTS):
            line = dict(n=n, text=sample)
            t.encode_special_tokens = False
            line["ids"] = t.encode(sample, add_special_tokens=False).ids
            t.encode_special_tokens = True
            plain = t.encode(sample, add_special_tokens=False).ids
            if not (set(plain) & special) - {unknown}:  # control tokens from ordinary text we don't make
                line["ids_plain"] = plain
            line["decode"] = t.decode(line["ids"], skip_special_tokens=False) if line["ids"] else ""
            f.write(json.dumps(line, ensure_ascii=False) + "\n")


ATOMS = ["a", "b", "1", " ", r"\s", r"\S", r"\d", r"\w", r"\W", r"\p{L}", r"\P{L}", r"\p{Lu}", r"\p{N}", r"\p{P}", ".", "[abc]", "[^abc]",
         r"[^\s\p{L}]", r"[\p{L}&&[^a-c]]", "[[a-z]&&[^b]]", "\u017f", r"\x{e9}", r"[\r\n]", r"\h", "[-a]", "[]a]", r"\/", "[[:punct:]]",
         r"\p{Han}", r"\p{^L}", r"[\w&&[^\d]]", "[+--]"]
QUANTIFIERS = ["", "", "", "", "*", "+", "?", "*?", "+?", "*+", "++", "{2}", "{1,3}", "{,2}", "{2,}", "{2,3}+"]
SAMPLES = ["abc 123 Abc", "a\nb\r\n  c", "\u00e9\u00c9\u017fsS xK", "12345 ab12", "...!? a_b", "\u6f22\u5b57 kana \u304b\u306a", "\u00bd\u00b2\u2163 \u0661\u0662", "A1b2 C3\n\n"]


def atom(rng, depth):
    draw = rng.random()
    if depth < 2 and draw < .2:
        return rng.choice(["(", "(?:", "(?i:", "(?>"]) + alternatives(rng, depth + 1) + ")", True
    if depth < 2 and draw < .27:
        return rng.choice(["(?=", "(?!"]) + alternatives(rng, depth + 1) + ")", False
    if draw < .32:
        return rng.choice(["(?<=", "(?<!"]) + rng.choice(ATOMS[:20]) + ")", False
    if draw < .38:
        return rng.choice(["^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z"]), False
    return rng.choice(ATOMS), True


def alternatives(rng, depth):
    out = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        text = ""
        for _ in range(rng.randint(1, 3)):
            piece, repeats = atom(rng, depth)
            text += piece + (rng.choice(QUANTIFIERS) if repeats else "")
        out.append(text)
    return "|".join(out)


def write_patterns(f):
    rng = random.Random(5)
    count = 0
    while count < 250:
        pattern = ("(?i)" if rng.random() < .15 else "") + alternatives(rng, 0)
        behavior = rng.choice(["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"])
        invert = rng.random() < .2
        if len(pattern) > 60:
            continue
        try:
            cut = split(pattern, behavior, invert)
            pieces = [[piece for piece, _ in cut.pre_tokenize_str(sample)] for sample in SAMPLES]
        except BaseException:  # the library panics on some patterns
            continue
        for sample, expected in zip(SAMPLES, pieces):
            f.write(json.dumps(dict(pattern=pattern, behavior=behavior, invert=invert, text=sample, pieces=expected), ensure_ascii=False) + "\n")
        count += 1


if __name__ == "__main__":
    shutil.rmtree(OUT, ignore_errors=True)
    for case in cases():
        write(*case)
    with open(os.path.join(HERE, "patterns.jsonl"), "w", encoding="utf-8") as file:
        write_patterns(file)
