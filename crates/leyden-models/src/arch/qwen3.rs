//! Qwen3: queries and keys are normalised, head by head, before they turn.

use super::Architecture;
use crate::config::DecoderConfig;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "qwen3",
    models: "Qwen3, DeepSeek-R1-0528-Qwen3-8B",
    config: |r| Ok(DecoderConfig { head_norm: true, ..r.decoder(RopePairs::Halves)? }),
};
