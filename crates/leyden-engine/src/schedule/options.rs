//! What the scheduler is made for.

/// What the logits of a prompt's tokens may take in a step: enough rows that the weights are read for many at once.
const LOGITS_BYTES: usize = 64 << 20;

/// Sizes, bounds and weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchedulerOptions {
    /// The token budget of a step (vLLM's `max_num_batched_tokens`): the most tokens in it, of all kinds together.
    pub step_tokens: usize,
    /// The most tokens of prompts (and guesses) in a step in which somebody decodes; fewer at later positions, as
    /// `position_cost` says. This bounds what prompts of any length and number cost the others: the time between two
    /// tokens of a user grows by at most the time of this many tokens at the beginning of a text.
    pub prompt_tokens_beside_decode: usize,
    /// The same in a step in which nobody decodes: it bounds how long a request that comes meanwhile waits for its own
    /// first step.
    pub prompt_tokens_alone: usize,
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
    /// The most tokens of prompts in a step whose logits are wanted: each is as large as the vocabulary.
    pub logit_rows: usize,
    /// Whether every prompt is computed in one step, as a network needs whose tokens see those behind them.
    pub whole_prompts: bool,
    /// What a computed token of a prompt counts in its key's service; cached and recomputed ones count nothing.
    pub prompt_weight: u32,
    /// What a generated token counts.
    pub output_weight: u32,
    /// How many tokens could be computed in the time in which a step reads the weights: the price of a guess is one
    /// token's time, and what it may save is a share of a step. Measured; 0 turns guessing off.
    pub weights_read_tokens: f64,
    /// What attention to one position before it adds to the cost of a token, in tokens at the beginning of a text.
    /// Measured; with 0 all tokens cost the same.
    pub position_cost: f64,
}

impl Default for SchedulerOptions {
    /// Prompt and output tokens are weighed as in the paper (see [`super`]): 1 and 2.
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
        }
    }
}

impl SchedulerOptions {
    /// [`logit_rows`](Self::logit_rows) for a vocabulary of so many tokens: those of 64 MiB.
    #[must_use]
    pub fn logit_rows_for(vocabulary: usize) -> usize {
        (LOGITS_BYTES / size_of::<f32>() / vocabulary.max(1)).max(1)
    }

    /// The nearest options that make sense.
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
