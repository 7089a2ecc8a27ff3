#!/usr/bin/env python3
"""Writes a GGUF in the shape of a published model, with random weights: for measuring speed and memory, not answers.

    python3 bench/shapes.py SHAPE OUT.gguf     (SHAPE: one of the table below; needs numpy)

The types of the weights are those that llama-quantize gives a Q4_K_M file (MXFP4 with Q8_0 for gpt-oss). Weights repeat a pool
of random blocks, which no matrix product notices. The vocabulary has the model's size and made-up words.
"""

import struct
import sys

import numpy as np

# Sizes as in each model's config.json: width, layers, heads, key heads, head size, width of the feed-forward net, vocabulary;
# where the embedding is the output matrix too, `tied`.
SHAPES = {
    "gemma3-1b": dict(arch="gemma3", width=1152, layers=26, heads=4, kv=1, head=256, ff=6912, vocab=262144, window=512, tied=True),
    "gemma3-4b": dict(arch="gemma3", width=2560, layers=34, heads=8, kv=4, head=256, ff=10240, vocab=262144, window=1024, tied=True),
    "phi-4-mini": dict(arch="phi3", width=3072, layers=32, heads=24, kv=8, head=128, ff=8192, vocab=200064, rotated=96, tied=True),
    "qwen3-30b-a3b": dict(arch="qwen3moe", width=2048, layers=48, heads=32, kv=4, head=128, ff=768, vocab=151936, experts=128, used=8),
    "gpt-oss-20b": dict(arch="gpt-oss", width=2880, layers=24, heads=64, kv=8, head=64, ff=2880, vocab=201088, experts=32, used=4, window=128),
    "llama-3.2-1b": dict(arch="llama", width=2048, layers=16, heads=32, kv=8, head=64, ff=8192, vocab=128256, tied=True),
    "llama-3.1-8b-f16": dict(arch="llama", width=4096, layers=32, heads=32, kv=8, head=128, ff=14336, vocab=128256, f16=True),
}
# name: (number in the file, weights in a block, bytes of a block)
TYPES = {"F32": (0, 1, 4), "F16": (1, 1, 2), "Q5_0": (6, 32, 22), "Q8_0": (8, 32, 34), "Q4_K": (12, 256, 144), "Q6_K": (14, 256, 210), "MXFP4": (39, 32, 17)}
U32, F32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
rng = np.random.default_rng(7)


def pool(kind, cols):
    """Some megabytes of random blocks whose weights have a deviation of 1 / sqrt(cols)."""
    _, weights, size = TYPES[kind]
    scale = 1 / np.sqrt(cols)
    count = (4 << 20) // size
    if kind in ("F32", "F16"):
        return (rng.standard_normal(count, dtype=np.float32) * scale).astype(np.float32 if kind == "F32" else np.float16).tobytes()
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    half = lambda x: np.frombuffer(np.float16(x).tobytes(), np.uint8)
    if kind == "Q4_K":
        blocks[:, 0:2], blocks[:, 2:4] = half(scale / 210), half(scale / 28)
    elif kind == "Q6_K":
        blocks[:, 208:210] = half(scale / 1360)
    elif kind == "MXFP4":
        blocks[:, 0] = 127 + round(np.log2(scale / 3))
    else:
        blocks[:, 0:2] = half(scale / (74 if kind == "Q8_0" else 9.2))
    return blocks.tobytes()


def text(s):
    b = s.encode()
    return struct.pack("<Q", len(b)) + b


def value(v):
    if isinstance(v, bool):
        return struct.pack("<I?", BOOL, v)
    if isinstance(v, int):
        return struct.pack("<II", U32, v)
    if isinstance(v, float):
        return struct.pack("<If", F32, v)
    if isinstance(v, str):
        return struct.pack("<I", STRING) + text(v)
    if isinstance(v[0], str):
        return struct.pack("<IIQ", ARRAY, STRING, len(v)) + b"".join(map(text, v))
    return struct.pack("<IIQ", ARRAY, 5, len(v)) + struct.pack(f"<{len(v)}i", *v)


def tokenizer(vocab):
    """Byte-level BPE: 256 letters that stand for bytes, an end, and words."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in kept}
    letters.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in letters)})
    tokens = [letters[b] for b in range(256)] + ["<|end|>", "wo", "wor", "word"] + [f"word{i}" for i in range(vocab - 260)]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * 256 + [3] + [1] * (vocab - 257),
        "tokenizer.ggml.merges": ["w o", "wo r", "wor d"],
        "tokenizer.ggml.eos_token_id": 256,
        "tokenizer.ggml.bos_token_id": 256,
    }


def fields(shape):
    a = shape["arch"]
    out = {
        "general.architecture": a,
        "general.name": "random weights",
        "general.file_type": 1 if shape.get("f16") else 15,
        f"{a}.block_count": shape["layers"],
        f"{a}.context_length": 131072,
        f"{a}.embedding_length": shape["width"],
        f"{a}.feed_forward_length": shape["ff"],
        f"{a}.attention.head_count": shape["heads"],
        f"{a}.attention.head_count_kv": shape["kv"],
        f"{a}.attention.key_length": shape["head"],
        f"{a}.attention.value_length": shape["head"],
        f"{a}.attention.layer_norm_rms_epsilon": 1e-6,
        f"{a}.rope.freq_base": 1e6 if a == "gemma3" else 150000.0 if a == "gpt-oss" else 10000.0,
        f"{a}.rope.dimension_count": shape.get("rotated", shape["head"]),
        f"{a}.vocab_size": shape["vocab"],
    }
    if "window" in shape:
        out[f"{a}.attention.sliding_window"] = shape["window"]
    if "experts" in shape:
        out[f"{a}.expert_count"] = shape["experts"]
        out[f"{a}.expert_used_count"] = shape["used"]
        out[f"{a}.expert_feed_forward_length"] = shape["ff"]
    if a == "gpt-oss":
        out |= {f"{a}.rope.scaling.type": "yarn", f"{a}.rope.scaling.factor": 32.0, f"{a}.rope.scaling.original_context_length": 4096}
    if a == "phi3":
        out |= {f"{a}.rope.scaling.original_context_length": 4096, f"{a}.rope.scaling.attn_factor": 1.19}
    return out | tokenizer(shape["vocab"])


def tensors(shape):
    """(name, type, dimensions of the file: columns first)."""
    a, width, layers, ff, vocab = (shape[k] for k in ("arch", "width", "layers", "ff", "vocab"))
    q, kv, head = shape["heads"] * shape["head"], shape["kv"] * shape["head"], shape["head"]
    moe, oss = "experts" in shape, a == "gpt-oss"

    def kind(cols, more=False):
        if shape.get("f16"):
            return "F16"
        if oss:
            return "Q8_0"
        if cols % 256:  # what llama-quantize takes where a K type does not divide the row
            return "Q8_0" if more else "Q5_0"
        return "Q6_K" if more else "Q4_K"

    yield "token_embd.weight", kind(width, more=True), (width, vocab)
    if not shape.get("tied"):
        yield "output.weight", kind(width, more=True), (width, vocab)
    yield "output_norm.weight", "F32", (width,)
    if a == "phi3":
        yield "rope_factors_long.weight", "F32", (shape["rotated"] // 2,)
        yield "rope_factors_short.weight", "F32", (shape["rotated"] // 2,)
    for i in range(layers):
        more = i < layers // 8 or i >= 7 * layers // 8 or (i - layers // 8) % 3 == 2
        b = f"blk.{i}."
        yield b + "attn_norm.weight", "F32", (width,)
        yield b + ("post_attention_norm.weight" if oss else "ffn_norm.weight"), "F32", (width,)
        if a == "phi3":
            yield b + "attn_qkv.weight", kind(width, more=True), (width, q + 2 * kv)
        else:
            yield b + "attn_q.weight", kind(width), (width, q)
            yield b + "attn_k.weight", kind(width), (width, kv)
            yield b + "attn_v.weight", kind(width, more), (width, kv)
        yield b + "attn_output.weight", kind(q), (q, width)
        if a in ("gemma3", "qwen3moe"):
            yield b + "attn_q_norm.weight", "F32", (head,)
            yield b + "attn_k_norm.weight", "F32", (head,)
        if a == "gemma3":
            yield b + "post_attention_norm.weight", "F32", (width,)
            yield b + "post_ffw_norm.weight", "F32", (width,)
        if oss:
            yield b + "attn_sinks.weight", "F32", (shape["heads"],)
            for name, size in (("q", q), ("k", kv), ("v", kv), ("output", width)):
                yield b + f"attn_{name}.bias", "F32", (size,)
        if moe:
            n = shape["experts"]
            grid = lambda cols, more=False: "MXFP4" if oss else kind(cols, more)
            yield b + "ffn_gate_inp.weight", "F32", (width, n)
            yield b + "ffn_gate_exps.weight", grid(width), (width, ff, n)
            yield b + "ffn_up_exps.weight", grid(width), (width, ff, n)
            yield b + "ffn_down_exps.weight", grid(ff, more), (ff, width, n)
            if oss:
                yield b + "ffn_gate_inp.bias", "F32", (n,)
                for name, size in (("gate", ff), ("up", ff), ("down", width)):
                    yield b + f"ffn_{name}_exps.bias", "F32", (size, n)
            continue
        if a == "phi3":
            yield b + "ffn_up.weight", kind(width), (width, 2 * ff)
        else:
            yield b + "ffn_gate.weight", kind(width), (width, ff)
            yield b + "ffn_up.weight", kind(width), (width, ff)
        yield b + "ffn_down.weight", kind(ff, more), (ff, width)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in SHAPES:
        raise SystemExit(f"usage: shapes.py SHAPE OUT.gguf, with SHAPE one of {', '.join(SHAPES)}")
    shape = SHAPES[sys.argv[1]]
    meta, plan, at = fields(shape), [], 0
    for name, kind, dims in tensors(shape):
        number, weights, size = TYPES[kind]
        count = int(np.prod([int(d) for d in dims])) // weights * size
        plan.append((name, kind, dims, number, at, count))
        at += -(-count // 32) * 32
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(plan), len(meta)) + b"".join(text(k) + value(v) for k, v in meta.items())
    for name, _, dims, number, offset, _ in plan:
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, offset)
    pools = {}
    with open(sys.argv[2], "wb") as f:
        f.write(head + bytes(-len(head) % 32))
        for name, kind, dims, _, _, count in plan:
            if len(dims) == 1 or name.endswith(".bias"):
                scale, mean = (0.02, 1.0) if name.endswith(".weight") and "sinks" not in name else (0.02, 0.0)
                n = int(np.prod(dims))
                data = (mean + rng.standard_normal(n) * scale).astype(np.float32).tobytes()
            else:
                key = (kind, dims[0])
                if key not in pools:
                    pools[key] = pool(*key)
                data, left = pools[key], count
                while left > len(data):
                    f.write(data)
                    left -= len(data)
                data = data[:left]
            f.write(data + bytes(-count % 32))


main()
