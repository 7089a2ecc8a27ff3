//! Llama (Touvron et al., 2023) and what shares its computation.

use super::{ATTENTION, Architecture, DECODER, FFN, HfClass};
use crate::config::{EXPERTS, HfConfig, ModelConfig, Reader};
use crate::error::Error;
use leyden_kernels::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture = Architecture {
    name: "llama",
    models: "Llama 1 to 3.x, Mistral 7B, DeepSeek-R1-Distill-Llama, Dolphin, TinyLlama, SmolLM",
    config,
    own_keys: &[],
    hf: &[
        HfClass { model_type: "llama", classes: &["LlamaForCausalLM"], biases: llama_biases, ..DECODER },
        HfClass {
            model_type: "mistral",
            classes: &["MistralForCausalLM"],
            biases: mistral_biases,
            ..DECODER
        },
    ],
};

fn config(r: &Reader<'_>) -> Result<ModelConfig, Error> {
    if let Some(n) = r.opt_u32(EXPERTS)?
        && n > 0
    {
        return Err(r.invalid(EXPERTS, format!("{n} experts: mixtures of experts are not supported yet")));
    }
    r.decoder(match r {
        // GGUF conversion reorders the rows of query and key weights so that pairs are neighbours.
        Reader::Gguf(..) => RopePairs::Interleaved,
        Reader::Hf(..) => RopePairs::Halves,
    })
}

fn llama_biases(config: &HfConfig<'_>) -> Result<Vec<&'static str>, Error> {
    let mut biases = Vec::new();
    if config.flag("attention_bias")? {
        biases.extend(ATTENTION);
    }
    if config.flag("mlp_bias")? {
        biases.extend(FFN);
    }
    Ok(biases)
}

/// The window of a configuration that does not say: the class's default, that of Mistral 7B v0.1.
const DEFAULT_WINDOW: usize = 4096;

fn mistral_biases(config: &HfConfig<'_>) -> Result<Vec<&'static str>, Error> {
    let key = "sliding_window";
    let window = match config.json().object().contains_key(key) {
        true => config.opt_size(key)?,
        false => Some(DEFAULT_WINDOW),
    };
    if let Some(size) = window {
        config.refuse_window(key, size)?;
    }
    Ok(Vec::new())
}
