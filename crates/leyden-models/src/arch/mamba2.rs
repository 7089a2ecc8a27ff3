//! Mamba 2 (Dao and Gu, 2024): every block is a state-space model, without attention or feed-forward layers.

use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{HfConfig, ModelConfig, Reader, RecurrentConfig};
use crate::error::Error;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "mamba2",
    models: "Mamba-Codestral-7B, Mamba2-130M to 2.7B",
    config,
    conversion: Conversion::None("GGUF has another layout for recurrent layers"),
    own_keys: &[
        "attention.head_count",
        "conv_kernel",
        "expand",
        "feed_forward_length",
        "head_dim",
        "layer_norm_epsilon",
        "n_groups",
        "num_heads",
        "ssm.conv_kernel",
        "ssm.group_count",
        "ssm.inner_size",
        "ssm.state_size",
        "ssm.time_step_rank",
        "state_size",
        "time_step_limit",
        "use_bias",
        "use_conv_bias",
    ],
    hf: &[HfClass {
        model_type: "mamba2",
        classes: &["Mamba2ForCausalLM"],
        keys: KEYS,
        defaults: DEFAULTS,
        biases,
        prefix: "backbone.",
        tensors: TENSORS,
        ..DECODER
    }],
};

/// Names of keys: the usual, and the class's.
const KEYS: &[(&str, &str)] = &[
    ("mamba_d_conv", "conv_kernel"),
    ("mamba_d_head", "head_dim"),
    ("mamba_d_state", "state_size"),
    ("mamba_expand", "expand"),
    ("mamba_n_groups", "n_groups"),
    ("mamba_n_heads", "num_heads"),
    ("rms_norm_eps", "layer_norm_epsilon"),
];

/// Default values in a folder, by usual names. The context is unlimited; converters to GGUF write this length.
const DEFAULTS: &[(&str, u32)] = &[
    ("mamba_d_conv", 4),
    ("mamba_d_state", 128),
    ("mamba_expand", 2),
    ("mamba_n_groups", 8),
    ("mamba_n_heads", 128),
    ("max_position_embeddings", 1 << 20),
];

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embeddings"),
    ("output_norm", "norm_f"),
    ("attn_norm", "norm"),
    ("ssm_in", "mixer.in_proj"),
    ("ssm_conv1d", "mixer.conv1d"),
    ("ssm_dt.bias", "mixer.dt_bias"),
    ("ssm_a_log", "mixer.A_log"),
    ("ssm_d", "mixer.D"),
    ("ssm_norm", "mixer.norm"),
    ("ssm_out", "mixer.out_proj"),
];

fn biases(config: &HfConfig<'_>) -> Result<Vec<&'static str>, Error> {
    let mut biases = Vec::new();
    if config.flag("use_bias")? {
        biases.extend(["ssm_in", "ssm_out"]);
    }
    if config.json().opt_bool("use_conv_bias")?.unwrap_or(true) {
        biases.push("ssm_conv1d");
    }
    Ok(biases)
}

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let net = RecurrentConfig::Mamba2(r.mamba2()?);
    Ok(r.without_attention()?.each(|_, layer| layer.recurrent = Some(net)))
}
