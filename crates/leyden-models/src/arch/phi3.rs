//! Phi-3, Phi-3.5 and Phi-4 (Abdin et al., 2024): Llama's blocks with fused QKV, and fused gate and up projections;
//! LongRoPE for longer contexts. Phi-4-mini rotates a part of each head.

use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{Field, ModelConfig, Reader, RopeScaling, field};
use crate::error::Error;
use leyden_kernels::attention::Mask;
use leyden_kernels::ops::RopePairs;
use std::sync::Arc;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "phi3",
    models: "Phi-3, Phi-3.5, Phi-4, Phi-4-mini",
    config,
    conversion: Conversion::Both,
    own_keys: &["attention.sliding_window"],
    hf: &[HfClass { model_type: "phi3", classes: &["Phi3ForCausalLM"], tensors: TENSORS, ..DECODER }],
};

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embed_tokens"),
    ("output_norm", "norm"),
    ("attn_norm", "input_layernorm"),
    ("attn_qkv", "self_attn.qkv_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_up", "mlp.gate_up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

const WINDOW: Field = field("attention.sliding_window", "sliding_window");
/// Factor on cosine and sine. Files with it have LongRoPE divisors for both lengths, and name no scaling type.
const MAGNITUDE: Field = field("rope.scaling.attn_factor", "");
const ORIGINAL_CONTEXT: Field = field("rope.scaling.original_context_length", "");

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let config = r.with_partial_rotation(1.0).decoder(RopePairs::Halves)?;
    // Phi-4's files have 0; others have a window that llama.cpp ignores, but the model was trained with.
    let window = match r.opt_u32(WINDOW)? {
        None | Some(0) => None,
        Some(_) => r.opt_size(WINDOW)?,
    };
    let scaled = match r.opt_positive(MAGNITUDE)? {
        Some(_) => Some(r.opt_size(ORIGINAL_CONTEXT)?.unwrap_or(config.context)),
        None => None,
    };
    Ok(config.each(|_, layer| {
        if let Some(window) = window {
            layer.mask = Mask::Window(window);
        }
        if let (Some(rope), Some(original_context)) = (&mut layer.rope, scaled) {
            let divisors = Arc::default();
            rope.scaling = RopeScaling::LongRope { original_context, divisors, attention: 1.0 };
        }
    }))
}
