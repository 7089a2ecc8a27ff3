//! [`Description`]: facts about a model beside its tensors, for all formats.

use serde::Serialize;
use serde_json::{Map, Value};

/// Maximum length of an array that is shown whole; vocabularies have hundreds of thousands of entries.
pub(super) const SHORT_ARRAY: usize = 16;

#[derive(Debug, Serialize)]
pub(super) struct Format {
    pub(super) name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<u32>,
}

/// Description of a model without its tensors.
#[derive(Debug)]
pub(super) struct Description {
    /// True if leyden supports the model, apart from the types of its tensors.
    pub(super) supported: Option<bool>,
    pub(super) format: Format,
    pub(super) architecture: Option<String>,
    pub(super) name: Option<String>,
    pub(super) context_length: Option<u32>,
    pub(super) labels: Option<String>,
    pub(super) hyperparameters: Map<String, Value>,
    pub(super) tokenizer: Option<TokenizerReport>,
    pub(super) metadata: Map<String, Value>,
    pub(super) problems: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct TokenizerReport {
    pub(super) model: String,
    pub(super) pre_tokenizer: Option<String>,
    pub(super) vocabulary: usize,
    /// True if leyden supports the tokenizer.
    pub(super) supported: bool,
    pub(super) bos: Option<Token>,
    pub(super) eos: Option<Token>,
    /// True if the token is added to texts; from the file if the tokenizer is not supported.
    pub(super) add_bos: Option<bool>,
    pub(super) add_eos: Option<bool>,
    pub(super) chat_template_bytes: Option<usize>,
}

#[derive(Debug, Serialize)]
pub(super) struct Token {
    pub(super) id: u32,
    pub(super) text: String,
}
