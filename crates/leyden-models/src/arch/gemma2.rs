//! Gemma 2 (Gemma Team, 2024): a sliding window in every second layer; soft caps on attention scores and logits;
//! norms before and after each half of a block.

use super::{Architecture, Conversion, DECODER, HfClass};

/// Tensor names: GGUF's, and the class's. `post_attention_layernorm` is here the norm on attention's output; in other
/// models it is the one before the feed-forward layer.
pub(super) const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embed_tokens"),
    ("output_norm", "norm"),
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("post_attention_norm", "post_attention_layernorm"),
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
];
use crate::config::{Field, ModelConfig, NormPlacement, Reader, field};
use crate::error::Error;
use leyden_kernels::attention::Mask;
use leyden_kernels::ops::{Activation, RopePairs};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "gemma2",
    models: "Gemma 2",
    config,
    conversion: Conversion::Both,
    own_keys: &[
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "hidden_activation",
        "query_pre_attn_scalar",
        "sliding_window_pattern",
    ],
    hf: &[HfClass {
        model_type: "gemma2",
        classes: &["Gemma2ForCausalLM"],
        keys: &[("hidden_act", "hidden_activation")],
        defaults: &[("num_key_value_heads", 4), ("head_dim", 256), ("sliding_window", 4096)],
        activations: &[("gelu_pytorch_tanh", Activation::GeluTanh)],
        biases: |config| config.refuse("attention_bias"),
        tied: true,
        tensors: TENSORS,
        ..DECODER
    }],
};

const WINDOW: Field = field("attention.sliding_window", "sliding_window");
const SCALE: Field = field("", "query_pre_attn_scalar");
const SCORE_SOFT_CAP: Field = field("attn_logit_softcapping", "attn_logit_softcapping");
const LOGIT_SOFT_CAP: Field = field("final_logit_softcapping", "final_logit_softcapping");

/// Defaults in GGUF and in folders.
const DEFAULT_WINDOW: usize = 4096;
const DEFAULT_SCORE_CAP: f32 = 50.0;
const DEFAULT_LOGIT_CAP: f32 = 30.0;
/// Default period of full-attention layers.
const DEFAULT_PATTERN: usize = 2;
/// Default of `query_pre_attn_scalar` in a folder.
const DEFAULT_SCALAR: f32 = 256.0;
/// Number of layers of the 27B model, whose attention scale is by `hidden_size / heads` instead of the head
/// dimension. GGUF has no key for it.
const LAYERS_27B: usize = 46;

/// Returns the attention scale if it is not the usual one: from a folder's key, or by `hidden_size / heads` in the
/// model of `layers_27b` layers.
pub(super) fn attention_scale(
    r: &Reader<'_>,
    config: &ModelConfig,
    layers_27b: usize,
) -> Result<Option<f32>, Error> {
    Ok(match r.opt_positive(SCALE)? {
        Some(scalar) => Some(1.0 / scalar.sqrt()),
        None if matches!(r, Reader::Hf(..)) => Some(1.0 / DEFAULT_SCALAR.sqrt()),
        None if config.layers.len() == layers_27b => {
            Some(1.0 / ((config.width / config.layers[0].heads) as f32).sqrt())
        }
        None => None,
    })
}

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let config = r.decoder(RopePairs::Halves)?;
    let (width, count) = (config.width, config.layers.len());
    let window = Mask::Window(r.opt_size(WINDOW)?.unwrap_or(DEFAULT_WINDOW));
    let windowed = r.windowed(count, DEFAULT_PATTERN)?;
    let scale = attention_scale(r, &config, LAYERS_27B)?;
    // `null` in a folder means no cap, a missing key the default one.
    let cap = |field: Field, default: f32| match (r.opt_positive(field)?, r) {
        (Some(cap), _) => Ok(Some(cap)),
        (None, Reader::Hf(config, _)) if config.json().object().contains_key(config.key(field.hf())) => {
            Ok(None)
        }
        (None, _) => Ok::<_, Error>(Some(default)),
    };
    let score_cap = cap(SCORE_SOFT_CAP, DEFAULT_SCORE_CAP)?;
    let logit_cap = cap(LOGIT_SOFT_CAP, DEFAULT_LOGIT_CAP)?;
    let mut config = config.each(|i, layer| {
        layer.norms = NormPlacement::Sandwich;
        layer.activation = Activation::GeluTanh;
        layer.attention_scale = scale.unwrap_or(layer.attention_scale);
        layer.attention_soft_cap = score_cap;
        if windowed[i] {
            layer.mask = window;
        }
    });
    config.embedding_scale = (width as f32).sqrt();
    config.logit_soft_cap = logit_cap;
    // Conversion to GGUF adds the offset to the weights.
    config.norm.offset = if matches!(r, Reader::Hf(..)) { 1.0 } else { 0.0 };
    Ok(config)
}
