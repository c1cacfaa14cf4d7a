"""Writes cases.txt: what DRY and XTC make of random sequences and logits, computed here by their definitions alone.
Run it in this folder; tests/engine/test_stages.c reads the result.

  token ID HEX                                              the vocabulary
  dry MULTIPLIER BASE ALLOWED LAST BREAKERS IDS = ID:PENALTY ...    breakers in hex, or -
  xtc PROBABILITY THRESHOLD TEMPERATURE SEED CHOICE LOGITS = TOKENS     of positions 0, 1, ...
"""
import math
import random
import struct

TEXTS = ["a", "b", "c", "d", "e", "ab", "\n", "x\ny", ":", "##", "#", "# s", "top", "st", "op"]
LONGEST = 50
POSITIONS = 12
rng = random.Random(8)


def breaker_ends(tokens, breakers):
    """For each token, whether a breaker's text ends in it."""
    text, owner = "", []
    for i, token in enumerate(tokens):
        text += TEXTS[token]
        owner += [i] * len(TEXTS[token])
    found = set()
    for breaker in breakers:
        for begin in range(len(text) - len(breaker) + 1):
            if text[begin:begin + len(breaker)] == breaker:
                found.add(owner[begin + len(breaker) - 1])
    return [i in found for i in range(len(tokens))]


def dry(multiplier, base, allowed, last, breakers, tokens):
    window = tokens[-last:] if last else []
    is_end = breaker_ends(window, breakers)
    longest = {}
    for n in range(1, min(len(window), LONGEST + 1)):
        if any(is_end[-n:]):
            break
        for i in range(n, len(window)):
            if window[i - n:i] == window[-n:]:
                longest[window[i]] = n
    return {token: min(multiplier * base ** (n - allowed), 1e9) for token, n in sorted(longest.items())
            if n >= allowed and not any(breaker in TEXTS[token] for breaker in breakers)}


def philox(counter, key):
    """Philox4x32-10 (Salmon et al. 2011)."""
    x, k = list(counter), list(key)
    for _ in range(10):
        a, b = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        x = [(b >> 32) ^ x[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ x[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return x


def unit(high, low):
    return ((high << 32 | low) >> 11) / 2**53


def xtc(probability, threshold, temperature, seed, choice, logits):
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    weights = [math.exp((value - max(logits)) / temperature) for value in logits]
    total = sum(weights)
    above = [i for i in order if weights[i] / total >= threshold]
    drawn = []
    for position in range(POSITIONS):
        words = philox((position, choice, 0, 0), (seed & 0xFFFFFFFF, seed >> 32))
        kept = [1] * len(logits)
        if unit(words[2], words[3]) < probability:
            for i in above[:-1]:
                kept[i] = 0
        wanted = unit(words[0], words[1]) * sum(w for w, keep in zip(weights, kept) if keep)
        for i, weight in enumerate(weights):
            wanted -= weight * kept[i]
            if wanted < 0:
                drawn.append(i)
                break
    return drawn


def float32(value):
    return struct.unpack("f", struct.pack("f", value))[0]


with open("cases.txt", "w", encoding="ascii") as out:
    for number, text in enumerate(TEXTS):
        print("token", number, text.encode().hex(), file=out)
    for case in range(120):
        kinds = rng.choice([2, 3, 5, len(TEXTS)])
        tokens = [rng.randrange(kinds) for _ in range(rng.choice([1, 2, 7, 30, 90]))]
        if case % 3 == 0:  # ends as it began, long matches among them
            part = tokens[:rng.randrange(1, len(tokens) + 1)]
            tokens = (tokens + part) * rng.choice([1, 2])
        breakers = rng.choice([[], ["\n"], ["\n", ":"], ["# stop"], ["top", "\n"], ["ab"], ["##", "b"]])
        multiplier, base = rng.choice([0.5, 0.8, 2.0]), float32(rng.choice([1.0, 1.25, 1.75]))
        allowed, last = rng.choice([0, 1, 2, 2, 4, 49]), rng.choice([1000, 1000, 40, 8])
        penalties = dry(float32(multiplier), base, allowed, last, breakers, tokens)
        print("dry", multiplier, base, allowed, last, ",".join(b.encode().hex() for b in breakers) or "-",
              ",".join(map(str, tokens)), "=", *(f"{t}:{p:.9g}" for t, p in penalties.items()), file=out)
    for case in range(60):
        logits = [rng.randrange(-256, 256) / 64 for _ in TEXTS]
        if case % 4 == 0:  # equals among the likeliest
            logits[2] = logits[9] = logits[11] = 4.0
        values = rng.choice([0.5, 1.0, 0.25]), rng.choice([0.0625, 0.125, 0.25, 0.0, 0.75]), rng.choice([1.0, 0.5, 2.0])
        seed, choice = rng.getrandbits(64), rng.randrange(3)
        print("xtc", *values, seed, choice, ",".join(map(str, logits)), "=", *xtc(*values, seed, choice, logits), file=out)
