"""Logits of transformers for tiny Gemma 3 models whose weights follow from a formula.

    python3 gemma3.py ../gemma3.json

Needs torch, transformers and numpy. `tests/model/gemma3.rs` makes the same weights.
"""

import json
import sys

import torch
from noise import noise
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

VOCAB, WIDTH, DIM = 96, 32, 16

BASE = {
    "model_type": "gemma3_text", "vocab_size": VOCAB, "hidden_size": WIDTH, "intermediate_size": 48,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": DIM, "query_pre_attn_scalar": 16,
    "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh",
    "tie_word_embeddings": True, "attention_bias": False,
}
PLAIN = {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
         "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
LINEAR = {**PLAIN, "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e5}}
LOCAL, FULL = "sliding_attention", "full_attention"

# As folders of transformers 5 have them; the last without what the class takes anyhow.
CONFIGS = {
    "a window within the text": {"num_hidden_layers": 7, "sliding_window": 12, "rope_parameters": PLAIN,
                                 "layer_types": [LOCAL] * 5 + [FULL, LOCAL]},
    "a window beyond the text": {"num_hidden_layers": 3, "sliding_window": 128, "rope_parameters": LINEAR,
                                 "layer_types": [FULL, LOCAL, LOCAL]},
    "a soft cap of logits": {"num_hidden_layers": 5, "sliding_window": 65, "rope_parameters": LINEAR,
                  "query_pre_attn_scalar": 24, "final_logit_softcapping": 3.0,
                  "layer_types": [LOCAL, FULL, LOCAL, FULL, LOCAL]},
}


def weights(model):
    tensors = {n: p for n, p in model.named_parameters() if n != "lm_head.weight"}
    for seed, name in enumerate(sorted(tensors), 1):
        p = tensors[name]
        scale = 0.4 if p.dim() == 1 else 2.0 if "embed" in name else 4.0 / p.shape[1] ** 0.5
        p.data.copy_(torch.from_numpy(noise(p.numel(), seed, 0.0, scale).reshape(p.shape)))


def main():
    tokens = [(i * 37 + i * i) % VOCAB for i in range(100)]
    models = []
    for name, options in CONFIGS.items():
        config = {**BASE, **options}
        model = Gemma3ForCausalLM._from_config(Gemma3TextConfig(**config), attn_implementation="eager").float()
        weights(model)
        with torch.no_grad():
            logits = model.eval()(torch.tensor([tokens])).logits[0]
        rows = {str(at): [round(float(x), 6) for x in logits[at]] for at in (0, 49, 99)}
        models.append({"name": name, "config": config, "logits": rows})
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        json.dump({"format": 1, "tokens": tokens, "models": models}, out, separators=(",", ":"))
        out.write("\n")


main()
