//! Command R7B and Command A (Cohere, 2024): Command R's blocks; three of four layers have a sliding window, and only
//! these have RoPE.

use super::command_r::blocks;
use super::{Architecture, Conversion, DECODER, HfClass, attention_biases};
use crate::config::{Field, ModelConfig, Reader, field};
use crate::error::Error;
use leyden_kernels::attention::Mask;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "cohere2",
    models: "Command R7B, Command A",
    config,
    conversion: Conversion::Both,
    own_keys: &[
        "attention.layer_norm_epsilon",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "layer_norm_eps",
        "logit_scale",
        "position_embedding_type",
        "rotary_pct",
        "sliding_window_pattern",
    ],
    hf: &[HfClass {
        model_type: "cohere2",
        classes: &["Cohere2ForCausalLM"],
        keys: &[("partial_rotary_factor", "rotary_pct")],
        defaults: &[("sliding_window", 4096)],
        tied: true,
        biases: attention_biases,
        ..DECODER
    }],
};

const WINDOW: Field = field("attention.sliding_window", "sliding_window");
/// Default period of full-attention layers.
const DEFAULT_PATTERN: usize = 4;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let config = blocks(r)?;
    let window = Mask::Window(r.size(WINDOW)?);
    let windowed = r.windowed(config.layers.len(), DEFAULT_PATTERN)?;
    Ok(config.each(|i, layer| match windowed[i] {
        true => layer.mask = window,
        false => layer.rope = None,
    }))
}
