"""Rows of `decoder_table.py`: layers with a state of each sequence."""

SMALL = {
    "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 3,
    "num_key_value_heads": 1, "max_position_embeddings": 256, "tie_word_embeddings": False,
}
WIDE = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}

QWEN35 = {
    **SMALL, "hidden_act": "silu", "rms_norm_eps": 1e-6, "head_dim": 32, "attention_bias": False,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5,
                        "mrope_section": [3, 3, 2]},
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}
QWEN35_VARIANTS = {
    "a delta net last": {},
    "attention last": {**WIDE, "num_hidden_layers": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 6,
                       "layer_types": ["linear_attention"] * 3 + ["full_attention"]},
    "values of another size": {**WIDE, "linear_value_head_dim": 32, "linear_conv_kernel_dim": 2,
                               "linear_num_key_heads": 3, "linear_num_value_heads": 3,
                               "layer_types": ["full_attention"] + ["linear_attention"] * 2},
}

RECURRENT = {
    "lfm2": {
        "class": "Lfm2ForCausalLM",
        "config": {"model_type": "lfm2", **SMALL, "norm_eps": 1e-5, "conv_L_cache": 3, "conv_bias": False,
                   "block_auto_adjust_ff_dim": False, "block_ffn_dim_multiplier": 1.0, "block_multiple_of": 16,
                   "tie_word_embeddings": True, "tie_embedding": True, "rope_theta": 10000.0,
                   "layer_types": ["conv", "full_attention", "conv"]},
        "variants": {
            "a convolution last": {},
            "attention last": {**WIDE, "conv_L_cache": 4, "num_hidden_layers": 4, "intermediate_size": 96,
                               "block_auto_adjust_ff_dim": True, "block_ffn_dim_multiplier": 1.3,
                               "layer_types": ["conv", "conv", "full_attention", "full_attention"]},
            "convolutions alone": {**WIDE, "conv_L_cache": 2, "num_hidden_layers": 2, "layer_types": ["conv", "conv"]},
        },
        # llama.cpp asks for a layer with attention.
        "no_gguf": ["convolutions alone"],
    },
    "qwen35": {
        "class": "Qwen3_5ForCausalLM",
        "config": {"model_type": "qwen3_5_text", **QWEN35},
        "variants": QWEN35_VARIANTS,
        "rules": {"linear_attn.norm": (1.0, 0.4), "norm": (0.0, 0.4)},
        "gguf_rules": {"ssm_a$": (-1.0, 0.8)},
        # llama.cpp has keys and values of one size.
        "no_gguf": ["values of another size"],
    },
    "qwen35moe": {
        "class": "Qwen3_5MoeForCausalLM",
        "config": {"model_type": "qwen3_5_moe_text", **QWEN35, "moe_intermediate_size": 24, "num_experts": 7,
                   "num_experts_per_tok": 3, "shared_expert_intermediate_size": 40},
        "variants": QWEN35_VARIANTS,
        "rules": {"linear_attn.norm": (1.0, 0.4), "norm": (0.0, 0.4)},
        "gguf_rules": {"ssm_a$": (-1.0, 0.8)},
        "no_gguf": ["values of another size"],
    },
}
