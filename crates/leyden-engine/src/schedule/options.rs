//! What the scheduler is made for.

/// Sizes, bounds and weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchedulerOptions {
    /// The most tokens in one step, of all kinds together.
    pub step_tokens: usize,
    /// The most tokens of prompts (and guesses) in a step in which somebody decodes, and one user of the same key and
    /// priority waits for a first token; up to three times as many where further ones do, which is reached where these are
    /// as many as those who decode. This bounds what a prompt of any length costs the others: the time between two
    /// tokens of a user grows by at most the time of this many prompt tokens, or three times that in a crowd of the
    /// user's own.
    pub prompt_tokens_beside_decode: usize,
    /// The most requests that run at a time; at most `step_tokens`, so that each of them can decode in every step.
    pub running: usize,
    /// The most requests that wait. Those put back by preemption wait beyond it.
    pub waiting: usize,
    /// The most requests of one key that wait.
    pub waiting_per_key: usize,
    /// The longest sequence, in tokens.
    pub context: usize,
    /// Token ids that exist.
    pub vocabulary: usize,
    /// What a computed token of a prompt counts in its key's service; cached and recomputed ones count nothing.
    pub prompt_weight: u32,
    /// What a generated token counts.
    pub output_weight: u32,
    /// How many tokens could be computed in the time in which a step reads the weights: the price of a guess is one
    /// token's time, and what it may save is a share of a step. Measured; 0 turns guessing off.
    pub weights_read_tokens: f64,
}

impl Default for SchedulerOptions {
    /// Prompt and output tokens are weighed as in the paper (see [`super`]): 1 and 2.
    fn default() -> SchedulerOptions {
        SchedulerOptions {
            step_tokens: 512,
            prompt_tokens_beside_decode: 128,
            running: 64,
            waiting: 256,
            waiting_per_key: 128,
            context: usize::MAX,
            vocabulary: usize::MAX,
            prompt_weight: 1,
            output_weight: 2,
            weights_read_tokens: 4.0,
        }
    }
}

impl SchedulerOptions {
    /// The nearest options that make sense.
    pub(crate) fn settled(mut self) -> SchedulerOptions {
        self.step_tokens = self.step_tokens.max(1);
        self.running = self.running.clamp(1, self.step_tokens);
        self.prompt_tokens_beside_decode = self.prompt_tokens_beside_decode.max(1);
        if !self.weights_read_tokens.is_finite() {
            self.weights_read_tokens = 0.0;
        }
        self
    }
}
