//! StableLM (Stability AI, 2023 and 2024): Llama's blocks with LayerNorm; RoPE on a quarter of each head.
//!
//! StableLM 2 12B, whose queries and keys are normalised with separate weights for each head, is not supported.

use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{Field, ModelConfig, NormKind, NormPlacement, Reader, field};
use crate::error::Error;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "stablelm",
    models: "StableLM 3B, StableLM 2 1.6B, StableLM Zephyr",
    config,
    conversion: Conversion::Both,
    own_keys: &["attention.layer_norm_epsilon", "layer_norm_eps", "use_parallel_residual"],
    hf: &[HfClass {
        model_type: "stablelm",
        classes: &["StableLmForCausalLM"],
        biases: |config| {
            let mut biases = vec!["attn_norm", "output_norm"];
            if !config.flag("use_parallel_residual")? {
                biases.push("ffn_norm");
            }
            if config.flag("use_qkv_bias")? {
                biases.extend(["attn_q", "attn_k", "attn_v"]);
            }
            Ok(biases)
        },
        ..DECODER
    }],
};

/// Key of parallel blocks. It is ignored in GGUF, as the published files have it wrong.
const PARALLEL: Field = field("", "use_parallel_residual");
/// Default fraction of a head's dimensions that is rotated, in a folder.
const DEFAULT_SHARE: f32 = 0.25;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let reader = r.with_partial_rotation(DEFAULT_SHARE);
    let config = reader.layer_norm_decoder(NormKind::Layer, Some(RopePairs::Halves), 0)?;
    let parallel = r.opt_bool(PARALLEL)?.unwrap_or(false);
    Ok(config.each(|_, layer| {
        if parallel {
            layer.norms = NormPlacement::Parallel;
        }
    }))
}
