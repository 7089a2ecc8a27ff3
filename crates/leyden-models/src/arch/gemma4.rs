//! Gemma 4 (Gemma Team, 2026), text model, dense and as a mixture: sliding-window and full-attention layers have
//! different head dimensions; values are normalised, and in some models computed from keys. In some models, the last
//! layers share keys and values, and layers have per-layer embeddings. Experts are parallel to a dense feed-forward
//! layer.

use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{
    EXPERTS, FFN, Field, ModelConfig, NORM_EPS, NormPlacement, QkNorm, Reader, Values, field,
};
use crate::error::Error;
use crate::hf_class::Stack;
use leyden_kernels::attention::Mask;
use leyden_kernels::ops::Activation;
use leyden_tensor::StackRows;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "gemma4",
    models: "Gemma 4 (text)",
    config,
    conversion: Conversion::None("GGUF has another layout for shared KV layers and per-layer embeddings"),
    own_keys: &[
        "attention.key_length_swa",
        "attention.shared_kv_layers",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        "attention.value_length_swa",
        "attention_k_eq_v",
        "embedding_length_per_layer_input",
        "enable_moe_block",
        "expert_weights_norm",
        "final_logit_softcapping",
        "global_head_dim",
        "hidden_activation",
        "hidden_size_per_layer_input",
        "num_global_key_value_heads",
        "num_kv_shared_layers",
        "per_layer_config",
        "rope.dimension_count_swa",
        "rope.freq_base_swa",
        "top_k_experts",
        "use_bidirectional_attention",
        "use_double_wide_mlp",
        "vocab_size_per_layer_input",
    ],
    hf: &[HfClass {
        model_type: "gemma4_text",
        classes: &["Gemma4ForCausalLM"],
        keys: &[("hidden_act", "hidden_activation"), ("num_experts_per_tok", "top_k_experts")],
        defaults: &[
            ("head_dim", 256),
            ("hidden_size_per_layer_input", 256),
            ("num_key_value_heads", 4),
            ("sliding_window", 512),
        ],
        activations: &[("gelu_pytorch_tanh", Activation::GeluTanh)],
        biases: |config| config.refuse("attention_bias"),
        tied: true,
        tensors: TENSORS,
        stacks: STACKS,
        ..DECODER
    }],
};

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embed_tokens"),
    ("per_layer_token_embd", "embed_tokens_per_layer"),
    ("per_layer_model_proj", "per_layer_model_projection"),
    ("per_layer_proj_norm", "per_layer_projection_norm"),
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
    ("post_ffw_norm_1", "post_feedforward_layernorm_1"),
    ("post_ffw_norm_2", "post_feedforward_layernorm_2"),
    ("pre_ffw_norm_2", "pre_feedforward_layernorm_2"),
    ("ffn_gate_inp", "router.proj"),
    ("ffn_gate_inp.scale", "router.scale"),
    ("ffn_down_exps.scale", "router.per_expert_scale"),
    ("inp_gate", "per_layer_input_gate"),
    ("proj", "per_layer_projection"),
    ("post_norm", "post_per_layer_input_norm"),
    ("layer_output_scale.weight", "layer_scalar"),
];

const STACKS: &[(&str, Stack)] = &[
    ("ffn_gate_exps.weight", Stack::Rows("experts.gate_up_proj", StackRows::First)),
    ("ffn_up_exps.weight", Stack::Rows("experts.gate_up_proj", StackRows::Second)),
    ("ffn_down_exps.weight", Stack::Rows("experts.down_proj", StackRows::All)),
];

const PER_LAYER: Field = field("embedding_length_per_layer_input", "hidden_size_per_layer_input");
const WINDOW: Field = field("attention.sliding_window", "sliding_window");
const WINDOWED_DIM: Field = field("attention.key_length_swa", "head_dim");
const FULL_DIM: Field = field("attention.key_length", "global_head_dim");
const FULL_KV_HEADS: Field = field("", "num_global_key_value_heads");
const LOGIT_SOFT_CAP: Field = field("final_logit_softcapping", "final_logit_softcapping");

/// Defaults.
const DEFAULT_PATTERN: usize = 6;
const DEFAULT_FULL_DIM: usize = 512;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut ffn = r.each_layer(FFN)?;
    let layers = ffn.len();
    let mut windowed = r.windowed(layers, DEFAULT_PATTERN)?;
    let shared = r.shared_kv_layers(layers, 0)?;
    let (mut of_keys, mut mixed, mut full_kv_heads) =
        (true, r.opt_u32(EXPERTS)?.is_some_and(|n| n > 0), None);
    let mut full_dim = r.opt_size(FULL_DIM)?;
    if let Reader::Hf(hf, _) = r {
        windowed[layers - 1] = false;
        of_keys = hf.flag("attention_k_eq_v")?;
        mixed = hf.flag("enable_moe_block")?;
        if hf.flag("use_double_wide_mlp")? {
            ffn[layers - shared..].iter_mut().for_each(|ffn| *ffn *= 2);
        }
        match hf.json().opt_str("use_bidirectional_attention")? {
            // For images only.
            None | Some("vision") => {}
            Some(_) => return Err(hf.invalid("use_bidirectional_attention", "only `vision` is supported")),
        }
        full_kv_heads = r.opt_size(FULL_KV_HEADS)?.filter(|_| of_keys);
        if let Some(first) = windowed.iter().position(|windowed| !windowed) {
            let of_layer = |key: &str| hf.opt_size(&format!("per_layer_config.{first}.{key}"));
            full_dim = full_dim.or(of_layer("head_dim")?);
            full_kv_heads = full_kv_heads.or(of_layer("num_key_value_heads")?);
        }
    }
    let full_dim = full_dim.unwrap_or(DEFAULT_FULL_DIM);
    let windowed_dim = r.opt_size(WINDOWED_DIM)?.unwrap_or(full_dim);
    r.check_head_size(FULL_DIM, full_dim)?;
    r.check_head_size(WINDOWED_DIM, windowed_dim)?;
    let experts = match mixed {
        true => Some(r.experts(true)?),
        false => None,
    };
    let experts = experts.map(|e| Ok::<_, Error>((e, r.expert_ffn(e.used)?))).transpose()?;
    let window = Mask::Window(r.size(WINDOW)?);
    let rope = [r.full_rope(full_dim)?, r.windowed_rope(windowed_dim)?];
    let most = full_dim.max(windowed_dim);
    let mut config = r.blocks(None, r.norm_eps(NORM_EPS)?, &ffn, Some((most, most)))?;
    if let Some(full) = full_kv_heads.filter(|n| !config.layers[0].heads.is_multiple_of(*n)) {
        return Err(
            r.invalid(FULL_KV_HEADS, format!("{full} does not divide {} heads", config.layers[0].heads))
        );
    }
    config.embedding_scale = (config.width as f32).sqrt();
    config.logit_soft_cap = r.opt_positive(LOGIT_SOFT_CAP)?;
    config.per_layer_input = match r.opt_u32(PER_LAYER)? {
        None | Some(0) => None,
        Some(_) => Some(r.size(PER_LAYER)?),
    };
    r.share_kv(
        config.each(|i, layer| {
            let dim = if windowed[i] { windowed_dim } else { full_dim };
            (layer.head_dim, layer.value_dim) = (dim, dim);
            layer.attention_scale = 1.0;
            layer.rope = Some(rope[usize::from(windowed[i])].clone());
            layer.values = Values::Normalised;
            layer.qk_norm = QkNorm::Head;
            layer.norms = NormPlacement::Sandwich;
            layer.activation = Activation::GeluTanh;
            layer.output_scale = true;
            if windowed[i] {
                layer.mask = window;
            } else {
                layer.kv_heads = full_kv_heads.unwrap_or(layer.kv_heads);
                if of_keys {
                    layer.values = Values::Keys;
                }
            }
            if let Some((experts, width)) = experts {
                layer.dense = Some(layer.ffn);
                (layer.ffn, layer.experts) = (width, Some(experts));
            }
        }),
        shared,
    )
}
