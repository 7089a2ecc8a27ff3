//! Qwen3: queries and keys are normalised, head by head, before they turn.

use super::qwen2::refuse_windows;
use super::{ATTENTION, Architecture, DECODER, HfClass};
use crate::config::QkNorm;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "qwen3",
    models: "Qwen3, DeepSeek-R1-0528-Qwen3-8B",
    config: |r| Ok(r.decoder(RopePairs::Halves)?.each(|_, layer| layer.qk_norm = QkNorm::Head)),
    own_keys: &[],
    hf: &[HfClass {
        model_type: "qwen3",
        classes: &["Qwen3ForCausalLM"],
        biases: |config| {
            refuse_windows(config)?;
            Ok(if config.flag("attention_bias")? { ATTENTION.to_vec() } else { Vec::new() })
        },
        ..DECODER
    }],
};
