#!/usr/bin/env python3
"""Compares the sounds of `leyden-phonemes` with those of misaki (PyPI) and writes the agreement as JSON.

    cargo build --release -p leyden-phonemes --example phonemes
    python3 bench/phonemes.py PROGRAM MISAKI_JSON_FOLDER TEXT OUT.json

PROGRAM is target/release/examples/phonemes, the folder has us_gold.json and us_silver.json, TEXT is any English text. Needs misaki 0.9.4 with
num2words, regex and addict, and not spaCy: misaki's lexicon is asked word by word, because no spaCy model is on PyPI. So parts of speech are not
compared: words whose sounds depend on them are left out of the text's words, and have their usual sounds among the dictionary's.
"""

import collections
import datetime
import importlib.metadata
import json
import pathlib
import platform
import random
import subprocess
import sys
import types

for name in ("spacy", "numpy"):
    try:
        __import__(name)
    except ImportError:
        sys.modules[name] = types.ModuleType(name)
from misaki import en  # noqa: E402

VOWELS = set("AIOQWYaiuæɑɒɔəɛɜɪʊʌᵻᵊɐ")
LEXICON = en.Lexicon(False)


# Tags of words that have one sound only for one part of speech in misaki, and are hardly ever another.
TAGS = {"a": "DT", "an": "DT", "the": "DT", "in": "IN", "to": "TO", "i": "PRP", "am": "VBP", "by": "IN"}


def misaki(word, vowel=None):
    token = en.MToken(text=word, tag="XX" if vowel is None else TAGS.get(word.lower(), "XX"), whitespace="", _=en.MToken.Underscore())
    return LEXICON(token, en.TokenContext(future_vowel=vowel))[0]


def leyden(program, lines):
    answer = subprocess.run([program, "--no-espeak"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True).stdout
    blocks, block = [], []
    for line in answer.split("\n")[:-1]:
        if line:
            block.append(line.split("\t"))
        else:
            blocks.append(block)
            block = []
    assert len(blocks) == len(lines), (len(blocks), len(lines))
    return blocks


def agreement(pairs):
    different = [pair for pair in pairs if pair[1] != pair[2]]
    sample = random.Random(1).sample(different, min(30, len(different)))
    equal = 1 - len(different) / max(1, len(pairs))
    return {"words": len(pairs), "equal": round(equal, 5), "examples_of_others": sample}


def main():
    program, folder, text, out = sys.argv[1:]
    files = [json.loads((pathlib.Path(folder) / f"us_{name}.json").read_text()) for name in ("silver", "gold")]
    entries = files[0] | files[1]

    words = [word for word in entries if word[0] != "-" and word[-1] != "."]
    ours = leyden(program, words)
    # A word with a hyphen that one side divides has its parts' sounds.
    dictionary = agreement([(word, "".join(part[1] for part in block), misaki(word)) for word, block in zip(words, ours)])

    regular = [w for w, v in files[1].items() if isinstance(v, str) and w.isascii() and w.isalpha() and w.islower() and len(w) > 3]
    formed = [w + "'s" for w in regular] + [w + "s" for w in regular if w[-1] not in "sxzhyo"]
    formed += [w.removesuffix("e") + ending for w in regular if w[-1] not in "aiouy" for ending in ("ed", "ing")]
    formed = [w for w in formed if w not in entries and w.capitalize() not in entries and misaki(w)]
    formed = random.Random(2).sample(formed, 20000)
    endings = agreement([(w, "".join(part[1] for part in block), misaki(w)) for w, block in zip(formed, leyden(program, formed))])

    lines = [line for line in pathlib.Path(text).read_text().splitlines() if line.strip()][:1500]
    pairs, sources = [], collections.Counter()
    for block in leyden(program, lines):
        for (word, sounds, source), following in zip(block, block[1:] + [None]):
            sources[source] += 1
            known = entries.get(word, entries.get(word.lower()))
            if source == "Dictionary" and isinstance(known, str) and following:
                vowel = following[1].lstrip("ˈˌ")[:1] in VOWELS
                pairs.append((word, sounds, misaki(word, vowel)))

    result = {
        "script": "bench/phonemes.py",
        "date": str(datetime.date.today()),
        "machine": platform.machine(),
        "misaki": importlib.metadata.version("misaki"),
        "dictionary_words": dictionary,
        "words_with_endings": endings,
        "words_of_text": {"text": pathlib.Path(text).name, **agreement(pairs)},
        "sources_in_text": dict(sources),
    }
    pathlib.Path(out).write_text(json.dumps(result, ensure_ascii=False, indent=1) + "\n")
    print(json.dumps(result, ensure_ascii=False, indent=1))


main()
