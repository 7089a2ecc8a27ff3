//! Granite (IBM, 2024): Llama's blocks with factors on embeddings, attention scores, residuals and logits.

use super::llama::llama_biases;
use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{Field, ModelConfig, Reader, field};
use crate::error::Error;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "granite",
    models: "Granite 3.x (dense)",
    config,
    conversion: Conversion::Both,
    own_keys: &[
        "attention.scale",
        "embedding_scale",
        "residual_scale",
        "logit_scale",
        "attention_multiplier",
        "embedding_multiplier",
        "residual_multiplier",
        "logits_scaling",
    ],
    hf: &[HfClass {
        model_type: "granite",
        classes: &["GraniteForCausalLM"],
        biases: llama_biases,
        interleaved: true,
        ..DECODER
    }],
};

const SCORES: Field = field("attention.scale", "attention_multiplier");
const EMBEDDINGS: Field = field("embedding_scale", "embedding_multiplier");
const RESIDUALS: Field = field("residual_scale", "residual_multiplier");
const LOGITS: Field = field("logit_scale", "logits_scaling");
/// Key of the flag for RoPE, which is true by default.
const ROTATES: Field = field("rope.scaling.finetuned", "");

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    factors(r, r.decoder(pairs(r))?)
}

/// Returns the RoPE pairing. Conversion to GGUF reorders the rows of Q and K.
pub(super) fn pairs(r: &Reader<'_>) -> RopePairs {
    match r {
        Reader::Gguf(..) => RopePairs::Interleaved,
        Reader::Hf(..) => RopePairs::Halves,
    }
}

/// Returns the model with Granite's factors.
pub(super) fn factors(r: &Reader<'_>, config: ModelConfig) -> Result<ModelConfig, Error> {
    let residual_scale = r.opt_positive(RESIDUALS)?.unwrap_or(1.0);
    let scores = match (r.opt_positive(SCORES)?, r) {
        (None, Reader::Hf(..)) => Some(1.0),
        (found, _) => found,
    };
    let rotates = r.opt_bool(ROTATES)?.unwrap_or(true);
    let mut config = config.each(|_, layer| {
        layer.attention_scale = scores.unwrap_or(layer.attention_scale);
        layer.residual_scale = residual_scale;
        if !rotates {
            layer.rope = None;
        }
    });
    config.embedding_scale = r.opt_positive(EMBEDDINGS)?.unwrap_or(1.0);
    config.logit_scale = 1.0 / r.opt_positive(LOGITS)?.unwrap_or(1.0);
    Ok(config)
}
