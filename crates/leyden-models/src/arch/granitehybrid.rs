//! Granite 4 (IBM, 2025), dense and as mixtures: most blocks have a Mamba 2 layer instead of attention; attention has
//! no RoPE.

use super::granite::{factors, pairs};
use super::granitemoe::{CLASS, SHARED_FFN, experts};
use super::llama::llama_biases;
use super::{Architecture, Conversion, HfClass};
use crate::config::{EXPERTS, FFN, HfConfig, KV_HEADS, ModelConfig, Reader, RecurrentConfig};
use crate::error::Error;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "granitehybrid",
    models: "Granite 4.0 (micro, tiny, small)",
    config,
    conversion: Conversion::None("GGUF has another layout for recurrent layers"),
    own_keys: &[
        "attention.scale",
        "attention_multiplier",
        "embedding_multiplier",
        "embedding_scale",
        "expert_shared_feed_forward_length",
        "logit_scale",
        "logits_scaling",
        "mamba_conv_bias",
        "mamba_d_conv",
        "mamba_d_head",
        "mamba_d_state",
        "mamba_expand",
        "mamba_n_groups",
        "mamba_n_heads",
        "mamba_proj_bias",
        "num_local_experts",
        "position_embedding_type",
        "residual_multiplier",
        "residual_scale",
        "shared_intermediate_size",
        "ssm.conv_kernel",
        "ssm.group_count",
        "ssm.inner_size",
        "ssm.state_size",
        "ssm.time_step_rank",
        "time_step_limit",
    ],
    hf: &[HfClass {
        model_type: "granitemoehybrid",
        classes: &["GraniteMoeHybridForCausalLM"],
        defaults: DEFAULTS,
        biases,
        ..CLASS
    }],
};

const DEFAULTS: &[(&str, u32)] = &[
    ("mamba_d_conv", 4),
    ("mamba_d_state", 256),
    ("mamba_expand", 2),
    ("mamba_n_groups", 1),
    ("mamba_n_heads", 128),
    ("num_experts", 8),
    ("num_experts_per_tok", 2),
    ("shared_intermediate_size", 1024),
];

/// Key names of models without routed experts, whose shared expert is the feed-forward layer.
const DENSE_KEYS: &[(&str, &str)] = &[("intermediate_size", "shared_intermediate_size")];

fn biases(config: &HfConfig<'_>) -> Result<Vec<&'static str>, Error> {
    let mut biases = llama_biases(config)?;
    if config.flag("mamba_proj_bias")? {
        biases.extend(["ssm_in", "ssm_out"]);
    }
    if config.json().opt_bool("mamba_conv_bias")?.unwrap_or(true) {
        biases.push("ssm_conv1d");
    }
    Ok(biases)
}

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mixed = r.opt_u32(EXPERTS)?.is_some_and(|count| count > 0);
    let config = match r {
        _ if mixed => r.mixture(pairs(r), experts(r)?, r.size(FFN)?)?,
        Reader::Hf(hf, name) => {
            r.size(SHARED_FFN)?;
            Reader::Hf(hf.with_keys(DENSE_KEYS), name).decoder(pairs(r))?
        }
        Reader::Gguf(..) => r.decoder(pairs(r))?,
    };
    let layers = config.layers.len();
    let (attention, turns): (Vec<bool>, bool) = match r {
        Reader::Hf(hf, _) => {
            let kinds =
                hf.layers_of(layers, &["full_attention", "attention"], &["linear_attention", "mamba"])?;
            let positions = hf.json().opt_str("position_embedding_type")?;
            (kinds.unwrap_or_else(|| vec![false; layers]), positions == Some("rope"))
        }
        Reader::Gguf(..) => {
            let kv_heads = r.opt_sizes_or_zero(KV_HEADS, layers)?.unwrap_or_else(|| vec![1; layers]);
            (kv_heads.iter().map(|n| *n > 0).collect(), true)
        }
    };
    let net = match attention.iter().all(|attends| *attends) {
        true => None,
        false => Some(RecurrentConfig::Mamba2(r.mamba2()?)),
    };
    Ok(factors(r, config)?.each(|i, layer| {
        layer.rope = layer.rope.take().filter(|_| turns);
        if !attention[i] {
            layer.recurrent = net;
        }
    }))
}
