"""Rows of `decoder_table.py`: Gemma 3n and Gemma 4."""

SMALL = {
    "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 3,
    "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
    "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True, "sliding_window": 12,
}
WIDE = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
SLIDING, FULL = "sliding_attention", "full_attention"
DEFAULT = {"rope_type": "default", "rope_theta": 10000.0}


def proportional(share, **more):
    return {SLIDING: DEFAULT, FULL: {"rope_type": "proportional", "rope_theta": 20000.0,
                                     "partial_rotary_factor": share, **more}}


# Streams that mix, and do not grow without bound.
STREAMS = {r"altup.*router\.weight": (0.0, 24.0), "modality_router": (0.0, 24.0),
           "(prediction|correction)_coefs": (0.0, 0.2), "altup_(predict|correct)_coef": (0.0, 0.2),
           "correct_output_scale|altup_correct_scale": (1.0, 0.4)}
FACTORS = {"layer_scalar|layer_output_scale": (1.0, 0.4), r"router\.scale|ffn_gate_inp\.scale": (1.0, 0.4),
           r"per_expert_scale|ffn_down_exps\.scale": (1.0, 0.4)}

GEMMA = {
    "gemma3n": {
        "class": "Gemma3nForCausalLM",
        # The sizes that llama.cpp takes for granted.
        "config": {"model_type": "gemma3n_text", **SMALL, "rope_parameters": {SLIDING: DEFAULT, FULL: {
                       "rope_type": "default", "rope_theta": 20000.0}}, "intermediate_size": 512,
                   "hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 96, "laurel_rank": 64,
                   "altup_num_inputs": 4, "altup_active_idx": 0, "num_kv_shared_layers": 0,
                   "activation_sparsity_pattern": [0.95] * 3, "final_logit_softcapping": 30.0,
                   "layer_types": [SLIDING, SLIDING, FULL]},
        "variants": {
            "a window within the text": {},
            "layers that share": {
                **WIDE, "num_hidden_layers": 23, "num_kv_shared_layers": 3, "sliding_window": 128,
                "intermediate_size": 1024,
                "layer_types": ([SLIDING] * 4 + [FULL]) * 4 + [SLIDING] * 3,
                "activation_sparsity_pattern": [0.95] * 10 + [0.0] * 13},
            "other sizes": {
                **WIDE, "num_hidden_layers": 5, "num_kv_shared_layers": 3, "intermediate_size": [80, 96, 64, 80, 48],
                "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 90, "laurel_rank": 24,
                "altup_num_inputs": 3, "altup_active_idx": 1, "altup_correct_scale": False, "head_dim": 32,
                "activation_sparsity_pattern": [0.0, 0.6, 0.0, 0.3, 0.9], "final_logit_softcapping": 4.0,
                "layer_types": [SLIDING, FULL, SLIDING, FULL, SLIDING], "sliding_window": 65},
        },
        "rules": STREAMS,
        "gguf_rules": STREAMS,
        "no_gguf": ["other sizes"],
        "whole_layers": True,
        # llama.cpp looks up GELU in a table of 16-bit floats, and divides the variance by one less than there are values.
        "tolerance": 3e-2,
    },
    "gemma4": {
        "class": "Gemma4ForCausalLM",
        "config": {"model_type": "gemma4_text", **SMALL, "rope_parameters": proportional(0.5), "global_head_dim": 32,
                   "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": 96, "num_kv_shared_layers": 0,
                   "final_logit_softcapping": 4.0, "layer_types": [SLIDING, SLIDING, FULL]},
        "variants": {
            "a window within the text": {},
            "keys as values": {
                **WIDE, "attention_k_eq_v": True, "num_global_key_value_heads": 1, "num_hidden_layers": 4,
                "hidden_size_per_layer_input": 0, "sliding_window": 128, "layer_types": [SLIDING, FULL] * 2,
                "final_logit_softcapping": 30.0},
            "layers that share": {
                **WIDE, "num_hidden_layers": 5, "num_kv_shared_layers": 2, "use_double_wide_mlp": True,
                "layer_types": [SLIDING, SLIDING, FULL, SLIDING, FULL], "sliding_window": 65, "head_dim": 32,
                "rope_parameters": proportional(0.25)},
            "experts beside": {
                **WIDE, "enable_moe_block": True, "num_experts": 5, "top_k_experts": 2, "moe_intermediate_size": 24,
                "hidden_size_per_layer_input": 0},
            "no cap, frequencies divided": {
                "final_logit_softcapping": None, "num_hidden_layers": 2, "layer_types": [FULL] * 2,
                "rope_parameters": proportional(0.25, factor=4.0)},
        },
        "rules": FACTORS,
        "gguf_rules": FACTORS,
        # llama.cpp has a cap where none is said, and divides no frequencies here.
        "no_gguf": ["no cap, frequencies divided"],
        "tolerance": 5e-3,
    },
}
