//! Architectures: how each one's description becomes a [`ModelConfig`]. One file each, one line in the table.

use crate::config::{HfConfig, ModelConfig, Reader, check_gguf, check_hf};
use crate::error::Error;
use crate::load::Stored;
use leyden_kernels::ops::Activation;
use leyden_tensor::{Json, Metadata, WeightSource};

mod bert;
mod gemma2;
mod gemma3;
mod gptneox;
mod llama;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3moe;

/// One supported architecture.
#[derive(Debug)]
pub struct Architecture {
    /// The value of `general.architecture`, which is also the prefix of its keys.
    pub name: &'static str,
    /// Models of this architecture, for people.
    pub models: &'static str,
    config: fn(&Reader<'_>) -> Result<ModelConfig, Error>,
    /// Keys of either dialect that it reads and the others do not.
    own_keys: &'static [&'static str],
    hf: &'static [HfClass],
}

/// A class of Hugging Face's libraries that computes the same.
#[derive(Debug)]
pub(crate) struct HfClass {
    /// The value of `model_type`.
    model_type: &'static str,
    /// The classes that are computed, as in `architectures`: of a decoder the one with a language model's head.
    classes: &'static [&'static str],
    /// Keys of `config.json` that have another name than most classes give them: the usual one, and theirs.
    keys: &'static [(&'static str, &'static str)],
    /// The functions that the feed-forward layer may have, by name; the first where nothing is said.
    activations: &'static [(&'static str, Activation)],
    /// Refuses options that change the result, and gives the matrices and norms that have biases.
    biases: fn(&HfConfig<'_>) -> Result<Vec<&'static str>, Error>,
    /// What the names of all tensors but the head's begin with, unless the model was saved without a head.
    pub(crate) prefix: &'static str,
    /// What those of a layer go on with, before its number.
    pub(crate) layers: &'static str,
    /// Names of its tensors behind the prefix, those of a layer without its number: GGUF's name, theirs.
    pub(crate) tensors: &'static [(&'static str, &'static str)],
    /// Names of the tensors that the prefix is not before: those of a head. They come first where both have one.
    pub(crate) head: &'static [(&'static str, &'static str)],
    /// How its matrices lie.
    stored: Stored,
    /// What the names of tensors begin with, behind the prefix, that may be there and are not needed.
    pub(crate) unused: &'static [&'static str],
}

/// What nearly all decoders have in common.
const DECODER: HfClass = HfClass {
    model_type: "",
    classes: &[],
    keys: &[],
    activations: &[("silu", Activation::Silu), ("swish", Activation::Silu)],
    biases: |_| Ok(Vec::new()),
    prefix: "model.",
    layers: "layers",
    tensors: DECODER_TENSORS,
    head: &[("output", "lm_head")],
    stored: Stored::AS_GGUF,
    unused: &[],
};

/// Every supported architecture.
pub static ARCHITECTURES: &[Architecture] = &[
    llama::ARCHITECTURE,
    phi3::ARCHITECTURE,
    qwen2::ARCHITECTURE,
    qwen3::ARCHITECTURE,
    qwen3moe::ARCHITECTURE,
    gemma2::ARCHITECTURE,
    gemma3::ARCHITECTURE,
    gptneox::ARCHITECTURE,
    bert::ARCHITECTURE,
];

impl Architecture {
    /// The values of `model_type` in a `config.json` that this architecture computes.
    pub fn model_types(&self) -> impl Iterator<Item = &'static str> {
        self.hf.iter().map(|class| class.model_type)
    }
}

/// The names that nearly all decoders of Hugging Face's libraries give their tensors: GGUF's name, theirs.
const DECODER_TENSORS: &[(&str, &str)] = &[
    ("token_embd", "embed_tokens"),
    ("output_norm", "norm"),
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// The matrices of attention and those of the feed-forward layer, for flags that give all of them biases.
const ATTENTION: [&str; 4] = ["attn_q", "attn_k", "attn_v", "attn_output"];
const FFN: [&str; 3] = ["ffn_gate", "ffn_up", "ffn_down"];

/// The configuration of the model that a source describes.
///
/// # Errors
/// The architecture is missing or not supported, or a size is missing, impossible or not supported; the error
/// names the key.
pub fn config_of(source: &dyn WeightSource) -> Result<ModelConfig, Error> {
    match source.config_json() {
        Some(json) => config_of_json(json),
        None => gguf_config(source.metadata()),
    }
}

/// The configuration of the model that a `config.json` describes.
///
/// # Errors
/// The type of model is missing or not supported, or a size or option is missing, impossible or not supported; the
/// error names the key.
///
/// ```
/// use leyden_tensor::Json;
/// let text = br#"{"model_type": "gpt2", "n_embd": 768}"#;
/// let error = leyden_models::config_of_json(&Json::parse(text, "config.json")?).unwrap_err();
/// assert!(error.to_string().starts_with("config.json: model_type: architecture `gpt2` is not supported"));
/// # Ok::<(), leyden_tensor::Error>(())
/// ```
pub fn config_of_json(json: &Json) -> Result<ModelConfig, Error> {
    hf_model(json).map(|(config, ..)| config)
}

/// How the matrices of a source lie.
///
/// # Errors
/// As [`config_of`].
pub(crate) fn stored_as(source: &dyn WeightSource) -> Result<Stored, Error> {
    match source.config_json() {
        Some(json) => hf_class(json).map(|(_, class)| class.stored),
        None => Ok(Stored::AS_GGUF),
    }
}

fn gguf_config(meta: &Metadata) -> Result<ModelConfig, Error> {
    check_type(meta)?;
    let key = "general.architecture";
    let name = meta.str(key)?;
    let known = || ARCHITECTURES.iter().map(|a| a.name).collect();
    let found = ARCHITECTURES.iter().find(|a| a.name == name);
    let arch = found.ok_or_else(|| Error::unknown_architecture(meta.file(), key, name, known()))?;
    let config = (arch.config)(&Reader::Gguf(meta, arch.name))?;
    check_gguf(meta, &config, arch.own_keys)?;
    Ok(config)
}

/// Refuses files that have a model's architecture and are something else.
fn check_type(meta: &Metadata) -> Result<(), Error> {
    /// The value of the key, what it is, and what to do.
    const OTHERS: [(&str, &str); 3] = [
        ("adapter", "an adapter of a model (LoRA), not a model; merge it into its model first"),
        ("mmproj", "the projector of images or sound for a model, not a model; name the model's file"),
        ("imatrix", "the importance matrix of a model, not a model; name the model's file"),
    ];
    let key = "general.type";
    let found = meta.opt_str(key)?.and_then(|name| OTHERS.iter().find(|row| row.0 == name));
    match found {
        Some((name, what)) => Err(Error::invalid(meta.file(), key, format!("`{name}` is {what}"))),
        None => Ok(()),
    }
}

/// The architecture and class that a `config.json` names.
fn hf_class(json: &Json) -> Result<(&'static Architecture, &'static HfClass), Error> {
    let key = "model_type";
    let name = json.str(key)?;
    let mut classes = ARCHITECTURES.iter().flat_map(|a| a.hf.iter().map(move |class| (a, class)));
    let known = || ARCHITECTURES.iter().flat_map(Architecture::model_types).collect();
    let found = classes.find(|(_, class)| class.model_type == name);
    found.ok_or_else(|| Error::unknown_architecture(json.file(), key, name, known()))
}

/// What a `config.json` describes: the configuration, the class, and which matrices have biases.
pub(crate) fn hf_model(json: &Json) -> Result<(ModelConfig, &'static HfClass, Vec<&'static str>), Error> {
    let (arch, class) = hf_class(json)?;
    let config = HfConfig::new(json, class.keys, class.activations);
    config.check(class.classes)?;
    let biases = (class.biases)(&config)?;
    let config = (arch.config)(&Reader::Hf(config, arch.name))?;
    check_hf(json, &config, arch.own_keys)?;
    Ok((config, class, biases))
}
