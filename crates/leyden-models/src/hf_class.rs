//! Classes of Hugging Face's libraries: what their `config.json` and their tensors are like.

use crate::config::HfConfig;
use crate::error::Error;
use crate::load::Stored;
use leyden_kernels::ops::Activation;

/// A class of Hugging Face's libraries that computes the same.
#[derive(Debug)]
pub(crate) struct HfClass {
    /// The value of `model_type`.
    pub(crate) model_type: &'static str,
    /// The classes that are computed, as in `architectures`: of a decoder the one with a language model's head.
    pub(crate) classes: &'static [&'static str],
    /// Keys of `config.json` that have another name than most classes give them: the usual one, and theirs.
    pub(crate) keys: &'static [(&'static str, &'static str)],
    /// Numbers that the class takes where a key is missing, if there is one for that: the usual name of the key.
    pub(crate) defaults: &'static [(&'static str, u32)],
    /// Whether the head is the embedding where nothing is said.
    pub(crate) tied: bool,
    /// The functions that the feed-forward layer may have, by name; the first where nothing is said.
    pub(crate) activations: &'static [(&'static str, Activation)],
    /// Refuses options that change the result, and gives the matrices and norms that have biases.
    pub(crate) biases: fn(&HfConfig<'_>) -> Result<Vec<&'static str>, Error>,
    /// What the names of all tensors but the head's begin with, unless the model was saved without a head.
    pub(crate) prefix: &'static str,
    /// What those of a layer go on with, before its number.
    pub(crate) layers: &'static str,
    /// Names of its tensors behind the prefix, those of a layer without its number: GGUF's name, theirs. Of rows
    /// with the same name the first counts that a checkpoint has.
    pub(crate) tensors: &'static [(&'static str, &'static str)],
    /// Names of the tensors that the prefix is not before: those of a head. They come first where both have one.
    pub(crate) head: &'static [(&'static str, &'static str)],
    /// How its matrices lie.
    pub(crate) stored: Stored,
    /// What the names of tensors begin with, behind the prefix, that may be there and are not needed.
    pub(crate) unused: &'static [&'static str],
}

/// What nearly all decoders have in common.
pub(crate) const DECODER: HfClass = HfClass {
    model_type: "",
    classes: &[],
    keys: &[],
    defaults: &[],
    tied: false,
    activations: &[("silu", Activation::Silu), ("swish", Activation::Silu)],
    biases: |_| Ok(Vec::new()),
    prefix: "model.",
    layers: "layers",
    tensors: DECODER_TENSORS,
    head: &[("output", "lm_head")],
    stored: Stored::AS_GGUF,
    unused: &[],
};

/// The names that nearly all decoders of Hugging Face's libraries give their tensors: GGUF's name, theirs.
pub(crate) const DECODER_TENSORS: &[(&str, &str)] = &[
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
pub(crate) const ATTENTION: [&str; 4] = ["attn_q", "attn_k", "attn_v", "attn_output"];
pub(crate) const FFN: [&str; 3] = ["ffn_gate", "ffn_up", "ffn_down"];
