#!/usr/bin/env python3
"""Writes quantised.safetensors: a tiny Llama quantised by each method that folders have, and what it computes.

usage: quantised.py OUT.safetensors
Needs numpy, torch, transformers, safetensors and compressed-tensors from PyPI. Folders of compressed-tensors and of FP8
are loaded and decoded by transformers itself. The loaders of GPTQ and AWQ do not run on processors, so a twin in F32 is
computed with, whose values follow here from the formula of each, element by element.

Tensors are called CASE.NAME, and those of all folders shared.NAME; the metadata has `config`, `cases` (the
`quantization_config` of each), `tokens`, and `logits` after the last token.
"""
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
from compressed_tensors.compressors import pack_to_int32
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, CompressedTensorsConfig, FineGrainedFP8Config, LlamaConfig

WIDTH, FFN, VOCABULARY, HEAD, HEADS, KV = 64, 32, 48, 16, 2, 1
CONFIG = dict(hidden_size=WIDTH, intermediate_size=FFN, num_hidden_layers=1, num_attention_heads=HEADS,
              num_key_value_heads=KV, head_dim=HEAD, vocab_size=VOCABULARY, max_position_embeddings=64,
              rms_norm_eps=1e-5, tie_word_embeddings=True, hidden_act="silu")
SHAPES = {"self_attn.q_proj": (HEADS * HEAD, WIDTH), "self_attn.k_proj": (KV * HEAD, WIDTH),
          "self_attn.v_proj": (KV * HEAD, WIDTH), "self_attn.o_proj": (WIDTH, HEADS * HEAD),
          "mlp.gate_proj": (FFN, WIDTH), "mlp.up_proj": (FFN, WIDTH), "mlp.down_proj": (WIDTH, FFN)}
rng = np.random.default_rng(44)
TOKENS = [int(t) for t in rng.integers(0, VOCABULARY, 24)]


def put(word, bits, at, code):
    return word | (int(code) & ((1 << bits) - 1)) << at


def words(values):
    return torch.from_numpy(np.array(values, np.uint32).view(np.int32))


def gptq(bits, group, act_order, symmetric, first_version):
    """`qweight[i / each][row]`, `qzeros[group][row / each]`, `scales[group][row]`, `g_idx[i]`."""
    each = 32 // bits

    def make(rows, k):
        groups = k // group
        codes = rng.integers(0, 1 << bits, (rows, k))
        zeros = np.full((rows, groups), 1 << bits - 1) if symmetric else rng.integers(0, 1 << bits, (rows, groups))
        scales = rng.uniform(0.005, 0.03, (rows, groups)).astype(np.float16)
        place = rng.permutation(k) // group if act_order else np.arange(k) // group
        values = np.zeros((rows, k), np.float32)
        qweight = np.zeros((k // each, rows), np.uint32)
        for r in range(rows):
            for i in range(k):
                g = place[i]
                values[r, i] = np.float32(scales[r, g]) * np.float32(int(codes[r, i]) - int(zeros[r, g]))
                qweight[i // each, r] = put(int(qweight[i // each, r]), bits, i % each * bits, codes[r, i])
        if act_order:
            # As these programs compute, in half precision; what lies in order keeps integers and scales.
            values = values.astype(np.float16).astype(np.float32)
        qzeros = np.zeros((groups, rows // each), np.uint32)
        for r in range(rows):
            for g in range(groups):
                qzeros[g, r // each] = put(int(qzeros[g, r // each]), bits, r % each * bits, zeros[r, g])
        if first_version:
            # One less in every field of the word, as GPTQModel makes its second version the first.
            qzeros -= np.uint32(sum(1 << bits * i for i in range(each)))
        return values, {"qweight": words(qweight), "qzeros": words(qzeros),
                        "scales": torch.from_numpy(scales.T.copy()),
                        "g_idx": torch.from_numpy(place.astype(np.int32))}

    config = {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": act_order, "sym": symmetric,
              "checkpoint_format": "gptq" if first_version else "gptq_v2"}
    return config, make


def awq(group):
    """`qweight[i][row / 8]`, `qzeros[group][row / 8]`, each word in AWQ's order."""
    order = [0, 2, 4, 6, 1, 3, 5, 7]

    def make(rows, k):
        groups = k // group
        codes, zeros = rng.integers(0, 16, (rows, k)), rng.integers(0, 16, (rows, groups))
        scales = rng.uniform(0.005, 0.03, (rows, groups)).astype(np.float16)
        values = np.zeros((rows, k), np.float32)
        qweight, qzeros = np.zeros((k, rows // 8), np.uint32), np.zeros((groups, rows // 8), np.uint32)
        for r in range(rows):
            at = 4 * order.index(r % 8)
            for i in range(k):
                values[r, i] = np.float32(scales[r, i // group]) * np.float32(int(codes[r, i]) - int(zeros[r, i // group]))
                qweight[i, r // 8] = put(int(qweight[i, r // 8]), 4, at, codes[r, i])
            for g in range(groups):
                qzeros[g, r // 8] = put(int(qzeros[g, r // 8]), 4, at, zeros[r, g])
        return values, {"qweight": words(qweight), "qzeros": words(qzeros), "scales": torch.from_numpy(scales.T.copy())}

    return {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}, make


def compressed(group):
    """Symmetric: transformers 5.24 does not load packed zero points, which crates/leyden-tensor's goldens have."""

    def make(rows, k):
        codes = torch.from_numpy(rng.integers(-8, 8, (rows, k))).to(torch.int8)
        # The library decodes in the type of the scales, so that BF16 would round values.
        scale = torch.from_numpy(rng.uniform(0.005, 0.03, (rows, k // group))).half().float()
        return None, {"weight_packed": pack_to_int32(codes, 4), "weight_scale": scale,
                      "weight_shape": torch.tensor([rows, k])}

    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": group}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "quantization_status": "compressed",
            "ignore": ["lm_head"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}, make


def fp8(block):
    def make(rows, k):
        codes = torch.from_numpy(rng.normal(0, 40, (rows, k))).float().to(torch.float8_e4m3fn)
        scale = rng.uniform(0.0002, 0.0008, (-(-rows // block), -(-k // block))).astype(np.float32)
        return None, {"weight": codes, "weight_scale_inv": torch.from_numpy(scale)}

    return {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [block, block]}, make


CASES = {
    "gptq": gptq(4, 32, False, True, True),
    "gptq_asymmetric": gptq(4, 32, False, False, True),
    "gptq_act_order": gptq(4, 32, True, False, False),
    "awq": awq(32),
    "compressed": compressed(32),
    "fp8": fp8(32),
}


def floats(*shape):
    return torch.from_numpy(rng.normal(0, 1, shape)).to(torch.bfloat16)


LAYER = "model.layers.0."
shared = {"model.embed_tokens.weight": floats(VOCABULARY, WIDTH), "model.norm.weight": 1 + floats(WIDTH) / 8,
          LAYER + "input_layernorm.weight": 1 + floats(WIDTH) / 8,
          LAYER + "post_attention_layernorm.weight": 1 + floats(WIDTH) / 8}


def main(out):
    tensors = {f"shared.{name}": t for name, t in shared.items()}
    config = LlamaConfig(**CONFIG).to_dict()
    config["architectures"] = ["LlamaForCausalLM"]
    logits = {}
    for case, (quantised, make) in CASES.items():
        values, parts = {}, {}
        for module, shape in SHAPES.items():
            found, made = make(*shape)
            parts |= {f"{LAYER}{module}.{name}": t for name, t in made.items()}
            if found is not None:
                values[f"{LAYER}{module}.weight"] = torch.from_numpy(found)
        tensors |= {f"{case}.{name}": t.contiguous() for name, t in parts.items()}
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            plain = not values
            save_file({n: t.contiguous() for n, t in (shared | (parts if plain else values)).items()},
                      folder / "model.safetensors", metadata={"format": "pt"})
            this = config | ({"quantization_config": quantised} if plain else {})
            (folder / "config.json").write_text(json.dumps(this))
            extra = {}
            if quantised["quant_method"] == "compressed-tensors":
                extra["quantization_config"] = CompressedTensorsConfig(dequantize=True)
            if quantised["quant_method"] == "fp8":
                extra["quantization_config"] = FineGrainedFP8Config(weight_block_size=quantised["weight_block_size"],
                                                                    dequantize=True)
            # Products of 8-bit floats with their scales are rounded to half precision.
            dtype = torch.float16 if quantised["quant_method"] == "fp8" else torch.float32
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager", **extra)
            assert model.model.layers[0].self_attn.q_proj.weight.dtype == dtype, case
            model = model.float().eval()
            with torch.no_grad():
                row = model(torch.tensor([TOKENS])).logits[0, -1].double().numpy()
        logits[case] = [float(f"{x:.7g}") for x in row]
        print(case, row[:4])
    config = {k: v for k, v in config.items() if k in CONFIG or k in ("architectures", "model_type", "rope_theta",
                                                                     "rope_parameters")}
    text = {"config": config, "cases": {c: q for c, (q, _) in CASES.items()}, "tokens": TOKENS, "logits": logits}
    save_file(tensors, out, metadata={k: json.dumps(v) for k, v in text.items()})


main(sys.argv[1])
