#!/usr/bin/env python3
"""Divergence of llama.cpp's logits from F32 activations, per weight type: python3 divergence.py FOLDER OUT.json

FOLDER is what `cargo test -p leyden-engine --test model -- --ignored write_divergence_files --nocapture` names: for each type
TYPE.gguf, the embedded storyteller in that type; TYPE-decoded.gguf, the same numbers as F32; and TYPE.f32, our logits
of the latter. tokens.u32 holds windows of 256 tokens. Keys and values F32, flash attention off, each window one batch.
"""
import hashlib
import json
import pathlib
import sys

import llama_cpp as L
import numpy as np

import peer

WINDOW, PART = 256, 32


class Peer(peer.Peer):
    """As Peer, with an F32 cache."""

    def __init__(self, path):
        make = L.llama_context_default_params

        def f32():
            p = make()
            p.type_k = p.type_v = 0
            return p

        L.llama_context_default_params = f32
        try:
            super().__init__(path, n_ctx=WINDOW, flash="off", threads=1)
        finally:
            L.llama_context_default_params = make


def log_softmax(x):
    x = x.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def divergence(exact, path, windows):
    """Means over PART positions of the divergence from `exact`, the log-probabilities."""
    p = Peer(path)
    out = []
    for k, w in enumerate(windows):
        a, b = exact[k], log_softmax(p.forced([int(t) for t in w]))
        out += list((np.exp(a) * (a - b)).sum(-1).reshape(-1, PART).mean(-1))
    p.close()
    return np.array(out)


def main():
    folder = pathlib.Path(sys.argv[1])
    windows = np.fromfile(folder / "tokens.u32", "<u4").reshape(-1, WINDOW)
    out = []
    for path in sorted(folder.glob("*-decoded.gguf")):
        kind = path.name.removesuffix("-decoded.gguf")
        exact = log_softmax(np.fromfile(folder / f"{kind}.f32", "<f4").reshape(len(windows), WINDOW, -1))
        own = divergence(exact, path, windows)
        file = folder / f"{kind}.gguf"
        d = divergence(exact, file, windows)
        out.append({"type": kind, "sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "f32": float(f"{own.mean():.3g}"), "divergence": [float(f"{x:.4g}") for x in d]})
        print(f"{kind:8} {d.mean():.3e} +- {d.std(ddof=1) / len(d) ** 0.5:.1e}  F32 {own.mean():.1e}", flush=True)
    head = {"format": 1, "peer": "llama.cpp 0c1e57098 (llama-cpp-python 0.3.36), x86-64 with AVX-512, F32 keys and values, flash attention off",
            "tokens": windows.reshape(-1).tolist()}
    body = ",\n".join(json.dumps(t, separators=(",", ":")) for t in out)
    pathlib.Path(sys.argv[2]).write_text(json.dumps(head, separators=(",", ":"))[:-1] + ',"types":[\n' + body + "\n]}\n")


main()
