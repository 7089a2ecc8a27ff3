#!/usr/bin/env python3
"""Goldens of published models: what llama.cpp computes from their files.

    python3 real_weights.py MODELS WIKITEXT_TEST OUT.json

MODELS holds the files below, each in a folder; `llama_cpp` as for `goldens.py`.
"""
import hashlib
import json
import pathlib
import sys

import numpy as np
from peer import Peer

FILES = {
    "gemma3": "gemma3/gemma-3-270m-q4_k_m.gguf",
    "smollm2": "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
}
PROMPTS = ["The capital of France is", "Once upon a time there was a", "To boil an egg, first"]
GREEDY, CTX, TEXT_BYTES = 40, 512, 12_000


def nll(rows, ids):
    rows = rows.astype(np.float64)
    top = rows.max(axis=1, keepdims=True)
    total = np.log(np.exp(rows - top).sum(axis=1)) + top[:, 0]
    return float((total - rows[np.arange(len(ids)), ids]).sum())


def main():
    models, text = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_bytes()[:TEXT_BYTES]
    out = []
    for name, path in FILES.items():
        path = models / path
        peer = Peer(path, n_ctx=CTX)
        ids = peer.encode(text, special=False)
        adds_bos = ids[0] == peer.bos()
        chunks, sums = [ids[i * CTX : (i + 1) * CTX] for i in range(len(ids) // CTX)], 0.0
        for chunk in chunks:
            fed = [peer.bos()] + chunk[1:] if adds_bos else chunk
            peer.clear()
            rows = peer.eval([fed], outputs_from=CTX // 2)[0]
            sums += nll(rows[:-1], chunk[CTX // 2 + 1 :])
        scored = len(chunks) * (CTX // 2 - 1)
        prompts = []
        for prompt in PROMPTS:
            tokens, rows = peer.greedy(peer.encode(prompt), GREEDY)
            best = np.sort(rows, axis=1)[:, -2:]
            gaps = [round(float(b - a), 3) for a, b in best]
            prompts.append({"text": prompt, "ids": peer.encode(prompt), "tokens": tokens, "gaps": gaps})
        out.append({"name": name, "file": FILES[name], "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                    "tokens": len(ids), "perplexity": round(float(np.exp(sums / scored)), 5), "prompts": prompts})
        print(name, len(ids), out[-1]["perplexity"], [peer.decode(p["tokens"]) for p in prompts])
        peer.close()
    head = {"format": 1, "peer": "llama.cpp 0c1e57098 (llama-cpp-python 0.3.36)", "text_bytes": TEXT_BYTES, "models": out}
    pathlib.Path(sys.argv[3]).write_text(json.dumps(head, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")


main()
