#!/usr/bin/env python3
"""What llama.cpp's samplers leave of given logits: python3 samplers.py STORYTELLER.gguf OUT.json

The file gives DRY a tokenizer for its sequence breakers. Logit i of a case is scale * 8 * x^3 in float64, then float32,
where x = (hash(i, seed) >> 8) / 2^24 - 0.5 and hash is that of architectures.py. Where a case has `ids`, the other
tokens are at minus infinity. `left` are the tokens with a probability and that probability, by id.
"""
import ctypes
import json
import pathlib
import random
import sys

import llama_cpp as L
import numpy as np

from peer import Peer

TEXTS = {
    "rhyme": 'One for sorrow, two for joy.\nThree for a girl, four for a boy.\nOne for sorrow, two for joy.\nThree for a',
    "dialogue": '"Come in," said the fox.\n"Come in," said the hen.\n"Come in," said the fox.\n"Come in," said',
    "chain": "the cat and the dog and the cat and the dog and the cat and the dog and the cat and the",
    "colon": "King: I will go.\nQueen: I will go.\nKing: I will go.\nQueen: I will",
    "stars": "* a red hat * a red hat * a red coat * a red hat * a red",
    "plain": "There was once a miller who had three sons, and the eldest of the three sons was",
}
BREAKERS = [
    ["\n", ":", '"', "*"], [], ['."\n'], ['"\n"', "said"], [" the"], ["d the"], [",\" sa", "fox"], ["red h", "r"],
    ["\n\n", "orrow, t"], ["ing: I"], ["and", " and the"], ["éa", "ö"],
]


def noise(n, seed, scale):
    i = np.arange(n, dtype=np.uint64)
    x = (i * 747796405 + seed * 2891336453) % 2**32
    x = ((x ^ (x >> 15)) * 2246822519) % 2**32
    x = x ^ (x >> 13)
    x = (x >> 8).astype(np.float64) / 2**24 - 0.5
    return (scale * 8.0 * x * x * x).astype(np.float32)


def sampler(step, case, vocab):
    name, *p = step
    if name == "dry":
        texts = [t.encode() for t in case["breakers"]]
        array = (ctypes.c_char_p * max(len(texts), 1))(*texts)
        return L.llama_sampler_init_dry(vocab, *p, array, len(texts))
    return {
        "penalties": lambda: L.llama_sampler_init_penalties(case["n"], *p),
        "top_n_sigma": lambda: L.llama_sampler_init_top_n_sigma(*p),
        "top_k": lambda: L.llama_sampler_init_top_k(*p),
        "typ_p": lambda: L.llama_sampler_init_typical(*p, 0),
        "top_p": lambda: L.llama_sampler_init_top_p(*p, 0),
        "min_p": lambda: L.llama_sampler_init_min_p(*p, 0),
        "xtc": lambda: L.llama_sampler_init_xtc(*p, 0, 1),
        "temperature": lambda: L.llama_sampler_init_temp_ext(*p),
        "mirostat_1": lambda: L.llama_sampler_init_mirostat(case["n"], 7, *p, 100),
        "mirostat_2": lambda: L.llama_sampler_init_mirostat_v2(7, *p),
    }[name]()


def apply(chain, case, seed):
    """The tokens left, with probabilities; and the token that Mirostat drew."""
    logits = noise(case["n"], seed, case["scale"])
    ids = case.get("ids") or list(range(case["n"]))
    data = (L.llama_token_data * len(ids))(*[L.llama_token_data(i, logits[i], 0.0) for i in ids])
    array = L.llama_token_data_array(data, len(ids), -1, False)
    for s in chain:
        L.llama_sampler_apply(s, ctypes.byref(array))
    drawn = array.selected
    left = [(array.data[i].id, array.data[i].p) for i in range(array.size)]
    token = left[drawn][0] if drawn >= 0 else None
    return sorted((i, float(f"{p:.7g}")) for i, p in left if p > 0.0), token


def run(case, vocab):
    chain = [sampler(s, case, vocab) for s in case["steps"]]
    draws = case["steps"][-1][0].startswith("mirostat")
    if not draws:
        chain.append(L.llama_sampler_init_dist(1))
    for s in chain:
        for t in case["history"]:
            L.llama_sampler_accept(s, t)
    case["left"], case["drawn"] = [], []
    for k in range(3 if draws else 1):
        left, token = apply(chain, case, case["seed"] + k)
        case["left"].append(left)
        if draws:
            case["drawn"].append(token)
    for s in chain:
        L.llama_sampler_free(s)
    return case


def cases(rng, peer):
    size = lambda: dict(n=rng.choice([2, 7, 30, 60]), seed=rng.randrange(1, 1000), scale=rng.choice([1.0, 4.0, 8.0]), history=[])
    number = lambda low, high: round(rng.uniform(low, high), 3)
    single = {
        "top_n_sigma": lambda: [number(0.2, 3.0)],
        "top_k": lambda: [rng.randrange(1, 40)],
        "typ_p": lambda: [number(0.05, 0.99)],
        "top_p": lambda: [number(0.05, 0.99)],
        "min_p": lambda: [number(0.001, 0.9)],
        "xtc": lambda: [1.0, number(0.005, 0.5)],
        "temperature": lambda: [number(0.2, 2.0), rng.choice([0.0, number(0.0, 2.0)]), number(0.3, 3.0)],
        "penalties": lambda: [rng.randrange(1, 20), number(0.5, 2.0), number(-1.0, 1.0), number(-1.0, 1.0)],
    }
    for name, parameters in single.items():
        for _ in range(10):
            case = size()
            case["history"] = [rng.randrange(case["n"]) for _ in range(rng.randrange(0, 30))] if name == "penalties" else []
            yield {**case, "steps": [[name, *parameters()]]}
    for version in (1, 2):
        for i in range(16):
            # On a flat distribution version 1's k overflows llama.cpp's int and becomes 1 instead of everything.
            steep = dict(n=rng.choice([30, 60, 150]), scale=rng.choice([12.0, 20.0])) if version == 1 else {}
            t = [["temperature", number(0.3, 1.3), 0.0, 1.0]] if i % 3 == 0 else []
            yield {**size(), **steep, "steps": t + [[f"mirostat_{version}", number(0.3, 3.0), number(0.05, 0.5)]]}
    for _ in range(60):
        case, names = size(), rng.sample(list(single), rng.randrange(2, 7))
        # llama.cpp leaves what top-n-sigma drops in its array at minus infinity, where typical's entropy becomes
        # 0 * infinity, and dynamic temperature counts it.
        names = [n for n in names if n != "top_n_sigma" or not {"typ_p", "temperature"} & set(names)]
        case["history"] = [rng.randrange(case["n"]) for _ in range(20)]
        yield {**case, "steps": [[n, *single[n]()] for n in names]}
    for i, breakers in enumerate(BREAKERS):
        for name, text in TEXTS.items():
            history = peer.encode(text)
            ids = sorted(set(history) | {rng.randrange(4096) for _ in range(4)})
            step = ["dry", number(0.1, 2.0), number(1.0, 3.0), rng.randrange(0, 4), rng.choice([12, 64, 1000])]
            if (i + len(name)) % 2:
                yield dict(n=4096, seed=rng.randrange(1, 1000), scale=2.0, history=history, ids=ids, breakers=breakers, text=name, steps=[step])


def main():
    peer = Peer(sys.argv[1])
    rng = random.Random(1)
    out = [run(c, peer.vocab) for c in cases(rng, peer)]
    head = {"format": 1, "peer": "llama.cpp 0c1e57098 (llama-cpp-python 0.3.36)"}
    body = ",\n".join(json.dumps(c, separators=(",", ":")) for c in out)
    pathlib.Path(sys.argv[2]).write_text(json.dumps(head)[:-1] + ', "cases": [\n' + body + "\n]}\n")
    print(len(out), "cases")


main()
