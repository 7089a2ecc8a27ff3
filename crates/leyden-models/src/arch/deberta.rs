//! DeBERTa v2 and v3 (He et al., 2021): disentangled attention, with separate score terms for content and for
//! relative positions.

use super::bert_class::{BERT, OTHER_BIASES};
use super::{ATTENTION, Architecture, Conversion, HfClass};
use crate::config::{
    DenseActivation, Field, HeadClass, HfConfig, ModelConfig, PositionBias, Reader, field, hf_head,
};
use crate::error::Error;
use crate::pooling::Pooling;
use leyden_tensor::Escaped;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "deberta-v2",
    models: "DeBERTa v2, DeBERTa v3, mDeBERTa v3",
    config,
    conversion: Conversion::Both,
    own_keys: &[
        "layer_norm_eps",
        "max_relative_positions",
        "norm_rel_ebd",
        "pooler_hidden_act",
        "pos_att_type",
        "position_biased_input",
        "position_buckets",
        "relative_attention",
        "share_att_key",
        "type_vocab_size",
    ],
    hf: &[HfClass {
        model_type: "deberta-v2",
        classes: &[
            "DebertaV2Model",
            "DebertaV2ForMaskedLM",
            "DebertaV2ForSequenceClassification",
            "DebertaV2ForTokenClassification",
        ],
        biases: |_| {
            Ok([&ATTENTION[..], &OTHER_BIASES, &["rel_embd_norm", "attn_pos_k", "attn_pos_q"]].concat())
        },
        prefix: "deberta.",
        tensors: TENSORS,
        head: &[("cls", "pooler.dense"), ("cls.output", "classifier"), ("cls.tokens", "classifier")],
        unused: &["embeddings.position_ids", "lm_predictions.", "mask_predictions.", "cls."],
        ..BERT
    }],
};

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embeddings.word_embeddings"),
    ("position_embd", "embeddings.position_embeddings"),
    ("token_types", "embeddings.token_type_embeddings"),
    ("token_embd_norm", "embeddings.LayerNorm"),
    ("rel_embd", "encoder.rel_embeddings"),
    ("rel_embd_norm", "encoder.LayerNorm"),
    ("attn_q", "attention.self.query_proj"),
    ("attn_k", "attention.self.key_proj"),
    ("attn_v", "attention.self.value_proj"),
    ("attn_pos_k", "attention.self.pos_key_proj"),
    ("attn_pos_q", "attention.self.pos_query_proj"),
    ("attn_output", "attention.output.dense"),
    ("attn_output_norm", "attention.output.LayerNorm"),
    ("ffn_up", "intermediate.dense"),
    ("ffn_down", "output.dense"),
    ("layer_output_norm", "output.LayerNorm"),
];

const BUCKETS: Field = field("", "position_buckets");

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut config = r.encoder()?;
    let Reader::Hf(hf, _) = r else { return Ok(config) };
    if hf.json().get("conv_kernel_size").is_some_and(|size| size.as_u64() != Some(0)) {
        return Err(hf.invalid("conv_kernel_size", "a convolution after the first layer is not supported"));
    }
    let json = hf.json();
    let activation = hf.activation()?;
    let bias = if hf.flag("relative_attention")? { Some(bias(r, hf, config.context)?) } else { None };
    config = config.each(|_, layer| {
        layer.activation = activation;
        layer.position_bias = bias;
        if let Some(PositionBias::Disentangled { content_to_position, position_to_content, .. }) = bias {
            let parts = 1 + usize::from(content_to_position) + usize::from(position_to_content);
            layer.attention_scale = 1.0 / ((layer.head_dim * parts) as f32).sqrt();
        }
    });
    if json.opt_bool("position_biased_input")?.unwrap_or(true) {
        config.learned_positions = Some(0);
    }
    let key = "pooler_hidden_act";
    let pooler = match json.opt_str(key)? {
        None | Some("gelu") => DenseActivation::Gelu,
        Some("tanh") => DenseActivation::Tanh,
        Some("relu") => DenseActivation::Relu,
        Some(other) => return Err(hf.invalid(key, format!("`{}` is not supported", Escaped(other)))),
    };
    config.head = hf_head(hf, HeadClass::new(Pooling::Cls, Some(pooler)))?;
    Ok(config)
}

fn bias(r: &Reader<'_>, hf: &HfConfig<'_>, context: usize) -> Result<PositionBias, Error> {
    let json = hf.json();
    // -1 means the maximum context length.
    let positive = |key: &str| json.get(key).and_then(|n| n.as_i64()).filter(|n| *n > 0);
    let longest = match positive("max_relative_positions") {
        Some(_) => hf.opt_size("max_relative_positions")?.unwrap_or(context),
        None => context,
    };
    let buckets = match positive("position_buckets") {
        Some(_) => r.opt_size(BUCKETS)?,
        None => None,
    };
    if buckets.is_some_and(|buckets| buckets < 2 || buckets / 2 + 1 >= longest) {
        return Err(r.invalid(
            BUCKETS,
            format!("this number of buckets does not fit distances up to {longest} tokens"),
        ));
    }
    let kinds = "pos_att_type";
    let of = match json.get(kinds) {
        Some(value) if value.is_string() => json.str(kinds)?.split('|').map(str::trim).collect(),
        _ => json.opt_array_str(kinds)?.unwrap_or_default(),
    };
    if let Some(other) = of.iter().find(|kind| !["c2p", "p2c"].contains(kind)) {
        return Err(hf.invalid(kinds, format!("`{}` is not supported; supported: c2p, p2c", Escaped(other))));
    }
    let norm = json.opt_str("norm_rel_ebd")?.unwrap_or_default();
    Ok(PositionBias::Disentangled {
        span: buckets.unwrap_or(longest),
        longest: buckets.map(|_| longest),
        content_to_position: of.contains(&"c2p"),
        position_to_content: of.contains(&"p2c"),
        shared: hf.flag("share_att_key")?,
        norm: norm.split('|').any(|kind| kind.trim() == "layer_norm"),
    })
}
