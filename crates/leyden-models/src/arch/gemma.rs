//! Gemma 1 (Gemma Team, 2024): Llama's blocks with scaled embeddings and GELU.

use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{ModelConfig, Reader};
use crate::error::Error;
use leyden_kernels::ops::{Activation, RopePairs};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "gemma",
    models: "Gemma 1, CodeGemma",
    config,
    conversion: Conversion::Both,
    own_keys: &["hidden_activation"],
    hf: &[HfClass {
        model_type: "gemma",
        classes: &["GemmaForCausalLM"],
        defaults: &[("head_dim", 256)],
        tied: true,
        activations: &[("gelu_pytorch_tanh", Activation::GeluTanh), ("gelu", Activation::GeluTanh)],
        biases: |config| {
            // `hidden_activation` overrides `hidden_act`, which in old folders names the same activation differently.
            match config.json().opt_str("hidden_activation")? {
                None | Some("gelu_pytorch_tanh") => {}
                Some(_) => {
                    return Err(config.invalid("hidden_activation", "only gelu_pytorch_tanh is supported"));
                }
            }
            config.refuse("attention_bias")
        },
        ..DECODER
    }],
};

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let config = r.decoder(RopePairs::Halves)?;
    let mut config = config.each(|_, layer| layer.activation = Activation::GeluTanh);
    config.embedding_scale = (config.width as f32).sqrt();
    // Conversion to GGUF adds the offset to the weights.
    config.norm.offset = if matches!(r, Reader::Hf(..)) { 1.0 } else { 0.0 };
    Ok(config)
}
