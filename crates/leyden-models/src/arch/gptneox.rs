//! GPT-NeoX (Black et al., 2022): parallel attention and feed-forward layer, each with its own norm; RoPE on a part
//! of each head; biases everywhere.

use super::{ATTENTION, Architecture, Conversion, DECODER, HfClass};
use crate::config::{Field, ModelConfig, NormKind, NormPlacement, Reader, field};
use crate::error::Error;
use crate::stored::{QkvRows, Stored};
use leyden_kernels::ops::{Activation, RopePairs};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "gptneox",
    models: "GPT-NeoX, Pythia, Dolly, StableLM-Alpha",
    config,
    conversion: Conversion::Both,
    own_keys: &[
        "attention.layer_norm_epsilon",
        "use_parallel_residual",
        "layer_norm_eps",
        "rotary_pct",
        "rotary_emb_base",
    ],
    hf: &[HfClass {
        model_type: "gpt_neox",
        classes: &["GPTNeoXForCausalLM"],
        keys: &[("partial_rotary_factor", "rotary_pct"), ("rope_theta", "rotary_emb_base")],
        activations: &[
            ("gelu", Activation::Gelu),
            ("gelu_new", Activation::GeluTanh),
            ("gelu_fast", Activation::GeluTanh),
            ("gelu_pytorch_tanh", Activation::GeluTanh),
        ],
        biases: |config| {
            let mut biases = BIASES.to_vec();
            if config.json().opt_bool("attention_bias")?.unwrap_or(true) {
                biases.extend(ATTENTION);
                biases.push("attn_qkv");
            }
            Ok(biases)
        },
        prefix: "gpt_neox.",
        tensors: TENSORS,
        head: &[("output", "embed_out")],
        stored: Stored { qkv: QkvRows::Grouped, ..Stored::AS_GGUF },
        // The causal mask.
        unused: &["attention.bias", "attention.masked_bias"],
        ..DECODER
    }],
};

const BIASES: [&str; 5] = ["attn_norm", "ffn_norm", "output_norm", "ffn_up", "ffn_down"];

/// Tensor names: GGUF's, and the class's.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embed_in"),
    ("output_norm", "final_layer_norm"),
    ("attn_norm", "input_layernorm"),
    ("attn_qkv", "attention.query_key_value"),
    ("attn_output", "attention.dense"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_up", "mlp.dense_h_to_4h"),
    ("ffn_down", "mlp.dense_4h_to_h"),
];

const PARALLEL: Field = field("use_parallel_residual", "use_parallel_residual");

/// Default fraction of a head's dimensions that is rotated, in a folder.
const DEFAULT_SHARE: f32 = 0.25;

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let reader = r.with_partial_rotation(DEFAULT_SHARE);
    let config = reader.layer_norm_decoder(NormKind::Layer, Some(RopePairs::Halves), 0)?;
    let activation = r.activation(Activation::Gelu)?;
    let placement = match r.opt_bool(PARALLEL)?.unwrap_or(true) {
        true => NormPlacement::Parallel,
        false => NormPlacement::Pre,
    };
    Ok(config.each(|_, layer| {
        layer.norms = placement;
        layer.gated = false;
        layer.activation = activation;
    }))
}
