//! Qwen3 with mixtures of experts: Qwen3's attention, and a mixture in every feed-forward layer.
//!
//! The published models normalise the weights of the chosen experts, and GGUF has no key for that.

use super::qwen2::refuse_windows;
use super::{Architecture, Conversion, DECODER, EXPERTS, HfClass, attention_biases};
use crate::config::{ModelConfig, QkNorm, Reader};
use crate::error::Error;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "qwen3moe",
    models: "Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder-30B-A3B",
    config,
    conversion: Conversion::Both,
    own_keys: &[],
    hf: &[HfClass {
        model_type: "qwen3_moe",
        classes: &["Qwen3MoeForCausalLM"],
        aliases: &[("num_experts", "num_local_experts")],
        biases: |config| {
            refuse_windows(config)?;
            attention_biases(config)
        },
        stacks: EXPERTS,
        ..DECODER
    }],
};

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let normalise = match r {
        Reader::Gguf(..) => true,
        Reader::Hf(config, _) => config.flag("norm_topk_prob")?,
    };
    let experts = r.experts(normalise)?;
    let config = r.mixture(RopePairs::Halves, experts, r.expert_ffn(experts.used)?)?;
    Ok(config.each(|_, layer| layer.qk_norm = QkNorm::Head))
}
