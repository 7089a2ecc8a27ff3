//! Architectures, each in one file and with a row in [`ARCHITECTURES`]: they read a [`ModelConfig`] from GGUF
//! metadata or `config.json`.

use crate::architecture::Architecture;
use crate::config::{HeadConfig, ModelConfig, Reader, check_gguf, check_hf, check_type};
use crate::conversion::Conversion;
use crate::error::Error;
use crate::hf_class::{ATTENTION, DECODER, EXPERTS, FFN, HfClass, attention_biases};
use leyden_tensor::{Json, Metadata};

mod bert;
mod bert_class;
mod cohere2;
mod command_r;
mod deberta;
mod deepseek2;
mod distilbert;
mod electra;
mod eurobert;
mod falcon;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma3n;
mod gemma4;
mod glm4;
mod glm4moe;
mod gpt2;
mod gptneox;
mod gptoss;
mod granite;
mod granitehybrid;
mod granitemoe;
mod gte;
mod jina;
mod lfm2;
mod llama;
mod mamba2;
mod mistral3;
mod modernbert;
mod mpnet;
mod nomic;
mod olmo2;
mod phi2;
mod phi3;
mod qwen2;
mod qwen2moe;
mod qwen3;
mod qwen35;
mod qwen3moe;
mod qwen3next;
mod smollm3;
mod stablelm;
mod starcoder2;

/// All supported architectures.
pub static ARCHITECTURES: &[Architecture] = &[
    llama::ARCHITECTURE,
    mistral3::ARCHITECTURE,
    phi2::ARCHITECTURE,
    phi3::ARCHITECTURE,
    qwen2::ARCHITECTURE,
    qwen2moe::ARCHITECTURE,
    qwen3::ARCHITECTURE,
    qwen3moe::ARCHITECTURE,
    gemma::ARCHITECTURE,
    gemma2::ARCHITECTURE,
    gemma3::ARCHITECTURE,
    gemma3n::ARCHITECTURE,
    gemma4::ARCHITECTURE,
    granite::ARCHITECTURE,
    granitemoe::ARCHITECTURE,
    granitehybrid::ARCHITECTURE,
    smollm3::ARCHITECTURE,
    olmo2::ARCHITECTURE,
    command_r::ARCHITECTURE,
    cohere2::ARCHITECTURE,
    glm4::ARCHITECTURE,
    starcoder2::ARCHITECTURE,
    stablelm::ARCHITECTURE,
    falcon::ARCHITECTURE,
    gpt2::ARCHITECTURE,
    gptneox::ARCHITECTURE,
    gptoss::ARCHITECTURE,
    deepseek2::ARCHITECTURE,
    lfm2::ARCHITECTURE,
    mamba2::ARCHITECTURE,
    qwen3next::ARCHITECTURE,
    qwen35::DENSE,
    qwen35::MIXTURE,
    glm4moe::ARCHITECTURE,
    // Before BERT, whose `model_type` its folders have.
    jina::ARCHITECTURE,
    bert::ARCHITECTURE,
    electra::ARCHITECTURE,
    mpnet::ARCHITECTURE,
    deberta::ARCHITECTURE,
    modernbert::ARCHITECTURE,
    nomic::ARCHITECTURE,
    gte::ARCHITECTURE,
    eurobert::ARCHITECTURE,
    gemma3::EMBEDDING,
];

/// Reads the configuration of the model that a `config.json` describes.
///
/// # Errors
/// The type of model is missing or not supported, or a size or option is missing, impossible or not supported; the
/// error names the key.
///
/// ```
/// use leyden_tensor::Json;
/// let text = br#"{"model_type": "warp", "hidden_size": 768}"#;
/// let error = leyden_models::config_of_json(&Json::parse(text, "config.json")?).unwrap_err();
/// assert!(error.to_string().starts_with("config.json: model_type: architecture `warp` is not supported"));
/// # Ok::<(), leyden_tensor::Error>(())
/// ```
pub fn config_of_json(json: &Json) -> Result<ModelConfig, Error> {
    hf_model(json).map(|(config, ..)| config)
}

/// Returns true if the output matrix of the model that a `config.json` describes is its embedding matrix.
///
/// # Errors
/// The type of model is missing or not supported, or the key is not a boolean.
pub fn ties_embeddings(json: &Json) -> Result<bool, Error> {
    let (_, class) = hf_class(json)?;
    Ok(json.opt_bool("tie_word_embeddings")?.unwrap_or(class.tied))
}

pub(crate) fn gguf_config(meta: &Metadata) -> Result<ModelConfig, Error> {
    check_type(meta)?;
    let key = "general.architecture";
    let name = meta.str(key)?;
    let known = || ARCHITECTURES.iter().map(|a| a.name).collect();
    let found = ARCHITECTURES.iter().find(|a| a.name == name);
    let arch = found.ok_or_else(|| Error::unknown_architecture(meta.file(), key, name, known()))?;
    let config = (arch.config)(&Reader::Gguf(meta, arch.name))?;
    let key = format!("{name}.attention.head_count_kv");
    if config.layers.iter().any(|layer| layer.kv_heads == 0 && layer.recurrent.is_none()) {
        return Err(Error::invalid(meta.file(), &key, "0 is not between 1 and 16777216"));
    }
    check_gguf(meta, &config, arch.own_keys)?;
    Ok(config)
}

/// Returns the architecture and class that a `config.json` names.
pub(crate) fn hf_class(json: &Json) -> Result<(&'static Architecture, &'static HfClass), Error> {
    let key = "model_type";
    let name = json.str(key)?;
    let mut classes = ARCHITECTURES.iter().flat_map(|a| a.hf.iter().map(move |class| (a, class)));
    let known = || ARCHITECTURES.iter().flat_map(Architecture::model_types).collect();
    let found = classes.find(|(_, class)| class.model_type == name && (class.when)(json));
    found.ok_or_else(|| Error::unknown_architecture(json.file(), key, name, known()))
}

/// Reads a `config.json`: the configuration, the class, and the GGUF names of matrices and norms with biases.
pub(crate) fn hf_model(json: &Json) -> Result<(ModelConfig, &'static HfClass, Vec<&'static str>), Error> {
    let (arch, class) = hf_class(json)?;
    let config = class.config(json);
    class.check(&config)?;
    let biases = (class.biases)(&config)?;
    let mut config = (arch.config)(&Reader::Hf(config, arch.name))?;
    // A headless body returns its hidden states.
    if config.generates() && class.is_body(&json.opt_array_str("architectures")?.unwrap_or_default()) {
        config.head = HeadConfig::States;
    }
    check_hf(json, &config, arch.own_keys)?;
    Ok((config, class, biases))
}

/// Returns the name in GGUF of a model's architecture, which differs from the architecture's for some models.
pub(crate) fn name_in_gguf(arch: &'static Architecture, config: &ModelConfig) -> &'static str {
    match arch.name == gemma3::ARCHITECTURE.name && config.needs_whole_texts() {
        true => gemma3::EMBEDDING.name,
        false => arch.name,
    }
}
