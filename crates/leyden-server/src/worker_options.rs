//! [`WorkerOptions`]: options of each engine of a model.

use leyden_kernels::attention::KvType;
use std::time::Duration;

/// Options of each engine of a model.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    /// The type of stored keys and values.
    pub kv_type: KvType,
    /// The longest text in tokens, prompt and answer together.
    pub context: usize,
    /// Tokens that all running requests together can hold.
    pub kv_tokens: usize,
    /// Bytes for checkpoints of the states of recurrent models; 0 for models without.
    pub state_cache: usize,
    /// The most tokens in one step.
    pub step_tokens: usize,
    /// The most requests that run at a time.
    pub parallel: usize,
    /// The most requests that wait.
    pub queue: usize,
    /// The most requests of one key that wait.
    pub queue_per_key: usize,
    /// By how much prompts may lengthen the time between two tokens of others.
    pub prompt_stall: Duration,
    /// True if repetitions in a text are used to draft tokens.
    pub speculate: bool,
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
            panic_token: None,
        }
    }
}
