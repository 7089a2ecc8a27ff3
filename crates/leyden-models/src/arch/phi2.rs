//! Phi-1.5 and Phi-2 (Microsoft, 2023): parallel attention and feed-forward layer after one norm; RoPE on a part of
//! each head; biases everywhere, including the output matrix.

use super::{ATTENTION, Architecture, Conversion, DECODER, HfClass};
use crate::config::{ModelConfig, NormKind, NormPlacement, Reader};
use crate::error::Error;
use leyden_kernels::ops::{Activation, RopePairs};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "phi2",
    models: "Phi-1, Phi-1.5, Phi-2",
    config,
    conversion: Conversion::Both,
    own_keys: &["attention.layer_norm_epsilon", "layer_norm_eps"],
    hf: &[HfClass {
        model_type: "phi",
        classes: &["PhiForCausalLM"],
        activations: &[("gelu_new", Activation::GeluTanh), ("gelu_pytorch_tanh", Activation::GeluTanh)],
        biases: |_| Ok([&ATTENTION[..], &OTHER_BIASES].concat()),
        tensors: TENSORS,
        ..DECODER
    }],
};

const OTHER_BIASES: [&str; 5] = ["attn_norm", "output_norm", "ffn_up", "ffn_down", "output"];

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embed_tokens"),
    ("output_norm", "final_layernorm"),
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.dense"),
    ("ffn_up", "mlp.fc1"),
    ("ffn_down", "mlp.fc2"),
];

/// Default fraction of a head's dimensions that is rotated, in a folder.
const DEFAULT_SHARE: f32 = 0.5;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let reader = r.with_partial_rotation(DEFAULT_SHARE);
    let config = reader.layer_norm_decoder(NormKind::Layer, Some(RopePairs::Halves), 0)?;
    let activation = r.activation(Activation::GeluTanh)?;
    Ok(config.each(|_, layer| {
        layer.norms = NormPlacement::Parallel;
        layer.gated = false;
        layer.activation = activation;
    }))
}
