//! Granite's mixtures (IBM, 2024): Granite's blocks with experts as feed-forward layers, in some models with a shared
//! expert.

use super::granite::{factors, pairs};
use super::llama::llama_biases;
use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{ExpertsConfig, FFN, Field, ModelConfig, Reader, SharedExpert, field};
use crate::error::Error;
use crate::hf_class::Stack;
use leyden_tensor::StackRows;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "granitemoe",
    models: "Granite 3.x (mixtures)",
    config,
    conversion: Conversion::Both,
    own_keys: &[
        "attention.scale",
        "attention_multiplier",
        "embedding_multiplier",
        "embedding_scale",
        "expert_shared_feed_forward_length",
        "logit_scale",
        "logits_scaling",
        "residual_multiplier",
        "residual_scale",
        "shared_intermediate_size",
    ],
    hf: &[
        HfClass { model_type: "granitemoe", classes: &["GraniteMoeForCausalLM"], ..CLASS },
        HfClass { model_type: "granitemoeshared", classes: &["GraniteMoeSharedForCausalLM"], ..CLASS },
    ],
};

pub(super) const CLASS: HfClass = HfClass {
    keys: &[("num_experts", "num_local_experts")],
    biases: llama_biases,
    interleaved: true,
    tensors: TENSORS,
    stacks: STACKS,
    ..DECODER
};

/// Tensor names: GGUF's, and the class's, including those of the Mamba 2 blocks of later models. Without routed
/// experts, the shared expert is the feed-forward layer.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embed_tokens"),
    ("output_norm", "norm"),
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate_inp", "block_sparse_moe.router.layer"),
    ("ffn_up", "shared_mlp.input_linear"),
    ("ffn_down", "shared_mlp.output_linear"),
    ("ffn_up_shexp", "shared_mlp.input_linear"),
    ("ffn_down_shexp", "shared_mlp.output_linear"),
    ("ssm_in", "mamba.in_proj"),
    ("ssm_conv1d", "mamba.conv1d"),
    ("ssm_dt.bias", "mamba.dt_bias"),
    ("ssm_a_log", "mamba.A_log"),
    ("ssm_d", "mamba.D"),
    ("ssm_norm", "mamba.norm"),
    ("ssm_out", "mamba.out_proj"),
];

const STACKS: &[(&str, Stack)] = &[
    ("ffn_gate_exps.weight", Stack::Rows("block_sparse_moe.input_linear.weight", StackRows::First)),
    ("ffn_up_exps.weight", Stack::Rows("block_sparse_moe.input_linear.weight", StackRows::Second)),
    ("ffn_down_exps.weight", Stack::Rows("block_sparse_moe.output_linear.weight", StackRows::All)),
];

pub(super) const SHARED_FFN: Field = field("expert_shared_feed_forward_length", "shared_intermediate_size");

/// Reads the experts. The softmax is over the chosen ones.
pub(super) fn experts(r: &Reader<'_>) -> Result<ExpertsConfig, Error> {
    let mut experts = r.experts(true)?;
    if r.opt_u32(SHARED_FFN)?.is_some_and(|ffn| ffn > 0) {
        experts.shared = Some(SharedExpert { ffn: r.size(SHARED_FFN)?, gated: false });
    }
    Ok(experts)
}

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    factors(r, r.mixture(pairs(r), experts(r)?, r.size(FFN)?)?)
}
