//! Llama (Touvron et al., 2023) and what shares its computation.

use super::Architecture;
use crate::config::{DecoderConfig, Reader};
use crate::error::Error;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "llama",
    models: "Llama 1 to 3.x, Mistral 7B, DeepSeek-R1-Distill-Llama, Dolphin, TinyLlama, SmolLM",
    config,
};

fn config(r: &Reader<'_>) -> Result<DecoderConfig, Error> {
    if let Some(n) = r.meta.opt_u32(&r.key("expert_count"))?
        && n > 0
    {
        return Err(
            r.invalid("expert_count", format!("{n} experts: mixtures of experts are not supported yet"))
        );
    }
    // GGUF conversion reorders the rows of query and key weights so that pairs are neighbours.
    r.decoder(RopePairs::Interleaved)
}
