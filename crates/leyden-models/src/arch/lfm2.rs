//! LFM2 (Liquid AI, 2025): most layers have a gated short convolution instead of attention; queries and keys are
//! normalised per head.

use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{Field, HfConfig, KV_HEADS, ModelConfig, QkNorm, Reader, RecurrentConfig, field};
use crate::error::Error;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "lfm2",
    models: "LFM2-350M to 2.6B",
    config,
    conversion: Conversion::None("GGUF has another layout for recurrent layers"),
    own_keys: &[
        "block_auto_adjust_ff_dim",
        "block_ff_dim",
        "block_ffn_dim_multiplier",
        "block_multiple_of",
        "conv_L_cache",
        "conv_bias",
        "full_attn_idxs",
        "norm_eps",
        "shortconv.l_cache",
    ],
    hf: &[HfClass {
        model_type: "lfm2",
        classes: &["Lfm2ForCausalLM"],
        keys: KEYS,
        tied: true,
        biases: |config| config.refuse("conv_bias"),
        tensors: TENSORS,
        ..DECODER
    }],
};

const KEYS: &[(&str, &str)] = &[("rms_norm_eps", "norm_eps")];
/// Key names of folders with the older name of the feed-forward width.
const OLDER_KEYS: &[(&str, &str)] = &[("rms_norm_eps", "norm_eps"), ("intermediate_size", "block_ff_dim")];

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embed_tokens"),
    ("output_norm", "embedding_norm"),
    ("attn_norm", "operator_norm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.out_proj"),
    ("attn_q_norm", "self_attn.q_layernorm"),
    ("attn_k_norm", "self_attn.k_layernorm"),
    ("shortconv.in_proj", "conv.in_proj"),
    ("shortconv.conv", "conv.conv"),
    ("shortconv.out_proj", "conv.out_proj"),
    ("ffn_norm", "ffn_norm"),
    ("ffn_gate", "feed_forward.w1"),
    ("ffn_up", "feed_forward.w3"),
    ("ffn_down", "feed_forward.w2"),
];

const TAPS: Field = field("shortconv.l_cache", "conv_L_cache");

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut config = match r {
        Reader::Hf(hf, name) if hf.json().get("block_ff_dim").is_some() => {
            Reader::Hf(hf.with_keys(OLDER_KEYS), name).decoder(RopePairs::Halves)?
        }
        _ => r.decoder(RopePairs::Halves)?,
    };
    let taps = r.taps(TAPS)?;
    let layers = config.layers.len();
    let attention: Vec<bool> = match r {
        Reader::Hf(hf, _) => {
            config.layers.iter_mut().try_for_each(|layer| {
                layer.ffn = feed_forward(hf, layer.ffn)?;
                Ok::<_, Error>(())
            })?;
            attention_layers(hf, layers)?
        }
        Reader::Gguf(..) => {
            let kv_heads = r.opt_sizes_or_zero(KV_HEADS, layers)?.unwrap_or_else(|| vec![1; layers]);
            kv_heads.iter().map(|n| *n > 0).collect()
        }
    };
    Ok(config.each(|i, layer| {
        layer.qk_norm = QkNorm::Head;
        if !attention[i] {
            layer.kv_heads = layer.heads;
            layer.recurrent = Some(RecurrentConfig::ShortConv { taps });
        }
    }))
}

/// Returns the width of feed-forward layers, which a folder may give before adjustment.
fn feed_forward(hf: &HfConfig<'_>, width: usize) -> Result<usize, Error> {
    const DEFAULT_MULTIPLE: usize = 256;
    if !hf.json().opt_bool("block_auto_adjust_ff_dim")?.unwrap_or(true) {
        return Ok(width);
    }
    let key = "block_ffn_dim_multiplier";
    let factor = hf.json().opt_f32(key)?.unwrap_or(1.0);
    let multiple = hf.opt_size("block_multiple_of")?.unwrap_or(DEFAULT_MULTIPLE);
    let width = (f64::from(factor) * (2 * width / 3) as f64) as usize;
    match width.checked_next_multiple_of(multiple).filter(|n| (1..1 << 24).contains(n)) {
        Some(width) => Ok(width),
        None => Err(hf.invalid(key, format!("{factor} gives no valid width of feed-forward layers"))),
    }
}

fn attention_layers(hf: &HfConfig<'_>, layers: usize) -> Result<Vec<bool>, Error> {
    if let Some(kinds) = hf.layers_of(layers, &["full_attention"], &["conv"])? {
        return Ok(kinds);
    }
    let key = "full_attn_idxs";
    let list = hf.json().get(key).and_then(|value| value.as_array());
    let list = list.ok_or_else(|| hf.invalid("layer_types", format!("is missing, and {key} too")))?;
    Ok((0..layers).map(|i| list.iter().any(|n| n.as_u64() == Some(i as u64))).collect())
}
