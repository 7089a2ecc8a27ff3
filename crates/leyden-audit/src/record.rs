//! [`Record`]: the facts of one request or row.

use crate::content::{Content, Sealed};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Part of a request that a record describes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The whole request.
    #[default]
    Whole,
    /// The beginning of a stream; a record of its end follows.
    Start,
    /// The end of a stream.
    End,
}

/// Sender of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Id of the API key, never the key itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Name of the key, or of the user who ran a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// LoRA adapter that was applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdapterFacts {
    /// Name.
    pub name: String,
    /// SHA-256 of its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Scale.
    pub scale: f32,
}

/// Model that computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// Name in the request or on the command line.
    pub name: String,
    /// SHA-256 of its file, or of the list of its files, as `leyden_hub::sha256_of_files` computes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// SHA-256 of its chat template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_sha256: Option<String>,
    /// Adapters that were applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adapters: Vec<AdapterFacts>,
}

/// Facts of one request of a server or one row of a batch. All but `id` and `task` may be unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Id of the request, or number of the row.
    pub id: String,
    /// Part of the request.
    #[serde(default)]
    pub phase: Phase,
    /// Route of the server, or name of the task.
    pub task: String,
    /// Sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<Caller>,
    /// Model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelFacts>,
    /// Settings of the computation, such as those of sampling.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
    /// Seed of the first choice that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Tokens of the prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Tokens that were generated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// Reason of the end: `stop`, `length`, `error`, `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<String>,
    /// Status of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Code of the error, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// SHA-256 of the input: the body of a request, or the row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_sha256: Option<String>,
    /// SHA-256 of the token ids of the prompts ([`Digest`](crate::Digest)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_sha256: Option<String>,
    /// SHA-256 of the output as it was sent or written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_sha256: Option<String>,
    /// SHA-256 of the computed values ([`Digest`](crate::Digest)), without ids and times of the response: equal if the
    /// same is computed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_sha256: Option<String>,
    /// Other facts.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub other: Map<String, Value>,
    /// Encrypted content, as read from a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<Sealed>,
    /// Content to be written. It is encrypted to the log's recipient; without one it is left out.
    #[serde(skip)]
    pub content: Option<Content>,
}

impl Record {
    /// Returns the text that binds encrypted content to its record in a log.
    pub(crate) fn place(&self, log: &str) -> String {
        format!("{log}\n{:?}\n{}", self.phase, self.id)
    }
}
