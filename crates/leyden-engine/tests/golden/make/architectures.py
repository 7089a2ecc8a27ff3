#!/usr/bin/env python3
"""Logits of llama.cpp for tiny models of every architecture: python3 architectures.py OUT.json

The weights follow from a formula that `tests/model/architectures.rs` repeats, so no file is stored: weight i of a
tensor is ((hash(i, seed) >> 8) / 2^24 - 0.5) * scale, where hash(i, seed) = mix(i * 747796405 + seed * 2891336453)
modulo 2^32 with mix(x) = (x ^ (x >> 15)) * 2246822519, then x ^ (x >> 13). Seeds count the tensors in the order
written. Norm weights are 1 + the same with scale 0.2. Weights, cache and flash attention: F32, F32, off.
"""
import ctypes
import json
import pathlib
import sys
import tempfile

import gguf
import llama_cpp as L
import numpy as np

WIDTH, HEADS, KV, FF, LAYERS, VOCAB, CONTEXT, TOKENS = 32, 2, 1, 64, 2, 128, 256, 100
EXPERTS, USED, EXPERT_FF = 11, 3, 24
VARIANTS = {
    "llama": dict(arch="llama"),
    "llama rope_freqs": dict(arch="llama", freqs=True),
    "llama linear": dict(arch="llama", scaling=("linear", 4.0)),
    "llama yarn": dict(arch="llama", scaling=("yarn", 4.0)),
    "llama head_dim 32": dict(arch="llama", head_dim=32),
    "qwen2": dict(arch="qwen2", bias=True),
    "qwen3": dict(arch="qwen3", head_dim=32, head_norm=True),
    "qwen3moe": dict(arch="qwen3moe", head_dim=32, head_norm=True, experts=True),
}


def noise(n, seed, scale):
    i = np.arange(n, dtype=np.uint64)
    x = (i * 747796405 + seed * 2891336453) % 2**32
    x = ((x ^ (x >> 15)) * 2246822519) % 2**32
    x = x ^ (x >> 13)
    return (((x >> 8).astype(np.float64) / 2**24 - 0.5) * scale).astype(np.float32)


def write(path, v):
    a, hd = v["arch"], v.get("head_dim", WIDTH // HEADS)
    w = gguf.GGUFWriter(path, a)
    w.add_block_count(LAYERS)
    w.add_context_length(CONTEXT)
    w.add_embedding_length(WIDTH)
    w.add_feed_forward_length(FF)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV)
    w.add_key_length(hd)
    w.add_value_length(hd)
    w.add_rope_dimension_count(hd)
    w.add_rope_freq_base(10000.0)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(VOCAB)
    w.add_tokenizer_model("no_vocab")
    if "scaling" in v:
        kind, factor = v["scaling"]
        w.add_rope_scaling_type(gguf.RopeScalingType(kind))
        w.add_rope_scaling_factor(factor)
        w.add_rope_scaling_orig_ctx_len(CONTEXT // 4)
    if v.get("experts"):
        w.add_expert_count(EXPERTS)
        w.add_expert_used_count(USED)
        w.add_expert_feed_forward_length(EXPERT_FF)
    seed = 0

    def tensor(name, rows, cols, scale=None):
        nonlocal seed
        seed += 1
        x = noise(rows * cols, seed, scale or 2.0 / cols**0.5)
        w.add_tensor(name, x.reshape(rows, cols))

    def stack(name, rows, cols):
        nonlocal seed
        seed += 1
        w.add_tensor(name, noise(EXPERTS * rows * cols, seed, 2.0 / cols**0.5).reshape(EXPERTS, rows, cols))

    def vector(name, n, base=1.0, scale=0.2):
        nonlocal seed
        seed += 1
        w.add_tensor(name, noise(n, seed, scale) + np.float32(base))

    tensor("token_embd.weight", VOCAB, WIDTH, 2.0)
    for i in range(LAYERS):
        b = f"blk.{i}."
        vector(b + "attn_norm.weight", WIDTH)
        for part, rows, cols in (("q", HEADS * hd, WIDTH), ("k", KV * hd, WIDTH), ("v", KV * hd, WIDTH)):
            tensor(f"{b}attn_{part}.weight", rows, cols)
            if v.get("bias"):
                vector(f"{b}attn_{part}.bias", rows, 0.0, 1.0)
        if v.get("head_norm"):
            vector(b + "attn_q_norm.weight", hd)
            vector(b + "attn_k_norm.weight", hd)
        tensor(b + "attn_output.weight", WIDTH, HEADS * hd)
        vector(b + "ffn_norm.weight", WIDTH)
        if v.get("experts"):
            tensor(b + "ffn_gate_inp.weight", EXPERTS, WIDTH)
            stack(b + "ffn_gate_exps.weight", EXPERT_FF, WIDTH)
            stack(b + "ffn_up_exps.weight", EXPERT_FF, WIDTH)
            stack(b + "ffn_down_exps.weight", WIDTH, EXPERT_FF)
            continue
        tensor(b + "ffn_gate.weight", FF, WIDTH)
        tensor(b + "ffn_up.weight", FF, WIDTH)
        tensor(b + "ffn_down.weight", WIDTH, FF)
    vector("output_norm.weight", WIDTH)
    tensor("output.weight", VOCAB, WIDTH)
    if v.get("freqs"):
        vector("rope_freqs.weight", hd // 2, 4.0, 6.0)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def logits(path, ids):
    mp = L.llama_model_default_params()
    model = L.llama_model_load_from_file(str(path).encode(), mp)
    cp = L.llama_context_default_params()
    cp.n_ctx, cp.n_batch, cp.n_threads, cp.n_threads_batch = CONTEXT, CONTEXT, 1, 1
    cp.type_k = cp.type_v = 0
    cp.flash_attn_type = 0
    ctx = L.llama_init_from_model(model, cp)
    b = L.llama_batch_init(len(ids), 0, 1)
    for k, t in enumerate(ids):
        b.token[k], b.pos[k], b.n_seq_id[k], b.seq_id[k][0], b.logits[k] = t, k, 1, 0, 1
    b.n_tokens = len(ids)
    assert L.llama_decode(ctx, b) == 0
    out = [np.ctypeslib.as_array(L.llama_get_logits_ith(ctx, k), (VOCAB,)).copy() for k in range(len(ids))]
    L.llama_batch_free(b)
    L.llama_free(ctx)
    L.llama_model_free(model)
    return out


def main():
    quiet = L.llama_log_callback(lambda level, text, data: None)
    L.llama_log_set(quiet, ctypes.c_void_p(0))
    L.llama_backend_init()
    ids = [(i * 37 + i * i) % VOCAB for i in range(TOKENS)]
    out = {"format": 1, "peer": "llama.cpp 0c1e57098 (llama-cpp-python 0.3.36)", "tokens": ids, "models": []}
    with tempfile.TemporaryDirectory() as folder:
        for name, v in VARIANTS.items():
            path = pathlib.Path(folder) / "m.gguf"
            write(path, v)
            rows = logits(path, ids)
            kept = {str(k): [float(f"{x:.7g}") for x in rows[k]] for k in (0, 49, 99)}
            out["models"].append({"name": name, "logits": kept})
    pathlib.Path(sys.argv[1]).write_text(json.dumps(out, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")


main()
