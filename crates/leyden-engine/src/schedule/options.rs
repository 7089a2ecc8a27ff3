//! [`SchedulerOptions`]: sizes, bounds and weights of the scheduler.

use super::promise::Promise;

/// Maximum of bytes for the logits of prompt tokens in a step: enough rows that the output weights are read for many at
/// once.
const LOGITS_BYTES: usize = 64 << 20;

/// Sizes, bounds and weights of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchedulerOptions {
    /// Token budget of a step (vLLM's `max_num_batched_tokens`): the maximum of prompt, decoded and draft tokens
    /// together.
    pub step_tokens: usize,
    /// Maximum of prompt and draft tokens in a step with decoding requests; fewer at later positions, as
    /// `position_cost` says. It bounds the delay by prompts of any length and number: the time between two tokens of an
    /// answer grows by at most the time of this many tokens at the beginning of a text.
    pub prompt_tokens_beside_decode: usize,
    /// Maximum of prompt tokens in a step without decoding requests: it bounds how long a request that arrives
    /// meanwhile waits for its own first step.
    pub prompt_tokens_alone: usize,
    /// Maximum of running requests; at most `step_tokens`, so that each of them can decode in every step.
    pub running: usize,
    /// Maximum of waiting requests. Preempted requests do not count.
    pub waiting: usize,
    /// Maximum of waiting requests of one key.
    pub waiting_per_key: usize,
    /// Maximum length of a sequence in tokens.
    pub context: usize,
    /// Size of the vocabulary.
    pub vocabulary: usize,
    /// Maximum of prompt tokens with requested logits in a step: each has a row as large as the vocabulary.
    pub logit_rows: usize,
    /// True if every prompt is computed in one step, as models with bidirectional attention need.
    pub whole_prompts: bool,
    /// Weight of a computed prompt token in its key's service; cached and recomputed ones count nothing.
    pub prompt_weight: u32,
    /// Weight of a generated token in its key's service.
    pub output_weight: u32,
    /// Number of tokens that could be computed in the time in which a step reads the weights: a draft token costs the
    /// time of one token, and if accepted saves a share of a step. Measured; 0 turns drafts off.
    pub weights_read_tokens: f64,
    /// Added cost of a token per position before it, due to attention, in tokens at the beginning of a text. Measured;
    /// with 0 all tokens cost the same.
    pub position_cost: f64,
    /// Service level objective under which requests are admitted; fixed when the scheduler is created.
    pub promise: Option<Promise>,
}

impl Default for SchedulerOptions {
    /// Returns the default options. Prompt and output tokens have the weights 1 and 2, as in the paper (see [`super`]).
    fn default() -> SchedulerOptions {
        SchedulerOptions {
            step_tokens: 512,
            prompt_tokens_beside_decode: 128,
            prompt_tokens_alone: usize::MAX,
            running: 64,
            waiting: 256,
            waiting_per_key: 128,
            context: usize::MAX,
            vocabulary: usize::MAX,
            logit_rows: usize::MAX,
            whole_prompts: false,
            prompt_weight: 1,
            output_weight: 2,
            weights_read_tokens: 4.0,
            position_cost: 0.0,
            promise: None,
        }
    }
}

impl SchedulerOptions {
    /// Returns [`logit_rows`](Self::logit_rows) for a vocabulary of so many tokens: those of 64 MiB.
    #[must_use]
    pub fn logit_rows_for(vocabulary: usize) -> usize {
        (LOGITS_BYTES / size_of::<f32>() / vocabulary.max(1)).max(1)
    }

    /// Returns the nearest valid options.
    pub(crate) fn settled(mut self) -> SchedulerOptions {
        self.step_tokens = self.step_tokens.max(1);
        self.logit_rows = self.logit_rows.max(1);
        self.running = self.running.clamp(1, self.step_tokens);
        self.prompt_tokens_beside_decode = self.prompt_tokens_beside_decode.max(1);
        self.prompt_tokens_alone = self.prompt_tokens_alone.max(self.prompt_tokens_beside_decode);
        for measured in [&mut self.weights_read_tokens, &mut self.position_cost] {
            if !(measured.is_finite() && *measured >= 0.0) {
                *measured = 0.0;
            }
        }
        self
    }
}
