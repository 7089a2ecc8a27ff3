"""Write the goldens beside this folder: what llama.cpp computes from the storyteller.

usage: goldens.py SHARED MODELS PART...
SHARED  folder that holds demo-model/ (storyteller-f16.gguf, heldout.txt)
MODELS  folder that holds storyteller-{q8_0,q4_0,q4_k_m,q6_k}.gguf made by llama-quantize
PART    greedy | forced | perplexity | digests, in this order the first time

Needs: llama-cpp-python 0.3.36, gguf, numpy. The formats are described in ../README.md.
"""
import hashlib
import json
import pathlib
import sys

import gguf
import numpy as np

from exact import Exact
from peer import THREADS, Peer
from prompts import prompts

PEER = "llama.cpp 0c1e57098 (llama-cpp-python 0.3.36), x86-64 with AVX-512, flash attention auto (on), F16 KV cache"
STEPS = 64
CTX = 512
TEXT_BYTES = 120_000
QUANTISED = ["q8_0", "q4_0", "q4_k_m", "q6_k"]
HERE = pathlib.Path(__file__).resolve().parent.parent


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def short(x, digits=4):
    """A float with few digits, so that the files stay small."""
    return round(float(x), digits)


def dump(name, head, rows):
    """One JSON document whose long list has one entry a line: small, and readable in a diff."""
    key, items = rows
    body = ",\n".join("  " + json.dumps(i, separators=(",", ":")) for i in items)
    lead = json.dumps(head, indent=1)[:-2]
    (HERE / name).write_text(f"{lead},\n \"{key}\": [\n{body}\n ]\n}}\n")


def head_of(path):
    return {"format": 1, "peer": PEER, "threads": THREADS, "model": path.name, "model_sha256": sha256(path.read_bytes())}


def top2(row):
    a = int(row.argmax())
    rest = row.copy()
    rest[a] = -np.inf
    return a, int(rest.argmax())


def greedy(f16, heldout):
    peer, exact = Peer(f16), Exact(f16)
    variants = {"flash attention off": Peer(f16, flash="off"), "one thread": Peer(f16, threads=1)}
    out = []
    for name, text in prompts(heldout):
        ids = peer.encode(text)
        tokens, rows = peer.greedy(ids, STEPS)
        pairs = [top2(r) for r in rows]
        gaps = [short(r[a] - r[b]) for r, (a, b) in zip(rows, pairs)]
        out.append({"name": name, "text": text, "ids": ids, "tokens": tokens, "second": [b for _, b in pairs], "gaps": gaps,
                    "output": peer.decode(tokens).decode("utf-8", "replace")})
        same = {k: v.greedy(ids, STEPS)[0] == tokens for k, v in variants.items()}
        same["float64"] = exact.greedy(ids, STEPS) == tokens
        print(f"{name}: {len(ids)} ids, smallest gap {min(gaps)}, same tokens with: {same}; {out[-1]['output'][:60]!r}", flush=True)
    dump("f16_greedy.json", {**head_of(f16), "steps": STEPS}, ("prompts", out))


def forced(files):
    sequences = [(p["name"], p["ids"] + p["tokens"]) for p in json.loads((HERE / "f16_greedy.json").read_text())["prompts"]]
    for kind, path in files.items():
        peer, exact = Peer(path), Exact(path)
        out, spreads, squares, count, disagree, stepwise, gap_errors = [], [], 0.0, 0, [], 0.0, []
        for name, ids in sequences:
            rows = peer.forced(ids)
            truth = exact.forced(ids)
            pairs = [top2(r) for r in rows]
            out.append({"name": name, "first": [a for a, _ in pairs], "first_logit": [short(r[a]) for r, (a, _) in zip(rows, pairs)],
                        "second": [b for _, b in pairs], "second_logit": [short(r[b]) for r, (_, b) in zip(rows, pairs)]})
            d = rows - truth
            d -= d.mean(-1, keepdims=True)
            gap_errors += [float(e[a] - e[b]) for e, (a, b) in zip(d, pairs)]
            spreads.append(d.max(-1) - d.min(-1))
            squares, count = squares + float((d * d).sum()), count + d.size
            disagree += [float(r[a] - r[b]) for r, t, (a, b) in zip(rows, truth, pairs) if int(t.argmax()) != a]
            peer.clear()
            single = np.concatenate([peer.eval([[t]], start=k)[0] for k, t in enumerate(ids)])
            stepwise = max(stepwise, float(np.abs(single - rows).max()))
        n = sum(len(ids) for _, ids in sequences)
        noise = {"positions": n, "rms": short((squares / count) ** 0.5, 6), "gap_rms": short(np.sqrt(np.mean(np.square(gap_errors))), 6), "largest_spread": short(np.concatenate(spreads).max()),
                 "mean_spread": short(np.concatenate(spreads).mean()), "top_differs": len(disagree),
                 "largest_gap_where_top_differs": short(max(disagree, default=0.0)), "largest_batch_versus_single": short(stepwise, 6)}
        print(kind, noise, flush=True)
        dump(f"{kind}_forced.json", {**head_of(path), "against_float64": noise}, ("prompts", out))
        peer.close()


def nll(logits, targets):
    """Summed negative log-likelihood of `targets`; one row of logits each."""
    x = logits.astype(np.float64)
    m = x.max(-1, keepdims=True)
    return float((np.log(np.exp(x - m).sum(-1)) + m[:, 0] - x[np.arange(len(targets)), targets]).sum())


def perplexity(files, heldout):
    out, head = [], None
    for kind, path in files.items():
        peer, exact = Peer(path, n_ctx=CTX, n_seq=4), Exact(path)
        ids = peer.encode(heldout[:TEXT_BYTES])
        chunks = [ids[i * CTX : (i + 1) * CTX] for i in range(len(ids) // CTX)]
        first = CTX // 2
        head = {"format": 1, "peer": PEER, "threads": THREADS, "text_bytes": TEXT_BYTES, "text_sha256": sha256(heldout[:TEXT_BYTES]), "context": CTX,
                "tokens": len(ids), "tokens_sha256": sha256(np.array(ids, "<u4").tobytes()), "chunks": len(chunks), "scored_per_chunk": CTX - first - 1}
        sums, truth = [], 0.0
        for c in range(0, len(chunks), 4):
            group = chunks[c : c + 4]
            fed = [[peer.bos()] + g[1:] for g in group]
            peer.clear()
            for g, f, rows in zip(group, fed, peer.eval(fed, outputs_from=first)):
                sums.append(nll(rows[:-1], g[first + 1 :]))
                truth += nll(exact.forced(f, first)[:-1], g[first + 1 :])
        n = len(chunks) * (CTX - first - 1)
        row = {"kind": kind, "model": path.name, "model_sha256": sha256(path.read_bytes()), "perplexity": short(np.exp(sum(sums) / n), 5),
               "float64_perplexity": short(np.exp(truth / n), 5), "chunk_nll": [short(s / (CTX - first - 1), 6) for s in sums]}
        print(kind, row["perplexity"], row["float64_perplexity"], flush=True)
        out.append(row)
        peer.close()
    dump("perplexity.json", head, ("files", out))


def digests(files):
    out = []
    for kind, path in files.items():
        r = gguf.GGUFReader(str(path))
        for t in r.tensors:
            out.append({"file": path.name, "tensor": t.name, "type": t.tensor_type.name, "shape": [int(n) for n in t.shape][::-1],
                        "bytes": int(t.n_bytes), "sha256": sha256(t.data.tobytes())})
    files = {p.name: {"bytes": p.stat().st_size, "sha256": sha256(p.read_bytes())} for p in files.values()}
    dump("tensor_digests.json", {"format": 1, "peer": PEER, "files": files}, ("tensors", out))


def main():
    shared, models = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    f16 = shared / "demo-model" / "storyteller-f16.gguf"
    heldout = (shared / "demo-model" / "heldout.txt").read_bytes()
    files = {"f16": f16, **{k: models / f"storyteller-{k}.gguf" for k in QUANTISED}}
    for part in sys.argv[3:]:
        {"greedy": lambda: greedy(f16, heldout), "forced": lambda: forced(files), "perplexity": lambda: perplexity(files, heldout),
         "digests": lambda: digests(files)}[part]()


main()
