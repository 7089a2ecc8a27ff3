//! Qwen3.5 (Qwen Team, 2026), the text model, dense and as a mixture: of every four layers three have a gated delta net, and
//! attention has a gate of its own; a quarter of each head turns.

use super::{Architecture, DECODER, EXPERTS, HfClass};
use crate::config::{
    DeltaNetConfig, Field, ModelConfig, QkNorm, Reader, RecurrentConfig, SharedExpert, field,
};
use crate::error::Error;
use leyden_kernels::attention::MAX_HEAD_DIM;
use leyden_kernels::ops::RopePairs;

pub(super) const DENSE: Architecture = Architecture {
    name: "qwen35",
    models: "Qwen3.5 (text, dense)",
    config: |r| config(r, false),
    own_keys: OWN_KEYS,
    hf: &[HfClass { model_type: "qwen3_5_text", classes: &["Qwen3_5ForCausalLM"], ..CLASS }],
};

pub(super) const MIXTURE: Architecture = Architecture {
    name: "qwen35moe",
    models: "Qwen3.5 (text, mixtures)",
    config: |r| config(r, true),
    own_keys: OWN_KEYS,
    hf: &[HfClass {
        model_type: "qwen3_5_moe_text",
        classes: &["Qwen3_5MoeForCausalLM"],
        stacks: EXPERTS,
        ..CLASS
    }],
};

const CLASS: HfClass = HfClass {
    biases: |config| config.refuse("attention_bias"),
    // Layers that predict further tokens.
    unused: &["mtp."],
    ..DECODER
};

const OWN_KEYS: &[&str] = &[
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

const TAPS: Field = field("ssm.conv_kernel", "linear_conv_kernel_dim");
const KEY_DIM: Field = field("ssm.state_size", "linear_key_head_dim");
const KEY_HEADS: Field = field("ssm.group_count", "linear_num_key_heads");
const HEADS: Field = field("ssm.time_step_rank", "linear_num_value_heads");
const VALUES: Field = field("ssm.inner_size", "linear_value_head_dim");
const RECURRENT: Field = field("attention.recurrent_layers", "");
const INTERVAL: Field = field("full_attention_interval", "full_attention_interval");
const SHARED_FFN: Field = field("expert_shared_feed_forward_length", "shared_expert_intermediate_size");

/// Of so many layers one has attention, where nothing is said; and how much of a head turns in such a folder.
const DEFAULT_INTERVAL: usize = 4;
const DEFAULT_SHARE: f32 = 0.25;

fn config(r: &Reader<'_>, mixture: bool) -> Result<ModelConfig, Error> {
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
    let net = RecurrentConfig::DeltaNet(delta_net(r)?);
    let attention = attention_layers(r, config.layers.len())?;
    Ok(config.each(|i, layer| {
        layer.qk_norm = QkNorm::Head;
        layer.output_gate = true;
        if !attention[i] {
            layer.recurrent = Some(net);
        }
    }))
}

fn delta_net(r: &Reader<'_>) -> Result<DeltaNetConfig, Error> {
    let taps = r.taps(TAPS)?;
    let (heads, key_heads, key_dim) = (r.size(HEADS)?, r.size(KEY_HEADS)?, r.size(KEY_DIM)?);
    let values = r.size(VALUES)?;
    let in_turn = matches!(r, Reader::Gguf(..));
    let value_dim = if in_turn { values / heads } else { values };
    if !heads.is_multiple_of(key_heads) || (in_turn && !values.is_multiple_of(heads)) || value_dim == 0 {
        return Err(r.invalid(HEADS, format!("{heads} heads of values with {key_heads} of keys")));
    }
    // A state holds a number for each pair of a key's and a value's.
    if key_dim.max(value_dim) > MAX_HEAD_DIM {
        let what = format!("heads of {key_dim} and {value_dim} values; at most {MAX_HEAD_DIM} are supported");
        return Err(r.invalid(KEY_DIM, what));
    }
    let most = 1_usize << 24;
    if [heads * value_dim, key_heads * key_dim].iter().any(|n| *n > most) {
        return Err(r.invalid(HEADS, format!("{heads} heads of {value_dim} are too many")));
    }
    Ok(DeltaNetConfig { taps, heads, key_heads, key_dim, value_dim, in_turn })
}

/// Which layers have attention.
fn attention_layers(r: &Reader<'_>, layers: usize) -> Result<Vec<bool>, Error> {
    match r {
        Reader::Hf(hf, _) => {
            if let Some(kinds) = hf.layers_of(layers, "full_attention", "linear_attention")? {
                return Ok(kinds);
            }
        }
        Reader::Gguf(meta, _) => {
            if let Some(recurrent) = r.flags(meta, RECURRENT)? {
                let found = recurrent.len();
                // Layers that guess further tokens are listed too.
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
