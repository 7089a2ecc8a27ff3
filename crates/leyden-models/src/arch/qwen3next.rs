//! Qwen3-Next (Qwen Team, 2025): predecessor of Qwen3.5, whose DeltaNet matrices are grouped by key heads.

use super::{Architecture, Conversion, EXPERTS, HfClass, qwen35};
use crate::config::{ModelConfig, Reader};
use crate::error::Error;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "qwen3next",
    models: "Qwen3-Next-80B-A3B, Qwen3-Coder-Next",
    config,
    conversion: Conversion::None("GGUF has another layout for recurrent layers"),
    own_keys: qwen35::OWN_KEYS,
    hf: &[HfClass {
        model_type: "qwen3_next",
        classes: &["Qwen3NextForCausalLM"],
        stacks: EXPERTS,
        ..qwen35::CLASS
    }],
};

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let normalise = match r {
        Reader::Gguf(..) => true,
        Reader::Hf(hf, _) => hf.json().opt_bool("norm_topk_prob")?.unwrap_or(true),
    };
    Ok(qwen35::config(r, true, false)?.each(|_, layer| {
        if let Some(experts) = &mut layer.experts {
            experts.normalise = normalise;
        }
    }))
}
