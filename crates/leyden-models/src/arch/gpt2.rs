//! GPT-2 (Radford et al., 2019): learned positions, LayerNorm, biases everywhere, a feed-forward layer without a
//! gate.

use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{ModelConfig, NormKind, Reader};
use crate::error::Error;
use crate::stored::Stored;
use leyden_kernels::ops::Activation;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "gpt2",
    models: "GPT-2, DistilGPT-2, DialoGPT, Cerebras-GPT",
    config,
    conversion: Conversion::Both,
    own_keys: &["attention.layer_norm_epsilon", "layer_norm_epsilon"],
    hf: &[HfClass {
        model_type: "gpt2",
        classes: &["GPT2LMHeadModel"],
        aliases: &[
            ("hidden_size", "hidden_size"),
            ("max_position_embeddings", "max_position_embeddings"),
            ("num_attention_heads", "num_attention_heads"),
            ("num_hidden_layers", "num_hidden_layers"),
        ],
        keys: &[
            ("hidden_act", "activation_function"),
            ("hidden_size", "n_embd"),
            ("intermediate_size", "n_inner"),
            ("layer_norm_eps", "layer_norm_epsilon"),
            ("max_position_embeddings", "n_positions"),
            ("num_attention_heads", "n_head"),
            ("num_hidden_layers", "n_layer"),
        ],
        defaults: &[
            ("hidden_size", 768),
            ("max_position_embeddings", 1024),
            ("num_attention_heads", 12),
            ("num_hidden_layers", 12),
        ],
        tied: true,
        activations: &[
            ("gelu_new", Activation::GeluTanh),
            ("gelu_pytorch_tanh", Activation::GeluTanh),
            ("gelu_fast", Activation::GeluTanh),
            ("gelu", Activation::Gelu),
        ],
        biases: |_| Ok(BIASES.to_vec()),
        prefix: "transformer.",
        layers: "h",
        tensors: TENSORS,
        stored: Stored { transposed: true, ..Stored::AS_GGUF },
        // The causal mask.
        unused: &["attn.bias", "attn.masked_bias"],
        ..DECODER
    }],
};

const BIASES: [&str; 7] =
    ["attn_norm", "ffn_norm", "output_norm", "attn_qkv", "attn_output", "ffn_up", "ffn_down"];

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "wte"),
    ("position_embd", "wpe"),
    ("output_norm", "ln_f"),
    ("attn_norm", "ln_1"),
    ("attn_qkv", "attn.c_attn"),
    ("attn_output", "attn.c_proj"),
    ("ffn_norm", "ln_2"),
    ("ffn_up", "mlp.c_fc"),
    ("ffn_down", "mlp.c_proj"),
];

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let config = r.layer_norm_decoder(NormKind::Layer, None, 4)?;
    let activation = r.activation(Activation::GeluTanh)?;
    let mut config = config.each(|_, layer| {
        layer.gated = false;
        layer.activation = activation;
    });
    config.learned_positions = Some(0);
    Ok(config)
}
