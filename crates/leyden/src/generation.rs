//! Events and results of generation.

use leyden_engine::TokenLogprobs;
use std::time::Duration;

/// Event of generation for a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Number of prompt tokens processed so far, and their total.
    Prompt(usize, usize),
    /// New text, whole characters only.
    Text(&'a str),
}

/// Item of [`Stream`](crate::Stream).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StreamEvent {
    /// Number of prompt tokens processed so far, and their total.
    Prompt(usize, usize),
    /// New text, whole characters only.
    Text(String),
    /// Finished answer, the last item.
    Done(Generation),
}

/// Reason why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// End-of-sequence token, stop string, or end of a grammar.
    Stop,
    /// `max_tokens` were generated, or the context is full.
    Length,
    /// Cancelled by the caller.
    Cancelled,
}

impl Finish {
    /// Returns the name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Cancelled => "cancelled",
        }
    }
}

/// Finished answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Generation {
    /// Generated text.
    pub text: String,
    /// Generated token ids, without an end-of-sequence token.
    pub tokens: Vec<u32>,
    /// Log probability of each token, if they were asked for.
    pub logprobs: Vec<TokenLogprobs>,
    /// Reason of the end.
    pub finish: Finish,
    /// Number of tokens of the prompt.
    pub prompt_tokens: usize,
    /// Number of prompt tokens that were in the cache.
    pub cached_tokens: usize,
    /// Number of tokens that were drafted by speculation.
    pub drafted_tokens: usize,
    /// Number of drafted tokens that were accepted.
    pub accepted_tokens: usize,
    /// Time for the other prompt tokens.
    pub prefill: Duration,
    /// Time from the call to the first token.
    pub first_token: Duration,
    /// Time for the tokens after the first.
    pub decode: Duration,
}

impl Generation {
    /// Returns an answer without tokens.
    pub(crate) fn new(prompt_tokens: usize) -> Generation {
        Generation {
            text: String::new(),
            tokens: Vec::new(),
            logprobs: Vec::new(),
            finish: Finish::Length,
            prompt_tokens,
            cached_tokens: 0,
            drafted_tokens: 0,
            accepted_tokens: 0,
            prefill: Duration::ZERO,
            first_token: Duration::ZERO,
            decode: Duration::ZERO,
        }
    }

    /// Returns the computed prompt tokens per second.
    #[must_use]
    pub fn prefill_rate(&self) -> f64 {
        rate(self.prompt_tokens - self.cached_tokens, self.prefill)
    }

    /// Returns the generated tokens per second, after the first.
    #[must_use]
    pub fn decode_rate(&self) -> f64 {
        rate(self.tokens.len().saturating_sub(1), self.decode)
    }
}

fn rate(n: usize, time: Duration) -> f64 {
    if n == 0 || time.is_zero() { 0.0 } else { n as f64 / time.as_secs_f64() }
}
