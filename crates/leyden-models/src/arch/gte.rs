//! GTE (Zhang et al., 2024), also called "new": BERT with RoPE instead of position embeddings, and a gated
//! feed-forward layer.

use super::bert_class::BERT;
use super::{Architecture, Conversion, HfClass};
use crate::config::{DenseActivation, Field, HeadClass, ModelConfig, Reader, field, hf_head};
use crate::error::Error;
use crate::pooling::Pooling;
use crate::stored::Stored;
use leyden_kernels::ops::{Activation, RopePairs};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "gte",
    models: "GTE v1.5, GTE multilingual, Snowflake Arctic Embed v2 (medium)",
    config,
    conversion: Conversion::Both,
    own_keys: &["layer_norm_eps", "type_vocab_size"],
    hf: &[
        GTE,
        HfClass {
            model_type: "new",
            prefix: "new.",
            classes: &[
                "NewModel",
                "NewForMaskedLM",
                "NewForSequenceClassification",
                "NewForTokenClassification",
            ],
            ..GTE
        },
    ],
};

const GTE: HfClass = HfClass {
    model_type: "gte",
    classes: &["GteModel", "GteForMaskedLM", "GteForSequenceClassification", "GteForTokenClassification"],
    activations: &[("gelu", Activation::Gelu), ("silu", Activation::Silu)],
    biases: |_| {
        let names = [
            "attn_qkv",
            "attn_output",
            "ffn_down",
            "token_embd_norm",
            "attn_output_norm",
            "layer_output_norm",
        ];
        Ok([&names[..], &["cls", "cls.output", "cls.tokens"]].concat())
    },
    prefix: "gte.",
    tensors: TENSORS,
    stored: Stored { gate_last: true, ..Stored::AS_GGUF },
    unused: &["pooler.", "lm_head."],
    ..BERT
};

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embeddings.word_embeddings"),
    ("token_types", "embeddings.token_type_embeddings"),
    ("token_embd_norm", "embeddings.LayerNorm"),
    ("attn_qkv", "attention.qkv_proj"),
    ("attn_output", "attention.o_proj"),
    ("attn_output_norm", "attn_ln"),
    ("ffn_up", "mlp.up_gate_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("layer_output_norm", "mlp_ln"),
    ("cls", "pooler.dense"),
];

const THETA: Field = field("", "rope_theta");
/// Default RoPE base.
const DEFAULT_BASE: f32 = 160_000.0;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut config = r.rotating_encoder(Some(RopePairs::Halves))?;
    let mut activation = Activation::Gelu;
    let mut base = None;
    if let Reader::Hf(hf, _) = r {
        let json = hf.json();
        activation = hf.activation()?;
        let inner = ["rope_parameters.rope_theta", "rope_scaling.rope_theta"];
        if r.opt_positive(THETA)?.is_none() && inner.iter().all(|key| json.get(key).is_none()) {
            base = Some(DEFAULT_BASE);
        }
        for key in ["pack_qkv", "logn_attention_scale", "logn_attention_clip1"] {
            let wanted = key == "pack_qkv";
            if json.opt_bool(key)?.is_some_and(|flag| flag != wanted) {
                return Err(hf.invalid(key, format!("{} is not supported", !wanted)));
            }
        }
        config.head = hf_head(hf, HeadClass::new(Pooling::Cls, Some(DenseActivation::Tanh)))?;
    }
    Ok(config.each(|_, layer| {
        layer.gated = true;
        layer.activation = activation;
        if let (Some(rope), Some(base)) = (&mut layer.rope, base) {
            rope.base = base;
        }
    }))
}
