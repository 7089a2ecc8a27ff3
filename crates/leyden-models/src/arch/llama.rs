//! Llama (Touvron et al., 2023) and models with the same computation: Mistral, and Mixtral, whose feed-forward layers
//! are mixtures of experts of that width.

use super::{ATTENTION, Architecture, Conversion, DECODER, FFN, HfClass};
use crate::config::{self, EXPERTS, Field, HfConfig, ModelConfig, Reader, field};
use crate::error::Error;
use crate::hf_class::MIXTRAL_EXPERTS;
use leyden_kernels::attention::Mask;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "llama",
    models: "Llama 1 to 3.x, Mistral 7B, Ministral 8B, Mistral Nemo, Mixtral, Falcon 3, DeepSeek-R1-Distill-Llama, Dolphin, TinyLlama, SmolLM",
    config,
    conversion: Conversion::Both,
    own_keys: &[],
    hf: &[
        HfClass {
            model_type: "llama",
            classes: &["LlamaForCausalLM"],
            biases: llama_biases,
            interleaved: true,
            ..DECODER
        },
        HfClass {
            model_type: MISTRAL,
            classes: &["MistralForCausalLM"],
            defaults: &[("num_key_value_heads", 8), ("sliding_window", DEFAULT_WINDOW)],
            interleaved: true,
            ..DECODER
        },
        HfClass {
            model_type: MINISTRAL,
            classes: &["MinistralForCausalLM"],
            defaults: &[("num_key_value_heads", 8), ("sliding_window", DEFAULT_WINDOW)],
            interleaved: true,
            ..DECODER
        },
        HfClass {
            model_type: MIXTRAL,
            classes: &["MixtralForCausalLM"],
            keys: &[("num_experts", "num_local_experts")],
            aliases: &[("num_experts", "num_experts")],
            stacks: MIXTRAL_EXPERTS,
            interleaved: true,
            written: &[("ffn_gate_inp", "block_sparse_moe.gate")],
            ..DECODER
        },
    ],
};

const MISTRAL: &str = "mistral";
const MIXTRAL: &str = "mixtral";
/// Mistral's class with different types of layers.
const MINISTRAL: &str = "ministral";

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    let pairs = match r {
        // Conversion to GGUF reorders the rows of Q and K so that RoPE pairs are adjacent.
        Reader::Gguf(..) => RopePairs::Interleaved,
        Reader::Hf(..) => RopePairs::Halves,
    };
    let config = match r.opt_u32(EXPERTS)? {
        None | Some(0) => r.decoder(pairs)?,
        Some(_) => r.mixture(pairs, r.experts(true)?, r.size(config::FFN)?)?,
    };
    let windows = match r {
        Reader::Hf(json, _) => match json.json().str("model_type")? {
            MISTRAL | MIXTRAL => r.opt_size(WINDOW)?.map(|size| (size, None)),
            MINISTRAL => match (r.opt_size(WINDOW)?, json.full_layers(config.layers.len())?) {
                (Some(size), full) => Some((size, full)),
                (None, _) => None,
            },
            _ => None,
        },
        Reader::Gguf(..) => None,
    };
    Ok(match windows {
        None => config,
        Some((size, full)) => config.each(|i, layer| {
            if !full.as_ref().is_some_and(|full| full[i]) {
                layer.mask = Mask::Window(size);
            }
        }),
    })
}

pub(super) fn llama_biases(config: &HfConfig<'_>) -> Result<Vec<&'static str>, Error> {
    let mut biases = Vec::new();
    if config.flag("attention_bias")? {
        biases.extend(ATTENTION);
    }
    if config.flag("mlp_bias")? {
        biases.extend(FFN);
    }
    Ok(biases)
}

/// Default sliding window of Mistral's classes: that of Mistral 7B v0.1.
const DEFAULT_WINDOW: u32 = 4096;
const WINDOW: Field = field("", "sliding_window");
