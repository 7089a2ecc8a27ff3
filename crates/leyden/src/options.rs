//! Options of sessions, batches and answers.

use crate::breakers::SEQUENCE_BREAKERS;
use leyden_constrain::{Compiled, Constraint, Guide};
use leyden_engine::sample::SamplingParams;
use leyden_engine::{AdapterSet, Pooling};
use leyden_kernels::attention::KvType;
use std::sync::Arc;

/// Options of a session.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SessionOptions {
    /// Context length in tokens, prompt and answer together; by default the model's.
    pub context: Option<usize>,
    /// Type of cached keys and values.
    pub kv_type: KvType,
    /// Bytes for checkpoints of the states of recurrent models, to which a session goes back where a prompt differs; by
    /// default 64 states in up to 256 MiB, and no fewer than two.
    pub state_cache: Option<usize>,
    /// True, the default, if tokens are drafted: from repetitions in the text, and by the model's
    /// [draft model](crate::LoadOptions::draft). Answers are the same without.
    pub speculation: bool,
}

impl Default for SessionOptions {
    fn default() -> SessionOptions {
        SessionOptions { context: None, kv_type: KvType::default(), state_cache: None, speculation: true }
    }
}

impl SessionOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> SessionOptions {
        SessionOptions::default()
    }

    /// Sets [`context`](Self::context).
    #[must_use]
    pub fn context(mut self, tokens: impl Into<Option<usize>>) -> SessionOptions {
        self.context = tokens.into();
        self
    }

    /// Sets [`kv_type`](Self::kv_type).
    #[must_use]
    pub fn kv_type(mut self, kv_type: KvType) -> SessionOptions {
        self.kv_type = kv_type;
        self
    }

    /// Sets [`state_cache`](Self::state_cache).
    #[must_use]
    pub fn state_cache(mut self, n_bytes: usize) -> SessionOptions {
        self.state_cache = Some(n_bytes);
        self
    }

    /// Sets [`speculation`](Self::speculation).
    #[must_use]
    pub fn speculation(mut self, on: bool) -> SessionOptions {
        self.speculation = on;
        self
    }
}

/// Options of a batch.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BatchOptions {
    /// Context length in tokens, prompt and answer together; by default the model's.
    pub context: Option<usize>,
    /// Type of cached keys and values.
    pub kv_type: KvType,
    /// Capacity of the KV cache in tokens; by default the context length. Texts that do not fit wait.
    pub cache_tokens: Option<usize>,
    /// Bytes for checkpoints of the states of recurrent models, from which texts with a common prefix start; by default
    /// 64 states or four for each text, in up to 256 MiB, and no fewer than two.
    pub state_cache: Option<usize>,
    /// Maximum number of texts that are computed together.
    pub parallel: usize,
    /// Pooling of hidden states to vectors; by default the model's, or else their mean.
    pub pooling: Option<Pooling>,
    /// Index of the replica that computes.
    pub replica: usize,
}

impl Default for BatchOptions {
    fn default() -> BatchOptions {
        BatchOptions {
            context: None,
            kv_type: KvType::default(),
            cache_tokens: None,
            state_cache: None,
            parallel: 64,
            pooling: None,
            replica: 0,
        }
    }
}

impl BatchOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> BatchOptions {
        BatchOptions::default()
    }

    /// Sets [`context`](Self::context).
    #[must_use]
    pub fn context(mut self, tokens: usize) -> BatchOptions {
        self.context = Some(tokens);
        self
    }

    /// Sets [`kv_type`](Self::kv_type).
    #[must_use]
    pub fn kv_type(mut self, kv_type: KvType) -> BatchOptions {
        self.kv_type = kv_type;
        self
    }

    /// Sets [`cache_tokens`](Self::cache_tokens).
    #[must_use]
    pub fn cache_tokens(mut self, tokens: usize) -> BatchOptions {
        self.cache_tokens = Some(tokens);
        self
    }

    /// Sets [`state_cache`](Self::state_cache).
    #[must_use]
    pub fn state_cache(mut self, n_bytes: usize) -> BatchOptions {
        self.state_cache = Some(n_bytes);
        self
    }

    /// Sets [`parallel`](Self::parallel).
    #[must_use]
    pub fn parallel(mut self, texts: usize) -> BatchOptions {
        self.parallel = texts.max(1);
        self
    }

    /// Sets [`pooling`](Self::pooling).
    #[must_use]
    pub fn pooling(mut self, pooling: Pooling) -> BatchOptions {
        self.pooling = Some(pooling);
        self
    }

    /// Sets [`replica`](Self::replica).
    #[must_use]
    pub fn replica(mut self, replica: usize) -> BatchOptions {
        self.replica = replica;
        self
    }
}

/// Options of generation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GenerateOptions {
    /// Maximum number of generated tokens; by default, and at most, the rest of the context.
    pub max_tokens: Option<usize>,
    /// Sampling steps, their order and their parameters.
    pub sampling: SamplingParams,
    /// Sequence breakers of DRY, which replace those in `sampling.dry`. By default [`SEQUENCE_BREAKERS`].
    pub sequence_breakers: Vec<String>,
    /// Stop strings: generation ends before the first of them.
    pub stop: Vec<String>,
    /// Texts that open and close reasoning, for a model that reasons before it answers, and true if the prompt has
    /// opened it. `stop` then applies to the answer only. [`Session::chat`](crate::Session::chat) detects them from the
    /// chat template.
    pub reasoning: Option<(String, String, bool)>,
    /// Special tokens that the text shows, ascending: those of
    /// [`OutputFormat::visible_tokens`](leyden_text::output::OutputFormat::visible_tokens), to parse calls and reasoning
    /// out of the text. By default it shows none.
    pub visible: Arc<[u32]>,
    /// Schema or grammar of the answer, from [`Model::compile`](crate::Model::compile) and
    /// [`Compiled::start`](crate::Compiled::start). Generation ends when nothing can follow.
    pub constraint: Option<Constraint>,
    /// Rules for the tool calls of an answer that may have some, from [`Model::turn`](crate::Model::turn). They exclude
    /// [`constraint`](Self::constraint).
    pub calls: Option<Guide>,
    /// Number of top tokens to return with the log probability of each token; `None` for no log probabilities.
    pub logprobs: Option<usize>,
    /// LoRA adapters, from [`Model::adapter`](crate::Model::adapter); by default those that the model was opened with.
    pub adapters: Option<AdapterSet>,
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        GenerateOptions {
            max_tokens: None,
            sampling: SamplingParams::default(),
            sequence_breakers: SEQUENCE_BREAKERS.map(str::to_owned).to_vec(),
            stop: Vec::new(),
            reasoning: None,
            visible: Arc::default(),
            constraint: None,
            calls: None,
            logprobs: None,
            adapters: None,
        }
    }
}

impl GenerateOptions {
    /// Returns the defaults.
    #[must_use]
    pub fn new() -> GenerateOptions {
        GenerateOptions::default()
    }

    /// Sets [`max_tokens`](Self::max_tokens).
    #[must_use]
    pub fn max_tokens(mut self, tokens: impl Into<Option<usize>>) -> GenerateOptions {
        self.max_tokens = tokens.into();
        self
    }

    /// Sets [`sampling`](Self::sampling).
    #[must_use]
    pub fn sampling(mut self, sampling: SamplingParams) -> GenerateOptions {
        self.sampling = sampling;
        self
    }

    /// Sets the temperature of [`sampling`](Self::sampling); 0 is greedy.
    #[must_use]
    pub fn temperature(mut self, temperature: f32) -> GenerateOptions {
        self.sampling.temperature = temperature;
        self
    }

    /// Sets the seed of [`sampling`](Self::sampling): the same seed gives the same text.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> GenerateOptions {
        self.sampling.seed = seed;
        self
    }

    /// Adds a text to [`stop`](Self::stop).
    #[must_use]
    pub fn stop(mut self, text: impl Into<String>) -> GenerateOptions {
        self.stop.push(text.into());
        self
    }

    /// Sets [`constraint`](Self::constraint) to a schema or grammar from [`Model::compile`](crate::Model::compile).
    #[must_use]
    pub fn follow(mut self, compiled: &Compiled) -> GenerateOptions {
        self.constraint = Some(compiled.start());
        self
    }

    /// Sets [`adapters`](Self::adapters).
    #[must_use]
    pub fn adapters(mut self, adapters: AdapterSet) -> GenerateOptions {
        self.adapters = Some(adapters);
        self
    }

    /// Sets [`logprobs`](Self::logprobs).
    #[must_use]
    pub fn logprobs(mut self, top: usize) -> GenerateOptions {
        self.logprobs = Some(top);
        self
    }
}
