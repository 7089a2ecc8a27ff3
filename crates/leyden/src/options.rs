//! Options of sessions, batches and answers.

use crate::breakers::SEQUENCE_BREAKERS;
use leyden_constrain::{Compiled, Constraint};
use leyden_engine::sample::SamplingParams;
use leyden_engine::{AdapterSet, Pooling};
use leyden_kernels::attention::KvType;

/// What a session is made for.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SessionOptions {
    /// The longest text in tokens, prompt and answer together; by default what the model was made for.
    pub context: Option<usize>,
    /// How keys and values are cached.
    pub kv_type: KvType,
    /// Bytes for checkpoints of the states of recurrent models, to which a session goes back where a prompt differs; by
    /// default 64 states in up to 256 MiB, and no fewer than two.
    pub state_cache: Option<usize>,
}

impl SessionOptions {
    /// The defaults.
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
}

/// What a batch is made for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BatchOptions {
    /// The longest text in tokens, prompt and answer together; by default what the model was made for.
    pub context: Option<usize>,
    /// How keys and values are cached.
    pub kv_type: KvType,
    /// Tokens that the texts that are computed together can hold; by default as many as the context. Texts beyond that
    /// wait.
    pub cache_tokens: Option<usize>,
    /// Bytes for checkpoints of the states of recurrent models, from which texts with a common beginning start; by default
    /// 64 states or four for each text, in up to 256 MiB, and no fewer than two.
    pub state_cache: Option<usize>,
    /// The most texts that are computed together.
    pub parallel: usize,
    /// How vectors are made of states; by default as the model says, or else their mean.
    pub pooling: Option<Pooling>,
    /// The replica that computes, from 0.
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
    /// The defaults.
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

/// What to generate.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GenerateOptions {
    /// The most tokens; by default until the model ends or the context is full. More than fit are clipped.
    pub max_tokens: Option<usize>,
    /// How tokens are chosen: the sampling steps, their order and their parameters.
    pub sampling: SamplingParams,
    /// Texts across which DRY sees no repetition; they take the place of those in `sampling.dry`. By default
    /// [`SEQUENCE_BREAKERS`].
    pub sequence_breakers: Vec<String>,
    /// Generation ends before the first of these texts.
    pub stop: Vec<String>,
    /// For a model that reasons before it answers, the texts around that, and whether the prompt has opened it: `stop`
    /// concerns the answer alone. [`Session::chat`](crate::Session::chat) finds it out.
    pub reasoning: Option<(String, String, bool)>,
    /// What the answer must follow, from [`Model::compile`](crate::Model::compile) and
    /// [`Compiled::start`](crate::Compiled::start). Generation ends when nothing can follow.
    pub constraint: Option<Constraint>,
    /// With how many of the best tokens the log probability of each token is told, if it is at all.
    pub logprobs: Option<usize>,
    /// The adapters, from [`Model::adapter`](crate::Model::adapter); by default those that the model was opened with.
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
            constraint: None,
            logprobs: None,
            adapters: None,
        }
    }
}

impl GenerateOptions {
    /// The defaults.
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

    /// Sets the temperature of [`sampling`](Self::sampling); 0 takes the best token always.
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

    /// The answer follows a schema or grammar, made ready by [`Model::compile`](crate::Model::compile).
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
