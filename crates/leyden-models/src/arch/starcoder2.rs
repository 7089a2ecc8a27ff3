//! StarCoder2 (BigCode, 2024): LayerNorm, biases everywhere, a feed-forward layer without a gate, and in folders a
//! sliding window.

use super::{ATTENTION, Architecture, Conversion, DECODER, HfClass};
use crate::config::{Field, ModelConfig, NormKind, Reader, field};
use crate::error::Error;
use leyden_kernels::attention::Mask;
use leyden_kernels::ops::{Activation, RopePairs};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "starcoder2",
    models: "StarCoder2",
    config,
    conversion: Conversion::Both,
    own_keys: &["attention.layer_norm_epsilon", "attention.sliding_window"],
    hf: &[HfClass {
        model_type: "starcoder2",
        classes: &["Starcoder2ForCausalLM"],
        keys: &[("layer_norm_eps", "norm_epsilon")],
        defaults: &[("num_key_value_heads", 2)],
        tied: true,
        activations: &[("gelu_pytorch_tanh", Activation::GeluTanh), ("gelu", Activation::Gelu)],
        biases: |config| {
            let mut biases = vec!["attn_norm", "ffn_norm", "output_norm"];
            if config.json().opt_bool("use_bias")?.unwrap_or(true) {
                biases.extend(ATTENTION);
                biases.extend(["ffn_up", "ffn_down"]);
            }
            Ok(biases)
        },
        tensors: TENSORS,
        ..DECODER
    }],
};

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embed_tokens"),
    ("output_norm", "norm"),
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_up", "mlp.c_fc"),
    ("ffn_down", "mlp.c_proj"),
];

const WINDOW: Field = field("attention.sliding_window", "sliding_window");

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let config = r.layer_norm_decoder(NormKind::Layer, Some(RopePairs::Halves), 0)?;
    let activation = r.activation(Activation::GeluTanh)?;
    let window = r.opt_size(WINDOW)?;
    Ok(config.each(|_, layer| {
        layer.gated = false;
        layer.activation = activation;
        if let Some(window) = window {
            layer.mask = Mask::Window(window);
        }
    }))
}
