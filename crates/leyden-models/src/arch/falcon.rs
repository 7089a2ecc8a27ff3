//! Falcon (TII, 2023): parallel attention and feed-forward layer, with one norm, or in the larger models one each;
//! few KV heads.

use super::{Architecture, Conversion, DECODER, HfClass};
use crate::config::{ModelConfig, NormKind, NormPlacement, Reader};
use crate::error::Error;
use crate::stored::{QkvRows, Stored};
use leyden_kernels::ops::{Activation, RopePairs};

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "falcon",
    models: "Falcon 7B, 40B and 11B",
    config,
    conversion: Conversion::Both,
    own_keys: &["attention.layer_norm_epsilon", "layer_norm_epsilon", "parallel_attn"],
    hf: &[HfClass {
        model_type: "falcon",
        classes: &["FalconForCausalLM"],
        keys: &[
            ("hidden_act", "activation"),
            ("intermediate_size", "ffn_hidden_size"),
            ("layer_norm_eps", "layer_norm_epsilon"),
            ("num_key_value_heads", "num_kv_heads"),
        ],
        defaults: &[("max_position_embeddings", 2048)],
        tied: true,
        activations: &[("gelu", Activation::Gelu)],
        biases: |config| {
            let mut biases = vec!["attn_norm", "attn_norm_2", "ffn_norm", "output_norm"];
            if config.flag("bias")? {
                biases.extend(["attn_qkv", "attn_output", "ffn_up", "ffn_down"]);
            }
            Ok(biases)
        },
        prefix: "transformer.",
        layers: "h",
        tensors: TENSORS,
        stored: Stored { qkv: QkvRows::Grouped, ..Stored::AS_GGUF },
        ..DECODER
    }],
};

/// Tensor names: GGUF's, and the class's. If each half has a norm, GGUF's name of attention's is `attn_norm_2`.
const TENSORS: &[(&str, &str)] = &[
    ("token_embd", "word_embeddings"),
    ("output_norm", "ln_f"),
    ("attn_norm", "input_layernorm"),
    ("attn_norm", "ln_mlp"),
    ("attn_norm_2", "ln_attn"),
    ("attn_qkv", "self_attention.query_key_value"),
    ("attn_output", "self_attention.dense"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_up", "mlp.dense_h_to_4h"),
    ("ffn_down", "mlp.dense_4h_to_h"),
];

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let mut placement = NormPlacement::Parallel;
    let mut one_head = false;
    if let Reader::Hf(config, _) = r {
        let json = config.json();
        let new = config.flag("new_decoder_architecture")?;
        one_head = !new && json.opt_bool("multi_query")?.unwrap_or(true);
        if !new && !json.opt_bool("parallel_attn")?.unwrap_or(true) {
            placement = NormPlacement::Pre;
        }
    }
    let config = r.layer_norm_decoder(NormKind::Layer, Some(RopePairs::Halves), 4)?;
    let activation = r.activation(Activation::Gelu)?;
    Ok(config.each(|_, layer| {
        layer.norms = placement;
        layer.gated = false;
        layer.activation = activation;
        if one_head {
            layer.kv_heads = 1;
        }
    }))
}
