//! [`Model`]: a loaded model and the options for serving it.

use crate::adapters::ServedAdapter;
use crate::calibrated::Calibrated;
use crate::defaults::Defaults;
use crate::fingerprint::Fingerprint;
use crate::worker_options::WorkerOptions;
use leyden_engine::sample::SamplingParams;
use leyden_engine::{MAX_STATE_DRAFTS, Pooling};
use leyden_kernels::Cpu;
use leyden_models::{Network, Prompts};
use leyden_text::{ChatTemplate, Tokenizer};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// A loaded model and the options for serving it.
pub struct Model {
    /// Name for clients.
    pub name: String,
    /// Further names for clients.
    pub aliases: Vec<String>,
    /// Weights.
    pub network: Arc<dyn Network>,
    /// Draft model, which drafts tokens that the model checks.
    pub draft: Option<Arc<dyn Network>>,
    /// The processors, with an engine on each; at least one.
    pub cpus: Vec<Arc<Cpu>>,
    /// LoRA adapters.
    pub adapters: Vec<ServedAdapter>,
    /// Tokenizer.
    pub tokenizer: Arc<dyn Tokenizer>,
    /// Chat template, if there is one.
    pub template: Option<Arc<ChatTemplate>>,
    /// True if special tokens spelled out in messages are encoded as special tokens, not as text.
    pub special_in_content: bool,
    /// True if an answer that consists only of JSON calls of declared tools, without the markers of the model's format,
    /// is parsed as calls.
    pub bare_calls: bool,
    /// Default sampling parameters of requests.
    pub sampling: SamplingParams,
    /// Default values of request fields.
    pub defaults: Defaults,
    /// Default sequence breakers of DRY: repetitions do not extend across them.
    pub sequence_breakers: Vec<String>,
    /// Pooling of hidden states into the vectors of texts.
    pub pooling: Pooling,
    /// Prefixes for each kind of text that is embedded.
    pub prompts: Prompts,
    /// Calibration of a classifier, made for this model and these settings.
    pub calibrated: Option<Calibrated>,
    /// Options of each engine.
    pub worker: WorkerOptions,
    /// Description for clients.
    pub info: ModelInfo,
}

/// Description of a model for clients, beside its name.
#[derive(Clone, Debug)]
pub struct ModelInfo {
    /// Name of the architecture.
    pub architecture: String,
    /// Format of the file or folder, such as `gguf`.
    pub format: String,
    /// Type of most of the weights, such as `Q4_K`.
    pub weights: String,
    /// Number of weights.
    pub parameters: u64,
    /// Size of the weights in bytes.
    pub bytes: u64,
    /// Time of the last change of the file.
    pub modified: SystemTime,
    /// SHA-256 of the files.
    pub digest: Fingerprint,
}

impl Model {
    /// Returns the bytes of memory of weights, caches and workspaces.
    pub(crate) fn bytes(&self) -> u64 {
        let o = &self.worker;
        let shape = self.network.kv_shape(o.kv_type).ok();
        let (token, state) = shape.map_or((0, 0), |shape| (shape.token_bytes(), shape.state_bytes()));
        let of_draft = |draft: &Arc<dyn Network>| {
            let token = draft.kv_shape(o.kv_type).map_or(0, |shape| shape.token_bytes());
            o.kv_tokens * token + draft.workspace_bytes(o.step_tokens, o.parallel)
        };
        let drafting = self.draft.as_ref().map_or(0, of_draft);
        let engine = drafting
            + o.kv_tokens * token
            + (o.parallel + if o.speculate { MAX_STATE_DRAFTS } else { 0 }) * state
            + if state == 0 { 0 } else { o.state_cache }
            + self.network.workspace_bytes(o.step_tokens, o.parallel);
        let adapters: usize = self.adapters.iter().map(|served| served.adapter.bytes()).sum();
        let drafts = self.draft.as_ref().map_or(0, |draft| draft.weight_bytes());
        (self.network.weight_bytes() + drafts + adapters + self.cpus.len() * engine) as u64
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("name", &self.name).finish_non_exhaustive()
    }
}
