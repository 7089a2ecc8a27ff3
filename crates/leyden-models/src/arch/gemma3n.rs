//! Gemma 3n (Gemma Team, 2025), text model: AltUp, per-layer embeddings, shared keys and values, sparse activations.

use super::gemma3::blocks;
use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{AltUpConfig, Field, ModelConfig, Reader, Values, field};
use crate::error::Error;
use leyden_kernels::ops::{Activation, pow};
use std::f64::consts::{E, TAU};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "gemma3n",
    models: "Gemma 3n (text)",
    config,
    conversion: Conversion::None("GGUF has another layout for shared KV layers and per-layer embeddings"),
    own_keys: &[
        "activation_sparsity_pattern",
        "activation_sparsity_scale",
        "altup.active_idx",
        "altup.num_inputs",
        "altup_active_idx",
        "altup_coef_clip",
        "altup_correct_scale",
        "altup_num_inputs",
        "attention.shared_kv_layers",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "embedding_length_per_layer_input",
        "final_logit_softcapping",
        "hidden_activation",
        "hidden_size_per_layer_input",
        "laurel_rank",
        "num_kv_shared_layers",
        "vocab_size_per_layer_input",
    ],
    hf: &[HfClass {
        model_type: "gemma3n_text",
        classes: &["Gemma3nForCausalLM"],
        keys: &[("hidden_act", "hidden_activation")],
        defaults: &[
            ("altup_num_inputs", DEFAULT_STREAMS),
            ("head_dim", 256),
            ("hidden_size_per_layer_input", DEFAULT_PER_LAYER),
            ("num_key_value_heads", 2),
            ("num_kv_shared_layers", 15),
            ("sliding_window", 512),
        ],
        activations: &[("gelu_pytorch_tanh", Activation::GeluTanh)],
        biases: |config| config.refuse("attention_bias"),
        tied: true,
        tensors: TENSORS,
        ..DECODER
    }],
};

/// Tensor names: GGUF's, and the class's.
pub(super) const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embed_tokens"),
    ("per_layer_token_embd", "embed_tokens_per_layer"),
    ("per_layer_model_proj", "per_layer_model_projection"),
    ("per_layer_proj_norm", "per_layer_projection_norm"),
    ("altup_proj.0", "altup_projections.0"),
    ("altup_proj.1", "altup_projections.1"),
    ("altup_proj.2", "altup_projections.2"),
    ("altup_unembd_proj.0", "altup_unembed_projections.0"),
    ("altup_unembd_proj.1", "altup_unembed_projections.1"),
    ("altup_unembd_proj.2", "altup_unembed_projections.2"),
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
    ("inp_gate", "per_layer_input_gate"),
    ("proj", "per_layer_projection"),
    ("post_norm", "post_per_layer_input_norm"),
    ("altup_router", "altup.modality_router"),
    ("altup_router_norm", "altup.router_norm"),
    ("altup_predict_coef", "altup.prediction_coefs"),
    ("altup_correct_coef", "altup.correction_coefs"),
    ("altup_correct_scale.weight", "altup.correct_output_scale"),
    ("laurel_l", "laurel.linear_left"),
    ("laurel_r", "laurel.linear_right"),
    ("laurel_post_norm", "laurel.post_laurel_norm"),
];

const PER_LAYER: Field = field("embedding_length_per_layer_input", "hidden_size_per_layer_input");
const STREAMS: Field = field("altup.num_inputs", "altup_num_inputs");
const ACTIVE: Field = field("altup.active_idx", "altup_active_idx");
const SPARSITY: Field = field("activation_sparsity_scale", "activation_sparsity_pattern");

/// Defaults: period of full-attention layers, number of layers with their own keys and values, soft cap on logits,
/// AltUp streams, and dimension of per-layer embeddings.
const DEFAULT_PATTERN: usize = 5;
const DEFAULT_OWN_LAYERS: usize = 20;
const DEFAULT_LOGIT_CAP: f32 = 30.0;
const DEFAULT_STREAMS: u32 = 4;
const DEFAULT_PER_LAYER: u32 = 256;
/// Defaults of activation sparsity: number of first layers with it (in folders with more layers than these), and
/// fraction of values that are zero.
const DEFAULT_SPARSE_LAYERS: usize = 10;
const DEFAULT_SPARSITY: f64 = 0.95;
/// Maximum number of streams, as in the published models.
const MAX_STREAMS: usize = 4;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut config = blocks(r, DEFAULT_PATTERN)?;
    let layers = config.layers.len();
    let streams = r.opt_size(STREAMS)?.unwrap_or(DEFAULT_STREAMS as usize);
    if !(2..=MAX_STREAMS).contains(&streams) {
        return Err(r.invalid(STREAMS, format!("{streams} streams; supported are 2 to {MAX_STREAMS}")));
    }
    let active = r.opt_u32(ACTIVE)?.unwrap_or(0) as usize;
    if active >= streams {
        return Err(r.invalid(ACTIVE, format!("{active} is not one of {streams} streams")));
    }
    let scaled = match r {
        Reader::Gguf(..) => true,
        Reader::Hf(hf, _) => hf.json().opt_bool("altup_correct_scale")?.unwrap_or(true),
    };
    config.altup = Some(AltUpConfig { streams, active, scaled });
    config.per_layer_input = Some(r.opt_size(PER_LAYER)?.unwrap_or(DEFAULT_PER_LAYER as usize));
    config.logit_soft_cap = match r {
        // `null` in a folder means no cap.
        Reader::Hf(hf, _) if hf.json().object().contains_key("final_logit_softcapping") => {
            config.logit_soft_cap
        }
        _ => config.logit_soft_cap.or(Some(DEFAULT_LOGIT_CAP)),
    };
    let sparsity = sparsity(r, layers)?;
    let shared = r.shared_kv_layers(layers, layers.saturating_sub(DEFAULT_OWN_LAYERS))?;
    r.share_kv(
        config.each(|i, layer| {
            layer.attention_scale = 1.0;
            layer.values = Values::Normalised;
            layer.sparsity = sparsity[i];
        }),
        shared,
    )
}

/// Returns for each layer the threshold of its gate's values, in standard deviations above their mean.
fn sparsity(r: &Reader<'_>, layers: usize) -> Result<Vec<Option<f32>>, Error> {
    let key = r.key(SPARSITY).unwrap_or_default();
    let said = match r {
        Reader::Gguf(meta, _) => meta.opt_array_f32(&key)?,
        Reader::Hf(hf, _) => hf.json().opt_array_f32(&key)?,
    };
    let in_file = matches!(r, Reader::Gguf(..));
    let Some(said) = said else {
        let sparse = if in_file || layers > DEFAULT_SPARSE_LAYERS { DEFAULT_SPARSE_LAYERS } else { 0 };
        let usual = deviations(DEFAULT_SPARSITY) as f32;
        return Ok((0..layers).map(|i| (i < sparse).then_some(usual)).collect());
    };
    if said.len() != layers {
        return Err(r.invalid(SPARSITY, format!("{} numbers for {layers} layers", said.len())));
    }
    let of_layer = |&number: &f32| match in_file {
        // Minus infinity means no sparsity.
        true if number == f32::NEG_INFINITY => Ok(None),
        true if number.is_finite() => Ok(Some(number)),
        false if number == 0.0 => Ok(None),
        false if number > 0.0 && number < MAX_SPARSE => Ok(Some(deviations(f64::from(number)) as f32)),
        _ => Err(r.invalid(SPARSITY, format!("{number} is not supported"))),
    };
    said.iter().map(of_layer).collect()
}

/// Upper limit of the sparsity, exclusive.
const MAX_SPARSE: f32 = 0.9999;

/// Computes the quantile of the standard normal distribution by Newton's method on Simpson's rule. From zero it
/// converges from one side, as the distribution is concave there.
fn deviations(share: f64) -> f64 {
    if share < 0.5 {
        return -deviations(1.0 - share);
    }
    const STEPS: usize = 2000;
    let density = |x: f64| pow(E, -0.5 * x * x) / TAU.sqrt();
    let mut x = 0.0;
    for _ in 0..50 {
        let width = x / STEPS as f64;
        let weight = |i: usize| if i == 0 || i == STEPS { 1.0 } else { (2 + 2 * (i % 2)) as f64 };
        let below = (0..=STEPS).map(|i| weight(i) * density(width * i as f64)).sum::<f64>() * width / 3.0;
        let step = (share - 0.5 - below) / density(x);
        x += step;
        if step.abs() < 1e-12 {
            break;
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::deviations;
    use crate::arch::config_of_json;
    use leyden_tensor::Json;

    /// Reads a folder's configuration, or returns the error.
    fn read(model_type: &str, more: &str) -> Result<crate::ModelConfig, String> {
        let text = format!(
            r#"{{"model_type": "{model_type}", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128,
            "rms_norm_eps": 1e-6, {more}}}"#
        );
        let json = Json::parse(text.as_bytes(), "config.json").unwrap();
        config_of_json(&json).map_err(|e| e.to_string())
    }

    #[test]
    fn last_layers_attend_to_the_last_of_their_kind() {
        let kinds = r#""layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention",
            "sliding_attention", "full_attention"]"#;
        for model_type in ["gemma3n_text", "gemma4_text"] {
            let config = read(model_type, &format!(r#""num_kv_shared_layers": 2, {kinds}"#)).unwrap();
            let of: Vec<_> = config.layers.iter().map(|layer| layer.kv_of).collect();
            assert_eq!(of, [None, None, None, None, Some(3), Some(2)], "{model_type}");
            assert_eq!(config.last_of_own(), 3);
            let heads = config.kv_shape("m", leyden_kernels::attention::KvType::F32).unwrap();
            assert!(heads.layers[4..].iter().all(|layer| layer.heads == 0 && !layer.windowed));
        }
    }

    #[test]
    fn impossible_values_are_refused_by_name() {
        let shared = r#""num_kv_shared_layers": 0"#;
        for (model_type, more, wanted) in [
            ("gemma3n_text", r#""num_kv_shared_layers": 6"#, "num_kv_shared_layers: 6 of 6 layers"),
            (
                "gemma3n_text",
                r#""num_kv_shared_layers": 2"#,
                "num_kv_shared_layers: 2 layers, and before them none of the kind of layer 4",
            ),
            ("gemma3n_text", r#""altup_num_inputs": 5"#, "altup_num_inputs: 5 streams; supported are 2 to 4"),
            ("gemma3n_text", r#""altup_active_idx": 4"#, "altup_active_idx: 4 is not one of 4 streams"),
            (
                "gemma3n_text",
                r#""activation_sparsity_pattern": [0.95]"#,
                "activation_sparsity_pattern: 1 numbers for 6 layers",
            ),
            (
                "gemma3n_text",
                r#""activation_sparsity_pattern": [0.95, 0, 0, 0, 0, 1.0]"#,
                "activation_sparsity_pattern: 1 is not supported",
            ),
            ("gemma4_text", r#""global_head_dim": 520"#, "global_head_dim: heads of 520 values"),
            (
                "gemma4_text",
                r#""attention_k_eq_v": true, "num_global_key_value_heads": 3"#,
                "num_global_key_value_heads: 3 does not divide 4 heads",
            ),
            (
                "gemma4_text",
                r#""use_bidirectional_attention": "all""#,
                "use_bidirectional_attention: only `vision` is supported",
            ),
            (
                "gemma4_text",
                r#""rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1e6}}"#,
                "rope_parameters.full_attention.rope_type: is not supported; supported: default, proportional",
            ),
        ] {
            let more = if more.contains("shared") { more.to_owned() } else { format!("{shared}, {more}") };
            let error = read(model_type, &more).unwrap_err();
            assert!(error.starts_with(&format!("config.json: {wanted}")), "{error}");
        }
    }

    /// Quantiles of `NormalDist` in Python's module `statistics`.
    #[test]
    fn quantiles_of_the_normal_distribution() {
        for (share, wanted) in [
            (0.5, 0.0),
            (0.95, 1.644_853_626_951_471_5),
            (0.3, -0.524_400_512_708_040_7),
            (0.9998, 3.540_083_799_206_174),
        ] {
            let found = deviations(share);
            assert!((found - wanted).abs() < 1e-9, "{share}: {found} {wanted}");
        }
    }
}
