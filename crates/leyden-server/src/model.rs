//! A model that is served.

use crate::adapters::ServedAdapter;
use crate::defaults::Defaults;
use crate::fingerprint::Fingerprint;
use crate::worker_options::WorkerOptions;
use leyden_engine::Pooling;
use leyden_engine::sample::SamplingParams;
use leyden_kernels::Cpu;
use leyden_models::{Network, Prompts};
use leyden_text::{ChatTemplate, Tokenizer};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// The parts of a loaded model, and how to serve it.
pub struct Model {
    /// What clients call it.
    pub name: String,
    /// What else they may call it.
    pub aliases: Vec<String>,
    /// Its weights.
    pub network: Arc<dyn Network>,
    /// The processors that it runs on: an engine on each, at least one.
    pub cpus: Vec<Arc<Cpu>>,
    /// Its adapters.
    pub adapters: Vec<ServedAdapter>,
    /// Its tokenizer.
    pub tokenizer: Arc<dyn Tokenizer>,
    /// Its chat template, if it has one.
    pub template: Option<Arc<ChatTemplate>>,
    /// Whether special tokens that messages spell out are such, and not text.
    pub special_in_content: bool,
    /// An answer that is nothing but calls of declared tools, in JSON without the marks of the model's format, is
    /// these calls.
    pub bare_calls: bool,
    /// How tokens are chosen where a request does not say.
    pub sampling: SamplingParams,
    /// Values that requests get where they name none.
    pub defaults: Defaults,
    /// Texts across which DRY sees no repetition where a request does not say.
    pub sequence_breakers: Vec<String>,
    /// How the vectors of texts are made.
    pub pooling: Pooling,
    /// What goes before texts of each kind that become vectors.
    pub prompts: Prompts,
    /// Each of its engines.
    pub worker: WorkerOptions,
    /// What is told of it.
    pub info: ModelInfo,
}

/// What a server tells of a model beside its name.
#[derive(Clone, Debug)]
pub struct ModelInfo {
    /// The name of its architecture.
    pub architecture: String,
    /// The format of its file or folder, such as `gguf`.
    pub format: String,
    /// How most of its weights are stored, such as `Q4_K`.
    pub weights: String,
    /// How many weights it has.
    pub parameters: u64,
    /// How many bytes these take.
    pub bytes: u64,
    /// When its file was last changed.
    pub modified: SystemTime,
    /// The SHA-256 of its files.
    pub digest: Fingerprint,
}

impl Model {
    /// Bytes of memory that weights, caches and workspaces take.
    pub(crate) fn bytes(&self) -> u64 {
        let o = &self.worker;
        let shape = self.network.kv_shape(o.kv_type).ok();
        let (token, state) = shape.map_or((0, 0), |shape| (shape.token_bytes(), shape.state_bytes()));
        let engine = o.kv_tokens * token
            + o.parallel * state
            + if state == 0 { 0 } else { o.state_cache }
            + self.network.workspace_bytes(o.step_tokens, o.parallel);
        let adapters: usize = self.adapters.iter().map(|served| served.adapter.bytes()).sum();
        (self.network.weight_bytes() + adapters + self.cpus.len() * engine) as u64
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("name", &self.name).finish_non_exhaustive()
    }
}
