//! Qwen3.5 (Qwen Team, 2026), text model, dense and as a mixture: three of four layers are a Gated DeltaNet;
//! attention has an output gate, and RoPE on a quarter of each head.

use super::{Architecture, Conversion, DECODER, EXPERTS, HfClass};
use crate::config::{Field, ModelConfig, QkNorm, Reader, RecurrentConfig, SharedExpert, field};
use crate::error::Error;
use leyden_kernels::ops::RopePairs;

pub(super) const DENSE: Architecture = Architecture {
    name: "qwen35",
    models: "Qwen3.5 (text, dense)",
    config: |r| config(r, false, round_robin(r)),
    conversion: Conversion::None("GGUF has another layout for recurrent layers"),
    own_keys: OWN_KEYS,
    hf: &[HfClass { model_type: "qwen3_5_text", classes: &["Qwen3_5ForCausalLM"], ..CLASS }],
};

pub(super) const MIXTURE: Architecture = Architecture {
    name: "qwen35moe",
    models: "Qwen3.5 (text, mixtures)",
    config: |r| config(r, true, round_robin(r)),
    conversion: Conversion::None("GGUF has another layout for recurrent layers"),
    own_keys: OWN_KEYS,
    hf: &[HfClass {
        model_type: "qwen3_5_moe_text",
        classes: &["Qwen3_5MoeForCausalLM"],
        stacks: EXPERTS,
        ..CLASS
    }],
};

pub(super) const CLASS: HfClass = HfClass {
    biases: |config| config.refuse("attention_bias"),
    // MTP layers.
    unused: &["mtp."],
    ..DECODER
};

pub(super) const OWN_KEYS: &[&str] = &[
    "attention.recurrent_layers",
    "attn_output_gate",
    "expert_shared_feed_forward_length",
    "full_attention_interval",
    "linear_conv_kernel_dim",
    "linear_key_head_dim",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_value_head_dim",
    "mrope_interleaved",
    "mrope_section",
    "nextn_predict_layers",
    "rope.dimension_sections",
    "shared_expert_intermediate_size",
    "ssm.conv_kernel",
    "ssm.group_count",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
];

const RECURRENT: Field = field("attention.recurrent_layers", "");
const INTERVAL: Field = field("full_attention_interval", "full_attention_interval");
const SHARED_FFN: Field = field("expert_shared_feed_forward_length", "shared_expert_intermediate_size");

/// Defaults: period of layers with attention, and in a folder the fraction of a head's dimensions that is rotated.
const DEFAULT_INTERVAL: usize = 4;
const DEFAULT_SHARE: f32 = 0.25;

/// Returns [`DeltaNetConfig::round_robin`](crate::DeltaNetConfig::round_robin): conversion to GGUF reorders the value heads.
fn round_robin(r: &Reader<'_>) -> bool {
    matches!(r, Reader::Gguf(..))
}

pub(super) fn config(r: &Reader<'_>, mixture: bool, round_robin: bool) -> Result<ModelConfig, Error> {
    let partial = r.with_partial_rotation(DEFAULT_SHARE);
    let mut config = match mixture {
        false => partial.decoder(RopePairs::Halves)?,
        true => {
            let mut experts = r.experts(true)?;
            experts.shared = Some(SharedExpert { ffn: r.size(SHARED_FFN)?, gated: true });
            partial.mixture(RopePairs::Halves, experts, r.expert_ffn(experts.used)?)?
        }
    };
    if let Reader::Hf(..) = r {
        config.norm.offset = 1.0;
    }
    let net = RecurrentConfig::DeltaNet(r.delta_net(round_robin)?);
    let attention = attention_layers(r, config.layers.len())?;
    Ok(config.each(|i, layer| {
        layer.qk_norm = QkNorm::Head;
        layer.output_gate = true;
        if !attention[i] {
            layer.recurrent = Some(net);
        }
    }))
}

/// Returns for each layer whether it has attention.
fn attention_layers(r: &Reader<'_>, layers: usize) -> Result<Vec<bool>, Error> {
    match r {
        Reader::Hf(hf, _) => {
            if let Some(kinds) = hf.layers_of(layers, &["full_attention"], &["linear_attention"])? {
                return Ok(kinds);
            }
        }
        Reader::Gguf(meta, _) => {
            if let Some(recurrent) = r.flags(meta, RECURRENT)? {
                let found = recurrent.len();
                // MTP layers are listed, too.
                let attention: Vec<bool> = recurrent.into_iter().take(layers).map(|flag| !flag).collect();
                return match attention.len() == layers {
                    true => Ok(attention),
                    false => Err(r.invalid(RECURRENT, format!("{found} values for {layers} layers"))),
                };
            }
        }
    }
    let interval = r.opt_size(INTERVAL)?.unwrap_or(DEFAULT_INTERVAL);
    Ok((1..=layers).map(|i| i.is_multiple_of(interval)).collect())
}
