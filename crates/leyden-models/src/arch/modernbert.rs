//! ModernBERT (Warner et al., 2024): norms without biases before each half of a block, gated feed-forward layers; two
//! of three layers have a sliding window around each token, and their own RoPE base.

use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{
    DenseActivation, DenseConfig, Field, HeadClass, HfConfig, ModelConfig, NormKind, NormPlacement, Reader,
    RopeScaling, field, gguf_head, hf_head,
};
use crate::error::Error;
use crate::pooling::Pooling;
use leyden_kernels::attention::Mask;
use leyden_kernels::ops::{Activation, RopePairs};
use leyden_tensor::Escaped;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "modern-bert",
    models: "ModernBERT, GTE-ModernBERT, Ettin (encoders)",
    config,
    conversion: Conversion::Both,
    own_keys: &[
        "attention.causal",
        "attention.layer_norm_epsilon",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "classifier.output_labels",
        "classifier_activation",
        "classifier_bias",
        "classifier_pooling",
        "global_attn_every_n_layers",
        "global_rope_theta",
        "hidden_activation",
        "local_attention",
        "local_rope_theta",
        "norm_bias",
        "norm_eps",
        "rope.freq_base_swa",
    ],
    hf: &[HfClass {
        model_type: "modernbert",
        classes: &[
            "ModernBertModel",
            "ModernBertForMaskedLM",
            "ModernBertForSequenceClassification",
            "ModernBertForTokenClassification",
        ],
        keys: &[("layer_norm_eps", "norm_eps"), ("hidden_act", "hidden_activation")],
        activations: &[
            ("gelu", Activation::Gelu),
            ("gelu_pytorch_tanh", Activation::GeluTanh),
            ("silu", Activation::Silu),
        ],
        biases,
        prefix: "model.",
        layers: "layers",
        tensors: TENSORS,
        head: &[
            ("cls", "head.dense"),
            ("cls.norm", "head.norm"),
            ("cls.output", "classifier"),
            ("cls.tokens", "classifier"),
        ],
        unused: &["head.", "decoder."],
        ..DECODER
    }],
};

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embeddings.tok_embeddings"),
    ("token_embd_norm", "embeddings.norm"),
    ("output_norm", "final_norm"),
    ("attn_norm", "attn_norm"),
    ("attn_qkv", "attn.Wqkv"),
    ("attn_output", "attn.Wo"),
    ("ffn_norm", "mlp_norm"),
    ("ffn_up", "mlp.Wi"),
    ("ffn_down", "mlp.Wo"),
];

const LOCAL: Field = field("attention.sliding_window", "local_attention");
const PATTERN: Field = field("attention.sliding_window_pattern", "global_attn_every_n_layers");
const BASE: Field = field("", "global_rope_theta");
const LOCAL_BASE: Field = field("rope.freq_base_swa", "local_rope_theta");

/// Defaults.
const DEFAULT_LOCAL: usize = 128;
const DEFAULT_PATTERN: usize = 3;
const DEFAULT_BASE: f32 = 160_000.0;
const DEFAULT_LOCAL_BASE: f32 = 10_000.0;
const DEFAULT_EPS: f32 = 1e-5;

fn biases(config: &HfConfig<'_>) -> Result<Vec<&'static str>, Error> {
    let mut biases = vec!["cls.output", "cls.tokens"];
    let groups: [(&str, &[&'static str]); 4] = [
        ("attention_bias", &["attn_qkv", "attn_output"]),
        ("mlp_bias", &["ffn_up", "ffn_down"]),
        ("classifier_bias", &["cls"]),
        ("norm_bias", &["token_embd_norm", "output_norm", "attn_norm", "ffn_norm", "cls.norm"]),
    ];
    for (key, names) in groups {
        if config.flag(key)? {
            biases.extend(names);
        }
    }
    Ok(biases)
}

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let by_kind = match r {
        Reader::Hf(config, name) => Reader::Hf(config.with_rotations_by_kind(), name),
        Reader::Gguf(meta, name) => Reader::Gguf(meta, name),
    };
    let mut config = by_kind.rotating_encoder(Some(RopePairs::Halves))?;
    let half = r.opt_size(LOCAL)?.unwrap_or(DEFAULT_LOCAL) / 2;
    let pattern = r.opt_size(PATTERN)?.unwrap_or(DEFAULT_PATTERN);
    let layers = config.layers.len();
    let mut full: Vec<bool> = (0..layers).map(|i| i.is_multiple_of(pattern)).collect();
    let mut local_base = r.opt_positive(LOCAL_BASE)?.unwrap_or(DEFAULT_LOCAL_BASE);
    let mut base = None;
    let mut activation = Activation::Gelu;
    config.norm.kind = NormKind::LayerWithoutBias;
    match r {
        Reader::Gguf(meta, name) => {
            if let Some(head) = gguf_head(meta, name, Pooling::Cls)? {
                config.head = head;
            }
        }
        Reader::Hf(hf, _) => {
            let json = hf.json();
            activation = hf.activation()?;
            if hf.flag("norm_bias")? {
                config.norm.kind = NormKind::Layer;
            }
            if json.get("norm_eps").is_none() {
                config.norm.eps = DEFAULT_EPS;
            }
            full = hf.full_layers(layers)?.unwrap_or(full);
            base = r.opt_positive(BASE)?;
            if base.is_none() && json.get("rope_parameters.full_attention.rope_theta").is_none() {
                base = Some(DEFAULT_BASE);
            }
            if let Some(local) = hf.local_base("rope_parameters.sliding_attention")? {
                local_base = local;
            }
            config.head = hf_head(hf, head(hf)?)?;
        }
    }
    Ok(config.each(|i, layer| {
        layer.gated = true;
        layer.activation = activation;
        // Embeddings are already normalised.
        layer.norms = if i == 0 { NormPlacement::PreFfn } else { NormPlacement::Pre };
        let Some(rope) = &mut layer.rope else { return };
        if full[i] {
            rope.base = base.unwrap_or(rope.base);
        } else {
            layer.mask = Mask::Around(half);
            rope.base = local_base;
            rope.scaling = RopeScaling::None;
        }
    }))
}

fn head(hf: &HfConfig<'_>) -> Result<HeadClass, Error> {
    let json = hf.json();
    let (pooling_key, activation_key) = ("classifier_pooling", "classifier_activation");
    let pooling = match json.opt_str(pooling_key)? {
        None | Some("cls") => Pooling::Cls,
        Some("mean") => Pooling::Mean,
        Some(other) => {
            let what = format!("`{}` is not supported; supported: cls, mean", Escaped(other));
            return Err(hf.invalid(pooling_key, what));
        }
    };
    if let Some(other) = json.opt_str(activation_key)?.filter(|name| *name != "gelu") {
        let what = format!("`{}` is not supported; supported: gelu", Escaped(other));
        return Err(hf.invalid(activation_key, what));
    }
    let dense = DenseConfig { activation: DenseActivation::Gelu, norm: true, optional: false };
    Ok(HeadClass { pooling, dense: Some(dense), of_tokens: true })
}
