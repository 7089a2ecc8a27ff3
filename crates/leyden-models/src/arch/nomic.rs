//! Nomic's BERT (Nussbaum et al., 2024): BERT with RoPE instead of position embeddings, and a gated feed-forward
//! layer. Its `config.json` has either GPT-2's keys or those of transformers.

use super::bert_class::BERT;
use super::{Architecture, Conversion, HfClass};
use crate::config::{DenseActivation, Field, HeadClass, HfConfig, ModelConfig, Reader, field, hf_head};
use crate::error::Error;
use crate::pooling::Pooling;
use leyden_kernels::ops::{Activation, RopePairs};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "nomic-bert",
    models: "Nomic Embed Text v1, v1.5",
    config,
    conversion: Conversion::Both,
    own_keys: &[
        "attention.causal",
        "attention.layer_norm_epsilon",
        "layer_norm_eps",
        "layer_norm_epsilon",
        "type_vocab_size",
    ],
    hf: &[
        HfClass {
            when: |json| json.get("n_embd").is_some(),
            keys: &[
                ("hidden_size", "n_embd"),
                ("num_attention_heads", "n_head"),
                ("num_hidden_layers", "n_layer"),
                ("intermediate_size", "n_inner"),
                ("max_position_embeddings", "max_trained_positions"),
                ("hidden_act", "activation_function"),
                ("layer_norm_eps", "layer_norm_epsilon"),
                ("rope_theta", "rotary_emb_base"),
            ],
            activations: &[("swiglu", Activation::Silu), ("geglu", Activation::Gelu)],
            biases: own_biases,
            ..NATIVE
        },
        NATIVE,
    ],
};

const NATIVE: HfClass = HfClass {
    model_type: "nomic_bert",
    classes: &[
        "NomicBertModel",
        "NomicBertForMaskedLM",
        "NomicBertForPreTraining",
        "NomicBertForSequenceClassification",
        "NomicBertForTokenClassification",
    ],
    activations: &[("silu", Activation::Silu), ("gelu", Activation::Gelu)],
    biases: |_| Ok(BIASES.to_vec()),
    prefix: "nomic_bert.",
    layers: "encoder.layers",
    tensors: TENSORS,
    unused: &["pooler.", "cls."],
    ..BERT
};

const BIASES: [&str; 6] =
    ["token_embd_norm", "attn_output_norm", "layer_output_norm", "cls", "cls.output", "cls.tokens"];

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embeddings.word_embeddings"),
    ("token_types", "embeddings.token_type_embeddings"),
    ("token_embd_norm", "emb_ln"),
    ("attn_qkv", "attn.Wqkv"),
    ("attn_output", "attn.out_proj"),
    ("attn_output_norm", "norm1"),
    ("ffn_up", "mlp.fc11"),
    ("ffn_gate", "mlp.fc12"),
    ("ffn_down", "mlp.fc2"),
    ("layer_output_norm", "norm2"),
    ("cls", "pooler.dense"),
];

/// Checks options of configurations with GPT-2's keys, and returns the matrices and norms with biases.
fn own_biases(config: &HfConfig<'_>) -> Result<Vec<&'static str>, Error> {
    for (key, what) in [
        ("prenorm", "norms before each half of a block"),
        ("use_rms_norm", "RMSNorm"),
        ("parallel_block", "parallel attention and feed-forward layers"),
        ("rotary_emb_interleaved", "interleaved RoPE pairs"),
        ("causal", "a decoder"),
    ] {
        if config.flag(key)? {
            return Err(config.invalid(key, format!("true asks for {what}, which is not supported")));
        }
    }
    for (key, only) in [("rotary_emb_fraction", 1.0), ("moe_every_n_layers", 0.0)] {
        if let Some(other) = config.json().opt_f32(key)?.filter(|n| *n != only) {
            return Err(config.invalid(key, format!("{other} is not supported; supported: {only}")));
        }
    }
    let mut biases = BIASES.to_vec();
    let groups: [(&str, &[&'static str]); 3] = [
        ("qkv_proj_bias", &["attn_qkv", "attn_output"]),
        ("mlp_fc1_bias", &["ffn_up", "ffn_gate"]),
        ("mlp_fc2_bias", &["ffn_down"]),
    ];
    for (key, names) in groups {
        if config.json().opt_bool(key)?.unwrap_or(true) {
            biases.extend(names);
        }
    }
    Ok(biases)
}

const THETA: Field = field("", "rope_theta");
/// Default RoPE base.
const DEFAULT_BASE: f32 = 1000.0;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut config = r.rotating_encoder(Some(RopePairs::Halves))?;
    let mut activation = Activation::Silu;
    let mut base = None;
    if let Reader::Hf(hf, _) = r {
        let nested = hf.json().get("rope_parameters.rope_theta").is_some();
        base = if r.opt_positive(THETA)?.is_none() && !nested { Some(DEFAULT_BASE) } else { None };
        activation = hf.activation()?;
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
