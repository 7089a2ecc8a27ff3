//! Qwen2 and Qwen2.5: Llama's blocks with biases on query, key and value.

use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::HfConfig;
use crate::error::Error;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "qwen2",
    models: "Qwen2, Qwen2.5, QwQ, DeepSeek-R1-Distill-Qwen",
    config: |r| r.decoder(RopePairs::Halves),
    conversion: Conversion::Both,
    own_keys: &[],
    hf: &[HfClass {
        model_type: "qwen2",
        classes: &["Qwen2ForCausalLM"],
        biases: |config| {
            refuse_windows(config)?;
            Ok(vec!["attn_q", "attn_k", "attn_v"])
        },
        ..DECODER
    }],
};

/// Refuses sliding-window layers. Without `layer_types`, these are the layers from `max_window_layers` on if
/// `use_sliding_window` is true.
pub(super) fn refuse_windows(config: &HfConfig<'_>) -> Result<(), Error> {
    /// Defaults of the classes.
    const DEFAULT_WINDOW: usize = 4096;
    const DEFAULT_FULL_LAYERS: u32 = 28;
    if config.has_full_layers()? || !config.flag("use_sliding_window")? {
        return Ok(());
    }
    let key = "sliding_window";
    let json = config.json();
    let window = match json.object().contains_key(key) {
        true => config.opt_size(key)?,
        false => Some(DEFAULT_WINDOW),
    };
    let full = json.opt_u32("max_window_layers")?.unwrap_or(DEFAULT_FULL_LAYERS);
    match window {
        Some(size) if json.u32("num_hidden_layers")? > full => config.refuse_window(key, size),
        _ => Ok(()),
    }
}
