"""The tiny decoders of `decoders.py`: one row for each architecture.

A row has the class in transformers, what `config.json` says in all `variants`, and in each; `"unset"` leaves a key out.
`rules` give tensors, by a pattern in their names, another base and scale; `gguf_rules` those of the converted file, whose
norms may have another base. Where llama.cpp rounds within a function, as its table for GELU does, `tolerance` says how far.
"""

from decoder_gemma import GEMMA
from decoder_mixtures import MIXTURES
from decoder_recurrent import RECURRENT

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
    "granite": {
        "class": "GraniteForCausalLM",
        "config": {"model_type": "granite", **SMALL, "hidden_act": "silu", "rope_theta": 10000.0,
                   "embedding_multiplier": 6.0, "attention_multiplier": 0.1, "residual_multiplier": 0.3,
                   "logits_scaling": 4.0},
        "variants": {
            "all factors": {},
            "biases": {**WIDE, "attention_bias": True, "mlp_bias": True, "residual_multiplier": 1.0},
            "a tied head": {"num_hidden_layers": 5, "tie_word_embeddings": True, "embedding_multiplier": "unset",
                            "rope_theta": 500000.0},
        },
    },
    "smollm3": {
        "class": "SmolLM3ForCausalLM",
        "config": {"model_type": "smollm3", **SMALL, "hidden_act": "silu", "rope_theta": 10000.0, "pad_token_id": 0,
                   "num_hidden_layers": 5},
        "variants": {
            "every fourth layer": {},
            "a list of layers": {**WIDE, "num_hidden_layers": 4, "no_rope_layers": [1, 0, 0, 1]},
            "every second layer": {"no_rope_layer_interval": 2, "tie_word_embeddings": "unset"},
        },
        # llama.cpp knows every fourth alone.
        "no_gguf": ["a list of layers", "every second layer"],
    },
    "olmo2": {
        "class": "Olmo2ForCausalLM",
        "config": {"model_type": "olmo2", **SMALL, "hidden_act": "silu", "rope_theta": 10000.0, "pad_token_id": 0},
        "variants": {
            "plain": {},
            "wide": WIDE,
            "biases": {"attention_bias": True, "num_attention_heads": 3, "num_key_value_heads": 3},
        },
        "no_gguf": ["biases"],
    },
    # With a flat base transformers gives layers with a window the default one, whatever it is.
    "olmo3": {
        "class": "Olmo3ForCausalLM",
        "config": {"model_type": "olmo3", **SMALL, "hidden_act": "silu", "pad_token_id": 0, "num_hidden_layers": 5,
                   "rope_theta": 500000.0, "sliding_window": 12},
        "variants": {
            "a window within the text": {},
            "a window beyond the text": {
                **WIDE, "num_hidden_layers": 4, "sliding_window": 128, "rope_theta": "unset",
                "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0},
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
            "YaRN": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
                     "num_hidden_layers": 4, "layer_types": ["full_attention", "sliding_attention"] * 2},
        },
    },
    "command-r": {
        "class": "CohereForCausalLM",
        "config": {"model_type": "cohere", **LAYER_NORM, "num_key_value_heads": 1, "hidden_act": "silu",
                   "rope_theta": 10000.0, "logit_scale": 0.25, "use_qk_norm": False, "pad_token_id": 0},
        "variants": {
            "plain": {"tie_word_embeddings": True},
            "wide": {**WIDE, "logit_scale": "unset", "tie_word_embeddings": "unset"},
            "biases": {"attention_bias": True, "num_key_value_heads": 3},
        },
        "no_gguf": ["biases", "wide"],
    },
    "cohere2": {
        "class": "Cohere2ForCausalLM",
        "config": {"model_type": "cohere2", **LAYER_NORM, "num_key_value_heads": 1, "hidden_act": "silu",
                   "rope_theta": 10000.0, "logit_scale": 0.25, "rotary_pct": 1.0, "num_hidden_layers": 5,
                   "sliding_window": 12, "pad_token_id": 0, "tie_word_embeddings": True},
        "variants": {
            "a window within the text": {},
            "a window beyond the text": {**WIDE, "num_hidden_layers": 4, "sliding_window": 128},
            "every second layer": {"sliding_window_pattern": 2, "num_hidden_layers": 3, "sliding_window": 65},
        },
        "no_gguf": ["every second layer"],
    },
    "glm4": {
        "class": "Glm4ForCausalLM",
        "config": {"model_type": "glm4", **SMALL, "hidden_act": "silu", "rope_theta": 10000.0, "head_dim": 32,
                   "partial_rotary_factor": 0.5, "attention_bias": True, "pad_token_id": 0},
        "variants": {
            "plain": {},
            "no biases": {**WIDE, "head_dim": 16, "attention_bias": False, "partial_rotary_factor": "unset"},
            "all of a head turns": {"partial_rotary_factor": 1.0, "num_hidden_layers": 2, "tie_word_embeddings": True},
        },
    },
    "starcoder2": {
        "class": "Starcoder2ForCausalLM",
        "config": {"model_type": "starcoder2", **LAYER_NORM, "layer_norm_eps": "unset", "norm_epsilon": 1e-5,
                   "num_key_value_heads": 1,
                   "hidden_act": "gelu_pytorch_tanh", "rope_theta": 10000.0, "tie_word_embeddings": True,
                   "sliding_window": None},
        "variants": {
            "plain": {},
            "a window within the text": {**WIDE, "sliding_window": 12},
            "a window beyond the text, no biases": {"sliding_window": 128, "use_bias": False,
                                                    "tie_word_embeddings": False},
        },
        # llama.cpp has no windows here.
        "no_gguf": ["a window within the text", "a window beyond the text, no biases"],
        "tolerance": GELU_TABLE,
    },
    "stablelm": {
        "class": "StableLmForCausalLM",
        "config": {"model_type": "stablelm", **LAYER_NORM, "num_key_value_heads": 3, "hidden_act": "silu",
                   "rope_theta": 10000.0, "hidden_size": 96, "partial_rotary_factor": 0.25},
        "variants": {
            "plain": {},
            "biases": {**WIDE, "use_qkv_bias": True, "partial_rotary_factor": 0.5},
            "side by side": {"use_parallel_residual": True, "partial_rotary_factor": "unset", "num_hidden_layers": 2},
        },
        "no_gguf": ["side by side"],
    },
    "falcon": {
        "class": "FalconForCausalLM",
        "config": {"model_type": "falcon", "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 3,
                   "layer_norm_epsilon": 1e-5, "bias": False, "alibi": False, "rope_theta": 10000.0},
        "variants": {
            "one head of keys": {"multi_query": True, "parallel_attn": True, "num_kv_heads": 1},
            "groups of heads, a norm each": {"hidden_size": 96, "num_attention_heads": 6, "num_kv_heads": 2,
                                             "new_decoder_architecture": True},
            "groups of heads, one norm": {"hidden_size": 64, "num_attention_heads": 4, "num_kv_heads": 2,
                                          "new_decoder_architecture": True, "num_ln_in_parallel_attn": 1},
            "one after the other": {"parallel_attn": False, "multi_query": False, "bias": True, "ffn_hidden_size": 80},
        },
        "no_gguf": ["one after the other"],
        "tolerance": GELU_TABLE,
    },
    "gpt2": {
        "class": "GPT2LMHeadModel",
        "config": {"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 3, "n_positions": 256, "n_ctx": 256,
                   "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"},
        "variants": {
            "plain": {},
            "wide": {"n_embd": 64, "n_head": 4, "n_layer": 2, "layer_norm_epsilon": 1e-6},
            "a feed-forward layer of another width": {"n_inner": 80, "n_layer": 5, "tie_word_embeddings": False},
        },
        "no_gguf": ["a feed-forward layer of another width"],
        "tolerance": GELU_TABLE,
    },
    "mistral3": {
        "class": "Ministral3ForCausalLM",
        "config": {"model_type": "ministral3", **SMALL, "hidden_act": "silu", "head_dim": 16, "pad_token_id": 0,
                   "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0,
                                       "original_max_position_embeddings": 32, "beta_fast": 32.0, "beta_slow": 1.0,
                                       "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.3}},
        "variants": {
            "queries that grow": {},
            "wide": {**WIDE, "rope_parameters": {
                "rope_type": "yarn", "rope_theta": 20000.0, "factor": 4.0, "original_max_position_embeddings": 64,
                "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                "llama_4_scaling_beta": 0.1}},
            "a window within the text": {"sliding_window": 12, "num_hidden_layers": 2},
        },
        "no_gguf": ["a window within the text"],
    },
    "mistral": {
        "class": "MistralForCausalLM",
        "config": {"model_type": "mistral", **SMALL, "hidden_act": "silu", "rope_theta": 10000.0,
                   "sliding_window": None, "head_dim": 16},
        "variants": {
            "plain": {"head_dim": 32},
            "a window within the text": {**WIDE, "sliding_window": 12},
            "a window beyond the text": {"sliding_window": 128},
        },
        # llama.cpp has no windows here.
        "no_gguf": ["a window within the text", "a window beyond the text"],
    },
    "ministral": {
        "class": "MinistralForCausalLM",
        "config": {"model_type": "ministral", **SMALL, "hidden_act": "silu", "rope_theta": 10000.0, "head_dim": 16,
                   "sliding_window": 12, "num_hidden_layers": 4,
                   "layer_types": ["full_attention"] + ["sliding_attention"] * 3},
        "variants": {
            "a window within the text": {},
            "a window beyond the text": {**WIDE, "sliding_window": 128,
                                         "layer_types": ["full_attention", "sliding_attention"]},
            "no windows": {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3},
        },
        # llama.cpp does not know the class.
        "no_gguf": ["a window within the text", "a window beyond the text", "no windows"],
    },
    "gemma": {
        "class": "GemmaForCausalLM",
        "config": {"model_type": "gemma", **SMALL, "head_dim": 16, "hidden_act": "gelu_pytorch_tanh",
                   "rope_theta": 10000.0, "tie_word_embeddings": True},
        "variants": {
            "plain": {},
            "wide": {**WIDE, "head_dim": 32, "hidden_act": "gelu", "tie_word_embeddings": "unset"},
            "deep": {"num_hidden_layers": 5, "num_key_value_heads": 3, "rope_theta": 50000.0},
        },
        "rules": {"norm": (0.0, 0.4)},
        "gguf_rules": {},
        "tolerance": GELU_TABLE,
    },
    "phi2": {
        "class": "PhiForCausalLM",
        "config": {"model_type": "phi", **LAYER_NORM, "hidden_act": "gelu_new", "rope_theta": 10000.0,
                   "hidden_size": 96, "intermediate_size": 384, "partial_rotary_factor": 0.5,
                   "qk_layernorm": False},
        "variants": {
            "plain": {},
            "groups of heads": {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
                                "num_hidden_layers": 2, "partial_rotary_factor": 1.0},
            "deep": {"num_hidden_layers": 5, "partial_rotary_factor": "unset"},
        },
        "no_gguf": ["groups of heads", "deep"],
        "tolerance": GELU_TABLE,
    },
}

DECODERS |= GEMMA | MIXTURES | RECURRENT
