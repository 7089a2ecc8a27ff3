//! gpt-oss (OpenAI, 2025): mixtures of experts with a clamped SwiGLU and biases everywhere; a sliding window in every
//! other layer, and an attention sink for every query head.
//!
//! The published weights of the experts are MXFP4, in GGUF and in folders, and are not converted.

use super::{ATTENTION, Architecture, Conversion, DECODER, HfClass};
use crate::config::{Field, ModelConfig, Reader, RopeScaling, field};
use crate::error::Error;
use crate::hf_class::Stack;
use leyden_kernels::attention::Mask;
use leyden_kernels::ops::{Activation, RopePairs};
use leyden_tensor::StackRows;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "gpt-oss",
    models: "gpt-oss-20b, gpt-oss-120b",
    config,
    conversion: Conversion::ToGguf("its folders have interleaved experts, as blocks and scales"),
    own_keys: &[
        "attention.sliding_window",
        "experts_per_token",
        "initial_context_length",
        "swiglu_alpha",
        "swiglu_limit",
    ],
    hf: &[HfClass {
        model_type: "gpt_oss",
        classes: &["GptOssForCausalLM"],
        aliases: &[("num_experts", "num_experts")],
        keys: &[("num_experts", "num_local_experts"), ("moe_intermediate_size", "intermediate_size")],
        biases: |config| {
            for (key, wanted) in [("swiglu_alpha", 1.702), ("swiglu_limit", 7.0)] {
                if config.json().opt_f32(key)?.is_some_and(|v| v != wanted) {
                    return Err(config.invalid(key, format!("only {wanted} is supported")));
                }
            }
            let attention = config.json().opt_bool("attention_bias")?.unwrap_or(true);
            let router = std::iter::once("ffn_gate_inp");
            Ok(if attention { router.chain(ATTENTION).collect() } else { router.collect() })
        },
        stacks: &[
            ("ffn_gate_exps.weight", Stack::Columns("mlp.experts.gate_up_proj", StackRows::Even)),
            ("ffn_up_exps.weight", Stack::Columns("mlp.experts.gate_up_proj", StackRows::Odd)),
            ("ffn_down_exps.weight", Stack::Columns("mlp.experts.down_proj", StackRows::All)),
            ("ffn_gate_exps.bias", Stack::Rows("mlp.experts.gate_up_proj_bias", StackRows::Even)),
            ("ffn_up_exps.bias", Stack::Rows("mlp.experts.gate_up_proj_bias", StackRows::Odd)),
            ("ffn_down_exps.bias", Stack::Rows("mlp.experts.down_proj_bias", StackRows::All)),
        ],
        quantised: &["mxfp4"],
        in_gguf: &[("ffn_norm", "post_attention_norm")],
        ..DECODER
    }],
};

const WINDOW: Field = field("attention.sliding_window", "sliding_window");

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut experts = r.experts(true)?;
    experts.biases = true;
    let config = r.mixture(RopePairs::Halves, experts, r.expert_ffn(experts.used)?)?;
    let window = Mask::Window(r.size(WINDOW)?);
    let full = match r {
        Reader::Hf(hf, _) => {
            // The class's own default differs from that of other classes.
            let rope = ["rope_parameters", "rope_scaling"];
            if rope.iter().all(|key| hf.json().get(key).is_none()) {
                return Err(hf.invalid(rope[0], "is missing and has no default"));
            }
            hf.full_layers(config.layers.len())?
        }
        Reader::Gguf(..) => None,
    };
    Ok(config.each(|i, layer| {
        layer.sinks = true;
        layer.activation = Activation::ClampedSwiglu;
        if !full.as_ref().map_or(i % 2 == 1, |full| full[i]) {
            layer.mask = window;
        }
        // As in training (`truncate` in its folder); GGUF has no key for it.
        if let (Reader::Gguf(..), Some(rope)) = (r, &mut layer.rope)
            && let RopeScaling::Yarn { ramp, .. } = &mut rope.scaling
        {
            ramp.whole = false;
        }
    }))
}
