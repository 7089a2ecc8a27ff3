"""The tiny decoders of `decoders.py`: one row for each architecture.

A row has the class in transformers, what `config.json` says in all `variants`, and in each; `"unset"` leaves a key out.
`rules` give tensors, by a pattern in their names, another base and scale; `gguf_rules` those of the converted file, whose
norms may have another base. Where llama.cpp rounds within a function, as its table for GELU does, `tolerance` says how far.
"""

VOCAB = 96
# Head counts, head sizes and layer counts that are no powers of two; windows within the text of 100 tokens and beyond it.
SMALL = {
    "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 3,
    "num_key_value_heads": 1, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
}
LAYER_NORM = {k: v for k, v in SMALL.items() if k not in ("rms_norm_eps", "num_key_value_heads")} | {
    "layer_norm_eps": 1e-5}
WIDE = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
# llama.cpp looks up GELU in a table of 16-bit floats.
GELU_TABLE = 5e-3

DECODERS = {
    "gemma2": {
        "class": "Gemma2ForCausalLM",
        "config": {"model_type": "gemma2", **SMALL, "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh",
                   "query_pre_attn_scalar": 16, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 4.0,
                   "rope_theta": 10000.0, "sliding_window": 12, "tie_word_embeddings": True},
        "variants": {
            "a window within the text": {"query_pre_attn_scalar": 24},
            "a window beyond the text": {**WIDE, "sliding_window": 128, "num_hidden_layers": 4},
            "no caps": {**WIDE, "head_dim": 32, "attn_logit_softcapping": None, "final_logit_softcapping": None,
                        "query_pre_attn_scalar": 32, "num_hidden_layers": 5, "sliding_window": 65},
        },
        "rules": {"norm": (0.0, 0.4)},
        "gguf_rules": {},
        "no_gguf": ["no caps", "a window within the text"],
        "tolerance": GELU_TABLE,
    },
    "phi3": {
        "class": "Phi3ForCausalLM",
        "config": {"model_type": "phi3", **SMALL, "hidden_act": "silu", "rope_theta": 10000.0, "rope_scaling": None,
                   "sliding_window": None, "pad_token_id": 0, "attention_bias": False,
                   "original_max_position_embeddings": 256},
        "variants": {
            "plain": {},
            "a window within the text": {**WIDE, "sliding_window": 12},
            "a window beyond the text": {"sliding_window": 128},
            "longrope": {**WIDE, "original_max_position_embeddings": 64, "rope_scaling": {
                "type": "longrope", "long_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 9.5],
                "short_factor": [1.0, 1.0, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5]}},
            "longrope of a part, within the original context": {
                **WIDE, "hidden_size": 96, "num_attention_heads": 3, "num_key_value_heads": 3,
                "original_max_position_embeddings": 128, "max_position_embeddings": 128, "partial_rotary_factor": 0.75,
                "rope_scaling": {"type": "longrope", "factor": 4.0,
                                 "long_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 9.5, 11, 12, 13, 14],
                                 "short_factor": [1.0] * 6 + [1.1, 1.2, 1.3, 1.4, 1.5, 1.6]}},
        },
        # llama.cpp leaves the window out, and has at least 256 tokens of context.
        "no_gguf": ["a window within the text", "longrope of a part, within the original context"],
    },
    "gptneox": {
        "class": "GPTNeoXForCausalLM",
        "config": {"model_type": "gpt_neox", **LAYER_NORM, "hidden_act": "gelu", "rotary_pct": 0.25,
                   "rotary_emb_base": 10000, "hidden_size": 96, "num_attention_heads": 3},
        "variants": {
            "side by side": {},
            "one after the other": {"use_parallel_residual": False, "num_hidden_layers": 2, "rotary_pct": 0.5},
            "all of a head turns": {"rotary_pct": 1.0, "hidden_size": 64, "num_attention_heads": 4,
                                    "rotary_emb_base": 20000, "tie_word_embeddings": True},
        },
        "no_gguf": ["all of a head turns"],
        "tolerance": GELU_TABLE,
    },
}
