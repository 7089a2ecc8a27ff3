#!/usr/bin/env python3
"""Tiny Hugging Face checkpoints and their logits: python3 hf_checkpoints.py FIXTURES OUT.json

Writes a folder for each checkpoint below FIXTURES, and to OUT.json the logits that transformers computes from it
in F32 with eager attention: once with the `config.json` of the folder, and once for each variant of that, which is
stored whole. Weights are drawn from a seeded generator, wide enough for attention to look somewhere, and belong to
nobody. Needs torch, transformers 5 and numpy.
"""
import json
import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

TOKENS, VOCAB = 100, 128
ROWS = (0, 49, 99)


def flat(architecture, model_type, **more):
    """The dialect of transformers 4: rotation in `rope_theta` and `rope_scaling`."""
    return {
        "architectures": [architecture], "model_type": model_type, "hidden_act": "silu", "vocab_size": VOCAB,
        "max_position_embeddings": 256, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "use_cache": True, **more,
    }


def nested(config):
    """The same in the dialect of transformers 5: everything about rotation in `rope_parameters`."""
    config = {k: v for k, v in config.items() if not k.startswith("rope_")} | {
        "rope_parameters": (config["rope_scaling"] or {"rope_type": "default"}) | {"rope_theta": config["rope_theta"]}
    }
    config["dtype"] = config.pop("torch_dtype")
    return config


def scaled(kind, **more):
    return {"rope_scaling": {"rope_type": kind, **more}}


LLAMA = flat("LlamaForCausalLM", "llama", hidden_size=64, intermediate_size=128, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, attention_bias=False, mlp_bias=False,
             torch_dtype="bfloat16")
LLAMA3 = scaled("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)
YARN = dict(factor=4.0, original_max_position_embeddings=64)
BIASED = flat("LlamaForCausalLM", "llama", hidden_size=32, intermediate_size=64, num_hidden_layers=2,
              num_attention_heads=2, num_key_value_heads=2, attention_bias=True, mlp_bias=True, rope_theta=500.0,
              tie_word_embeddings=True, torch_dtype="float32")
QWEN2 = flat("Qwen2ForCausalLM", "qwen2", hidden_size=64, intermediate_size=96, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=1, rms_norm_eps=1e-06, rope_theta=1000000,
             tie_word_embeddings=True, use_sliding_window=False, sliding_window=32, max_window_layers=1,
             torch_dtype="float16")
QWEN3 = flat("Qwen3ForCausalLM", "qwen3", hidden_size=48, intermediate_size=80, num_hidden_layers=2, head_dim=32,
             num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-06, rope_theta=1000000,
             attention_bias=False, use_sliding_window=False, sliding_window=None, max_window_layers=2,
             torch_dtype="bfloat16")
MISTRAL = {k: v for k, v in LLAMA.items() if k not in ("attention_bias", "mlp_bias")} | {
    "architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": None}

# Folder, files, configuration of the folder, and what else is computed from its weights.
CHECKPOINTS = [
    ("llama", 1, LLAMA, {
        "nested": nested(LLAMA),
        "linear": LLAMA | {"rope_scaling": {"type": "linear", "factor": 4.0}},
        "llama3": LLAMA | LLAMA3,
        "llama3 nested": nested(LLAMA | LLAMA3),
        "yarn": LLAMA | scaled("yarn", **YARN),
        "yarn nested": nested(LLAMA | scaled("yarn", **YARN)),
        "yarn attention_factor": LLAMA | scaled("yarn", attention_factor=1.5, **YARN),
        "yarn betas": LLAMA | scaled("yarn", beta_fast=8.0, beta_slow=0.5, truncate=False, **YARN),
        "yarn mscale": LLAMA | scaled("yarn", mscale=1.0, mscale_all_dim=0.5, **YARN),
        "yarn short": LLAMA | scaled("yarn", factor=2.0),
        "mistral": MISTRAL,
    }),
    ("llama-biased", 3, BIASED, {"nested": nested(BIASED)}),
    ("qwen2", 1, QWEN2, {"nested": nested(QWEN2)}),
    ("qwen3", 2, QWEN3, {
        "nested": nested(QWEN3),
        "yarn": QWEN3 | scaled("yarn", **YARN),
    }),
]


def fill(model, seed, dtype):
    """Weights of order 1/sqrt(inputs), norms near 1, all of them values of `dtype`."""
    random = np.random.default_rng(seed)
    for name, p in model.named_parameters():
        x = random.standard_normal(tuple(p.shape), dtype=np.float32)
        if "norm" in name:
            x = 1 + 0.1 * x
        elif name.endswith("bias"):
            x = 0.5 * x
        elif "embed" not in name:
            x = 1.5 * x / p.shape[-1] ** 0.5
        p.data = torch.from_numpy(x).to(dtype)


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def make(folder, config, seed, files):
    """Writes a checkpoint of random weights in as many files."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    write_json(folder / "config.json", config)
    dtype = getattr(torch, config["torch_dtype"])
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=dtype)
    fill(model, seed, dtype)
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    # The library fills a file until the next tensor does not fit.
    limit = size if files == 1 else int(size / files * 1.15)
    model.save_pretrained(folder, max_shard_size=limit)
    (folder / "generation_config.json").unlink(missing_ok=True)
    write_json(folder / "config.json", config)
    assert len(list(folder.glob("*.safetensors"))) == files, sorted(folder.iterdir())


def logits(folder, config, ids):
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        for file in folder.iterdir():
            (temporary / file.name).write_bytes(file.read_bytes())
        write_json(temporary / "config.json", config)
        model, info = AutoModelForCausalLM.from_pretrained(
            temporary, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        assert not any(info.values()), info
        with torch.no_grad():
            return model.eval()(torch.tensor([ids])).logits[0].numpy()


def main():
    fixtures, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    ids = [(i * 37 + i * i) % VOCAB for i in range(TOKENS)]
    golden = {"format": 1, "peer": f"transformers {transformers.__version__}, torch {torch.__version__}",
              "tokens": ids, "models": []}
    for seed, (name, files, config, variants) in enumerate(CHECKPOINTS):
        folder = fixtures / name
        make(folder, config, seed, files)
        for variant, config in {"": config, **variants}.items():
            rows = logits(folder, config, ids)
            kept = {str(k): [float(f"{x:.7g}") for x in rows[k]] for k in ROWS}
            golden["models"].append({"name": f"{name} {variant}".strip(), "folder": name, "config": config,
                                     "logits": kept})
    out.write_text(json.dumps(golden, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")


main()
