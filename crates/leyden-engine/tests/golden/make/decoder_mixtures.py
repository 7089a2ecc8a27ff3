"""Rows of `decoder_table.py`: mixtures of experts."""

# Widths of experts and their number are no powers of two.
SMALL = {
    "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 3,
    "num_key_value_heads": 1, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    "rope_theta": 10000.0,
}
WIDE = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
YARN = {"rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
        "original_max_position_embeddings": 32, "rope_theta": 150000.0}
LATENT_YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0,
               "mscale_all_dim": 1.0, "original_max_position_embeddings": 64, "rope_theta": 10000.0}
V2 = {"model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], "topk_method": "greedy", "n_group": 1,
      "topk_group": 1, "norm_topk_prob": False, "scoring_func": "softmax", "routed_scaling_factor": 1.0, "n_shared_experts": 2}

MIXTURES = {
    "gpt-oss": {
        "class": "GptOssForCausalLM",
        "config": {"model_type": "gpt_oss", **SMALL, "hidden_act": "silu", "head_dim": 16, "sliding_window": 12,
                   "num_local_experts": 7, "num_experts_per_tok": 2, "attention_bias": True, "rope_theta": "unset",
                   "rope_parameters": {"rope_type": "default", "rope_theta": 150000.0}},
        "variants": {
            "a window within the text": {},
            "a window beyond the text": {**WIDE, "sliding_window": 128, "num_experts_per_tok": 3, "head_dim": 32},
            "yarn": {**WIDE, "num_hidden_layers": 5, "rope_parameters": YARN, "sliding_window": 65,
                     "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention",
                                     "sliding_attention"]},
        },
        # Beyond the bounds of the function in places.
        "rules": {"gate_up_proj_bias": (0.0, 24.0), "sinks": (0.0, 4.0)},
        "gguf_rules": {"ffn_(gate|up)_exps.bias": (0.0, 24.0), "sinks": (0.0, 4.0)},
        # llama.cpp has one pattern of windows, and rounds the ramp of YaRN.
        "no_gguf": ["yarn"],
    },
    "mixtral": {
        "class": "MixtralForCausalLM",
        "config": {"model_type": "mixtral", **SMALL, "hidden_act": "silu", "sliding_window": None,
                   "num_local_experts": 5, "num_experts_per_tok": 2},
        "variants": {
            "plain": {},
            "one of three": {**WIDE, "num_local_experts": 3, "num_experts_per_tok": 1},
            "head size": {**WIDE, "head_dim": 32, "num_local_experts": 8, "num_experts_per_tok": 3, "rope_theta": 1e6},
        },
        "no_gguf": ["head size"],
    },
    "granitemoe": {
        "class": "GraniteMoeForCausalLM",
        "config": {"model_type": "granitemoe", **SMALL, "hidden_act": "silu", "intermediate_size": 24,
                   "num_local_experts": 5, "num_experts_per_tok": 2, "embedding_multiplier": 6.0,
                   "attention_multiplier": 0.1, "residual_multiplier": 0.3, "logits_scaling": 4.0},
        "variants": {
            "experts alone": {},
            "an expert for all": {**WIDE, "architectures": ["GraniteMoeSharedForCausalLM"],
                                  "model_type": "granitemoeshared", "shared_intermediate_size": 40,
                                  "tie_word_embeddings": True},
            "biases": {"attention_bias": True, "num_hidden_layers": 2, "num_local_experts": 3,
                       "num_experts_per_tok": 1, "residual_multiplier": 1.0},
        },
    },
    "qwen2moe": {
        "class": "Qwen2MoeForCausalLM",
        "config": {"model_type": "qwen2_moe", **SMALL, "hidden_act": "silu", "moe_intermediate_size": 24,
                   "shared_expert_intermediate_size": 40, "num_experts": 7, "num_experts_per_tok": 3,
                   "norm_topk_prob": False, "decoder_sparse_step": 1, "mlp_only_layers": [],
                   "use_sliding_window": False, "sliding_window": 32, "max_window_layers": 2},
        "variants": {
            "plain": {},
            "one of three": {**WIDE, "num_experts": 3, "num_experts_per_tok": 1},
            "normalised": {**WIDE, "norm_topk_prob": True, "qkv_bias": False, "num_hidden_layers": 5},
        },
        "no_gguf": ["normalised"],
    },
    "qwen3moe": {
        "class": "Qwen3MoeForCausalLM",
        "config": {"model_type": "qwen3_moe", **SMALL, "hidden_act": "silu", "head_dim": 32,
                   "moe_intermediate_size": 24, "num_experts": 7, "num_experts_per_tok": 3, "norm_topk_prob": True,
                   "decoder_sparse_step": 1, "mlp_only_layers": [], "use_sliding_window": False},
        "variants": {
            "plain": {},
            "one of three": {**WIDE, "num_experts": 3, "num_experts_per_tok": 1, "head_dim": 16},
            "shares of all": {**WIDE, "norm_topk_prob": False, "attention_bias": True, "num_hidden_layers": 5},
        },
        "no_gguf": ["shares of all"],
    },
    "glm4moe": {
        "class": "Glm4MoeForCausalLM",
        "config": {"model_type": "glm4_moe", **SMALL, "hidden_act": "silu", "head_dim": 32, "partial_rotary_factor": 0.5,
                   "moe_intermediate_size": 24, "n_routed_experts": 7, "num_experts_per_tok": 3, "n_shared_experts": 1,
                   "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "norm_topk_prob": True,
                   "routed_scaling_factor": 1.5, "attention_bias": True, "use_qk_norm": False,
                   "num_nextn_predict_layers": 0},
        "variants": {
            "one dense layer": {},
            "heads are normalised": {**WIDE, "use_qk_norm": True, "first_k_dense_replace": 2, "num_hidden_layers": 4,
                                     "n_shared_experts": 2},
            "groups": {**WIDE, "n_routed_experts": 12, "n_group": 4, "topk_group": 2, "attention_bias": False,
                       "norm_topk_prob": False, "first_k_dense_replace": 0},
        },
    },
    "deepseek2": {
        "class": "DeepseekV3ForCausalLM",
        "config": {"model_type": "deepseek_v3", **SMALL, "num_key_value_heads": 3, "hidden_act": "silu",
                   "rms_norm_eps": 1e-6, "q_lora_rank": 40, "kv_lora_rank": 24, "qk_nope_head_dim": 32,
                   "qk_rope_head_dim": 16, "v_head_dim": 16, "moe_intermediate_size": 24, "n_routed_experts": 12,
                   "num_experts_per_tok": 3, "n_shared_experts": 1, "n_group": 4, "topk_group": 2,
                   "first_k_dense_replace": 1, "norm_topk_prob": True, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
                   "num_nextn_predict_layers": 0},
        "variants": {
            "V3 with groups": {},
            "V3 with yarn": {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "v_head_dim": 48,
                             "qk_nope_head_dim": 16, "rope_theta": "unset", "rope_parameters": LATENT_YARN},
            "V2": {**V2, "num_hidden_layers": 4, "q_lora_rank": 24, "n_group": 3, "topk_group": 1,
                   "topk_method": "group_limited_greedy", "routed_scaling_factor": 16.0},
            # llama.cpp tells it by the number of its layers.
            "V2 Lite": {**V2, "num_hidden_layers": 26, "q_lora_rank": None, "rope_theta": "unset",
                        "rope_parameters": {**LATENT_YARN, "mscale": 0.707, "mscale_all_dim": 0.707}},
        },
        # llama.cpp ranks groups by their two best experts, as V3 does.
        "no_gguf": ["V2"],
    },
}
