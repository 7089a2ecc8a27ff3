//! Command R (Cohere, 2024): parallel attention and feed-forward layer after one LayerNorm without bias; a factor on
//! logits.

use super::{Architecture, Conversion, DECODER, HfClass, attention_biases};
use crate::config::{Field, ModelConfig, NormKind, NormPlacement, Reader, field};
use crate::error::Error;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "command-r",
    models: "Command R, Aya 23, Aya Expanse",
    config: blocks,
    conversion: Conversion::Both,
    own_keys: OWN_KEYS,
    hf: &[HfClass {
        model_type: "cohere",
        classes: &["CohereForCausalLM"],
        tied: true,
        biases: attention_biases,
        ..DECODER
    }],
};

pub(super) const OWN_KEYS: &[&str] =
    &["attention.layer_norm_epsilon", "layer_norm_eps", "logit_scale", "position_embedding_type"];

const LOGITS: Field = field("logit_scale", "logit_scale");
/// Default in a folder.
const DEFAULT_SCALE: f32 = 0.0625;

/// Reads the parameters that all of Cohere's models share.
pub(super) fn blocks(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let reader = r.with_partial_rotation(1.0);
    let pairs = Some(RopePairs::Interleaved);
    let config = reader.layer_norm_decoder(NormKind::LayerWithoutBias, pairs, 0)?;
    let mut config = config.each(|_, layer| layer.norms = NormPlacement::Parallel);
    config.logit_scale = match r.opt_positive(LOGITS)? {
        Some(scale) => scale,
        None if matches!(r, Reader::Hf(..)) => DEFAULT_SCALE,
        None => return Err(r.invalid(LOGITS, "is missing and has no default")),
    };
    Ok(config)
}
