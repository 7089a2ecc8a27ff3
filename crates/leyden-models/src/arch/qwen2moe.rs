//! Qwen1.5 and Qwen2 with mixtures of experts: Qwen2's attention, and a shared expert with its own gate beside the
//! routed ones.

use super::qwen2::refuse_windows;
use super::{Architecture, Conversion, DECODER, EXPERTS, HfClass};
use crate::config::{FFN, Field, ModelConfig, Reader, SharedExpert, field};
use crate::error::Error;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "qwen2moe",
    models: "Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B",
    config,
    conversion: Conversion::Both,
    own_keys: &[
        "expert_shared_feed_forward_length",
        "norm_topk_prob",
        "qkv_bias",
        "shared_expert_intermediate_size",
    ],
    hf: &[HfClass {
        model_type: "qwen2_moe",
        classes: &["Qwen2MoeForCausalLM"],
        aliases: &[("num_experts", "num_local_experts")],
        biases: |config| {
            refuse_windows(config)?;
            let biased = config.json().opt_bool("qkv_bias")?.unwrap_or(true);
            Ok(if biased { vec!["attn_q", "attn_k", "attn_v"] } else { Vec::new() })
        },
        stacks: EXPERTS,
        ..DECODER
    }],
};

const SHARED_FFN: Field = field("expert_shared_feed_forward_length", "shared_expert_intermediate_size");

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let normalise = match r {
        Reader::Gguf(..) => false,
        Reader::Hf(config, _) => config.flag("norm_topk_prob")?,
    };
    let mut experts = r.experts(normalise)?;
    let ffn = match (r.opt_size(SHARED_FFN)?, r) {
        (Some(ffn), _) => ffn,
        (None, Reader::Gguf(..)) => r.size(FFN)?,
        (None, Reader::Hf(..)) => r.size(SHARED_FFN)?,
    };
    experts.shared = Some(SharedExpert { ffn, gated: true });
    r.mixture(RopePairs::Halves, experts, r.expert_ffn(experts.used)?)
}
