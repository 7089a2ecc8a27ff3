//! GLM-4-0414 (Zhipu AI, 2025): norms before and after each half of a block; RoPE on half of each head in interleaved
//! pairs; gate and up projections fused in one matrix.

use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{ModelConfig, NormPlacement, Reader};
use crate::error::Error;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "glm4",
    models: "GLM-4-9B-0414, GLM-4-32B-0414, GLM-Z1",
    config,
    conversion: Conversion::Both,
    own_keys: &[],
    hf: &[HfClass {
        model_type: "glm4",
        classes: &["Glm4ForCausalLM"],
        defaults: &[("num_key_value_heads", 2), ("head_dim", 128)],
        biases: |config| {
            let biased = config.json().opt_bool("attention_bias")?.unwrap_or(true);
            Ok(if biased { vec!["attn_q", "attn_k", "attn_v"] } else { Vec::new() })
        },
        tensors: TENSORS,
        ..DECODER
    }],
};

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embed_tokens"),
    ("output_norm", "norm"),
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("post_attention_norm", "post_self_attn_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_up", "mlp.gate_up_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("post_ffw_norm", "post_mlp_layernorm"),
];

/// Default fraction of a head's dimensions that is rotated, in a folder.
const DEFAULT_SHARE: f32 = 0.5;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let config = r.with_partial_rotation(DEFAULT_SHARE).decoder(RopePairs::Interleaved)?;
    Ok(config.each(|_, layer| layer.norms = NormPlacement::Sandwich))
}
