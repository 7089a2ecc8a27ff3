//! What generation says on its way and in the end.

use leyden_engine::TokenLogprobs;
use std::time::Duration;

/// What the caller is told during generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// More of the prompt has been processed: tokens done, and in all.
    Prompt(usize, usize),
    /// More text, whole characters only.
    Text(&'a str),
}

/// What an iterator over an answer gives: see [`Session::stream`](crate::Session::stream).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StreamEvent {
    /// More of the prompt has been processed: tokens done, and in all.
    Prompt(usize, usize),
    /// More text, whole characters only.
    Text(String),
    /// The answer is finished. Nothing follows.
    Done(Generation),
}

/// Why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The model ended, or a stop text appeared.
    Stop,
    /// `max_tokens` were generated, or the context is full.
    Length,
    /// The caller said so.
    Cancelled,
}

impl Finish {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::Cancelled => "cancelled",
        }
    }
}

/// A finished answer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Generation {
    /// The text.
    pub text: String,
    /// Its token ids; the one that ended the text, if any, is not among them.
    pub tokens: Vec<u32>,
    /// The log probability of each, if they were asked for.
    pub logprobs: Vec<TokenLogprobs>,
    /// Why it ended.
    pub finish: Finish,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Those of them that were still in the cache.
    pub cached_tokens: usize,
    /// Time for the rest of the prompt.
    pub prefill: Duration,
    /// From the call to the first token.
    pub first_token: Duration,
    /// Time for the tokens after the first.
    pub decode: Duration,
}

impl Generation {
    /// Nothing was generated yet.
    pub(crate) fn new(prompt_tokens: usize) -> Generation {
        Generation {
            text: String::new(),
            tokens: Vec::new(),
            logprobs: Vec::new(),
            finish: Finish::Length,
            prompt_tokens,
            cached_tokens: 0,
            prefill: Duration::ZERO,
            first_token: Duration::ZERO,
            decode: Duration::ZERO,
        }
    }

    /// Prompt tokens computed per second.
    #[must_use]
    pub fn prefill_rate(&self) -> f64 {
        rate(self.prompt_tokens - self.cached_tokens, self.prefill)
    }

    /// Tokens per second after the first.
    #[must_use]
    pub fn decode_rate(&self) -> f64 {
        rate(self.tokens.len().saturating_sub(1), self.decode)
    }
}

fn rate(n: usize, time: Duration) -> f64 {
    if n == 0 || time.is_zero() { 0.0 } else { n as f64 / time.as_secs_f64() }
}
