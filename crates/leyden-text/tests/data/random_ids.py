#!/usr/bin/env python3
"""Encodes 2,000 random strings with llama.cpp.

    python3 random_ids.py NAME=VOCABULARY.gguf…

Needs the Python package llama_cpp. Writes beside itself: random_strings.json, the strings, and random_ids.json,
which holds for each vocabulary one 32-bit FNV-1a hash per string. Hashed are the ids, 4 bytes each, little-endian: first
those with special tokens parsed, then 0xffffffff, then those with special tokens as text. No BOS is added.
"""

import json
import pathlib
import random
import struct
import sys

import llama_cpp

HERE = pathlib.Path(__file__).parent
COUNT = 2000

WORDS = (
    "the quick brown fox jumps Hello WORLD naïve café Straße Ærø İstanbul ǅ ﬁne żółć привет МИР ещё ελληνικά Σίσυφος "
    "שלום עברית العربية كِتَابٌ हिन्दी क्षेत्र ภาษาไทย ខ្មែរ தமிழ் 中文 日本語 ひらがな カタカナ ｶﾀｶﾅ 한국어 ᄀᆞ ქართული հայերեն አማርኛ Ꭰ 𐐀𐐨 𝒜𝓫 "
    "don't I'll we'RE they'Ve it'S 'tis o'clock 'd 'LL 'ſ ’s fn main() { println!(\"{}\",x); } foo_bar camelCase i++ != <= =>"
).split(" ")
EMOJI = "😀 🦙 👍🏽 👩‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ☺️ ✈ 1️⃣ 🫠 🪿 ❤️‍🔥".split(" ")
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "\r\n", " \n", "\n ", "\u00a0", "\u3000", "\u2028", "\u0085", "\u2003", "\u200b", "\ufeff"]
DIGITS = ["0", "7", "42", "365", "1984", "31415", "1234567890", "3.14", "1,000", "٣٤٥", "१२३", "²³", "Ⅷ", "½", "๑๒", "𝟙𝟚", "六"]
SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|eot_id",
    "[PAD151646]", "<|reserved_special_token_0|>", "</s>", "<s>", "<|", "|>", "<think>",
]
PUNCTUATION = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~…—«»‹›¿¡€£¥©®°№†‡•·、。「」！？") + ["...", "!!", "--", "==", "'''"]


def any_char(rng):
    while True:
        plane = rng.choice([0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x110000])
        cp = rng.randrange(plane)
        if not 0xD800 <= cp < 0xE000:
            return chr(cp)


def piece(rng):
    kind = rng.randrange(20)
    if kind < 6:
        return rng.choice(["", " ", " ", " "]) + rng.choice(WORDS)
    if kind < 8:
        return rng.choice(EMOJI)
    if kind < 11:
        return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 4)))
    if kind < 13:
        return rng.choice(["", " "]) + rng.choice(DIGITS)
    if kind < 15:
        return rng.choice(PUNCTUATION) * rng.randint(1, 3)
    if kind < 16:
        return rng.choice(SPECIAL)
    if kind < 17:
        return chr(rng.randrange(0x20)) + rng.choice(["", "\x7f", "\x1b[0m", "\u0301", "\u200d", "\u202e"])
    if kind < 18:
        return rng.choice("aé中 \n1!") * rng.randint(2, 70)
    return "".join(any_char(rng) for _ in range(rng.randint(1, 5)))


def fnv1a(data):
    state = 0x811C9DC5
    for byte in data:
        state = (state ^ byte) * 0x01000193 % 2**32
    return state


def main():
    rng = random.Random(20261121)
    strings = ["".join(piece(rng) for _ in range(rng.randint(1, 9))) for _ in range(COUNT)]
    (HERE / "random_strings.json").write_text(json.dumps(strings, ensure_ascii=False, indent=0) + "\n")
    hashes = {}
    for argument in sys.argv[1:]:
        name, path = argument.split("=", 1)
        llama = llama_cpp.Llama(path, vocab_only=True, verbose=False)
        hashes[name] = []
        for string in strings:
            parsed = llama.tokenize(string.encode(), add_bos=False, special=True)
            text = llama.tokenize(string.encode(), add_bos=False, special=False)
            ids = [*parsed, 0xFFFFFFFF, *text]
            hashes[name].append(f"{fnv1a(struct.pack(f'<{len(ids)}I', *ids)):08x}")
    body = {"llama_cpp": llama_cpp.__version__, "hashes": {name: " ".join(h) for name, h in hashes.items()}}
    (HERE / "random_ids.json").write_text(json.dumps(body, indent=1) + "\n")


main()
