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

# States that last, at some heads for the whole text.
DECAYS = {"A_log": (-1.0, 3.0), "dt_bias": (-2.0, 2.0), r"\.D$": (1.0, 0.4)}
GGUF_DECAYS = {"ssm_a$": (-1.0, 1.8), "ssm_dt": (-2.0, 2.0), "ssm_d$": (1.0, 0.4), "ssm_norm": (1.0, 0.4)}

RECURRENT = {
    "mamba2": {
        "class": "Mamba2ForCausalLM",
        "config": {"model_type": "mamba2", "hidden_size": 48, "num_hidden_layers": 3, "num_heads": 6, "head_dim": 16,
                   "state_size": 16, "n_groups": 2, "expand": 2, "conv_kernel": 4, "layer_norm_epsilon": 1e-5,
                   "hidden_act": "silu", "use_bias": False, "use_conv_bias": True, "chunk_size": 32,
                   "tie_word_embeddings": False},
        "variants": {
            "groups of heads": {},
            "one group": {"hidden_size": 64, "num_hidden_layers": 4, "num_heads": 4, "head_dim": 32, "state_size": 48,
                          "n_groups": 1, "conv_kernel": 3, "tie_word_embeddings": True},
            "biases and bounds": {"use_bias": True, "use_conv_bias": False, "num_hidden_layers": 2, "num_heads": 3,
                                  "head_dim": 32, "n_groups": 3, "time_step_limit": [0.1, 0.3]},
        },
        "rules": DECAYS,
        "gguf_rules": GGUF_DECAYS,
        # llama.cpp wants a bias of the convolution and none of the matrices.
        "no_gguf": ["biases and bounds"],
    },
    "granitehybrid": {
        "class": "GraniteMoeHybridForCausalLM",
        "config": {"model_type": "granitemoehybrid", **SMALL, "rms_norm_eps": 1e-5, "hidden_act": "silu",
                   "intermediate_size": 24, "shared_intermediate_size": 40, "num_local_experts": 5,
                   "num_experts_per_tok": 2, "num_hidden_layers": 5, "mamba_n_heads": 6, "mamba_d_head": 16,
                   "mamba_d_state": 16, "mamba_n_groups": 2, "mamba_expand": 2, "mamba_d_conv": 4,
                   "mamba_chunk_size": 32, "position_embedding_type": "nope", "embedding_multiplier": 6.0,
                   "attention_multiplier": 0.1, "residual_multiplier": 0.3, "logits_scaling": 4.0,
                   "layer_types": ["mamba", "mamba", "attention", "mamba", "mamba"]},
        "variants": {
            "a mixture": {},
            "dense": {**WIDE, "num_hidden_layers": 3, "num_local_experts": 0, "num_experts_per_tok": 0,
                      "intermediate_size": 40, "mamba_n_heads": 4, "mamba_d_head": "auto", "mamba_d_state": 32,
                      "mamba_n_groups": 1, "mamba_d_conv": 3, "tie_word_embeddings": True,
                      "layer_types": ["mamba", "mamba", "attention"]},
            "attention that turns": {**WIDE, "num_hidden_layers": 2, "position_embedding_type": "rope",
                                     "rope_theta": 10000.0, "mamba_n_heads": 8, "layer_types": ["attention"] * 2},
            "biases of attention": {"attention_bias": True, "num_hidden_layers": 3,
                                    "layer_types": ["mamba", "attention", "mamba"]},
            "both, and biases": {"position_embedding_type": "rope", "rope_theta": 20000.0, "num_hidden_layers": 3,
                                 "attention_bias": True, "mamba_proj_bias": True, "mamba_conv_bias": False,
                                 "time_step_limit": [0.1, 0.3], "layer_types": ["attention", "mamba", "mamba"]},
        },
        "rules": DECAYS,
        "gguf_rules": GGUF_DECAYS,
        # llama.cpp turns nothing beside states, and has no biases of theirs.
        "no_gguf": ["both, and biases"],
    },
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
    "qwen3next": {
        "class": "Qwen3NextForCausalLM",
        "config": {"model_type": "qwen3_next", **QWEN35, "moe_intermediate_size": 24, "num_experts": 7,
                   "num_experts_per_tok": 3, "shared_expert_intermediate_size": 40, "norm_topk_prob": True,
                   "decoder_sparse_step": 1, "mlp_only_layers": [],
                   "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
        "variants": QWEN35_VARIANTS | {
            "shares of all": {"norm_topk_prob": False, "num_hidden_layers": 4, "layer_types": "unset",
                              "full_attention_interval": 2, "linear_num_value_heads": 2}},
        "rules": {"linear_attn.norm": (1.0, 0.4), "norm": (0.0, 0.4)},
        "gguf_rules": {"ssm_a$": (-1.0, 0.8)},
        "no_gguf": ["values of another size", "shares of all"],
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
