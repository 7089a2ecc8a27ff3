//! Qwen2 and Qwen2.5: Llama's blocks with biases on query, key and value.

use super::Architecture;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "qwen2",
    models: "Qwen2, Qwen2.5, QwQ, DeepSeek-R1-Distill-Qwen",
    config: |r| r.decoder(RopePairs::Halves),
};
