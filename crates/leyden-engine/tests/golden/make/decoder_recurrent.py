"""Rows of `decoder_table.py`: layers with a state of each sequence."""

SMALL = {
    "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3, "num_attention_heads": 3,
    "num_key_value_heads": 1, "max_position_embeddings": 256, "tie_word_embeddings": False,
}
WIDE = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}

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
}
