//! [`WorkerOptions`]: options of each engine of a model.

use leyden_engine::schedule::Promise;
use leyden_kernels::attention::KvType;
use std::time::Duration;

/// Options of each engine of a model.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// Type of stored keys and values.
    pub kv_type: KvType,
    /// Maximum context in tokens, prompt and answer together.
    pub context: usize,
    /// Size of the KV cache in tokens, shared by all running requests.
    pub kv_tokens: usize,
    /// Bytes for checkpoints of the states of recurrent models; 0 for models without.
    pub state_cache: usize,
    /// Maximum number of tokens in one step.
    pub step_tokens: usize,
    /// Maximum number of running requests.
    pub parallel: usize,
    /// Maximum number of queued requests.
    pub queue: usize,
    /// Maximum number of queued requests of one key.
    pub queue_per_key: usize,
    /// Maximum time that prefill adds between two tokens of other requests.
    pub prompt_stall: Duration,
    /// True if tokens are drafted from repetitions in the text (speculative decoding).
    pub speculate: bool,
    /// Service level objective under which requests are admitted.
    pub promise: Option<Promise>,
    /// For tests: a request whose prompt begins with this token panics in its step.
    pub panic_token: Option<u32>,
}

impl Default for WorkerOptions {
    fn default() -> WorkerOptions {
        WorkerOptions {
            kv_type: KvType::default(),
            context: 4096,
            kv_tokens: 4096,
            state_cache: 16 << 20,
            step_tokens: 512,
            parallel: 64,
            queue: 256,
            queue_per_key: 128,
            prompt_stall: Duration::from_millis(250),
            speculate: true,
            promise: None,
            panic_token: None,
        }
    }
}
