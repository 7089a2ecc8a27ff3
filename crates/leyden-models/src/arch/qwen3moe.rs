//! Qwen3 with mixtures of experts: Qwen3's attention; every feed-forward layer is some of many, chosen token by token.
//!
//! The published models normalise the weights of the chosen experts, and GGUF has no key that says otherwise. Folders
//! from the hub, which keep every expert in tensors of its own, are not supported.

use super::Architecture;
use crate::config::QkNorm;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "qwen3moe",
    models: "Qwen3-30B-A3B, Qwen3-235B-A22B, Qwen3-Coder-30B-A3B",
    config: |r| Ok(r.mixture(RopePairs::Halves, true)?.each(|_, layer| layer.qk_norm = QkNorm::Head)),
    own_keys: &[],
    hf: &[],
};
