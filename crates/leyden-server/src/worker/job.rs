//! Requests as the thread sees them.

use super::logprobs::logprobs;
use crate::mailbox::{Sender, TokenLogprob};
use leyden_constrain::Constraint;
use leyden_engine::Scope;
use leyden_engine::sample::{Sampler, TokenSet};
use leyden_engine::schedule::KeyId;
use leyden_text::{AnswerText, Tokenizer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// A request: one or more choices, all of which are taken or none.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) key: KeyId,
    pub(crate) priority: i32,
    /// Among whom the cache is shared.
    pub(crate) scope: Arc<Scope>,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Instant,
    /// By the number of the choice.
    pub(crate) tasks: Vec<Task>,
    pub(crate) mailbox: Arc<Sender>,
}

/// A choice and its prompt.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) prompt: Arc<Vec<u32>>,
    /// The most tokens to generate; at least 1.
    pub(crate) max_tokens: usize,
    pub(crate) work: Work,
}

/// What is wanted.
#[derive(Debug)]
pub(crate) enum Work {
    /// A text.
    Text(Box<Choice>),
    /// The last state of the prompt.
    State,
}

/// How a text is generated.
#[derive(Debug)]
pub(crate) struct Choice {
    /// It has accepted the prompt.
    pub(crate) sampler: Sampler,
    pub(crate) text: AnswerText,
    /// How many alternatives are wanted with each token, if logarithmic probabilities are.
    pub(crate) logprobs: Option<usize>,
    /// Whether the model's end does not end it.
    pub(crate) ignore_end: bool,
    /// What the text must look like.
    pub(crate) constraint: Option<Constraint>,
    /// What must have been said before that counts, such as the end of reasoning: a text whose stop text that is.
    pub(crate) gate: Option<AnswerText>,
}

/// Why no token could be chosen.
#[derive(Debug)]
pub(crate) enum Stuck {
    /// The sampler.
    Sampler(leyden_engine::Error),
    /// No token continues the grammar, or finding out takes too long.
    Grammar,
}

/// What a token did.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) logprob: Option<TokenLogprob>,
    /// Whether it is part of the answer; the model's end is not.
    pub(crate) counts: bool,
    pub(crate) stops: bool,
    /// What was held back is text: it was not a stop text that ended it.
    pub(crate) releases: bool,
}

impl Choice {
    /// Chooses the token for a position.
    ///
    /// # Errors
    /// As [`Sampler::sample`], or no token is allowed.
    pub(crate) fn choose(&mut self, logits: &[f32], position: usize) -> Result<u32, Stuck> {
        let Some(constraint) = self.constraint.as_mut().filter(|_| self.gate.is_none()) else {
            return self.sampler.sample(logits, position).map_err(Stuck::Sampler);
        };
        // A grammar comes from outside. Should it find a fault in the library that follows it, it costs its own request
        // and no other.
        let guarded = |work: &mut dyn FnMut() -> Result<u32, Stuck>| {
            catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Stuck::Grammar))
        };
        guarded(&mut || constraint.mask().map(|_| 0).map_err(|_| Stuck::Grammar))?;
        let mask = constraint.mask().map_err(|_| Stuck::Grammar)?;
        let allowed = TokenSet::new(mask.words());
        let token = self.sampler.sample_masked(logits, allowed, position).map_err(Stuck::Sampler)?;
        guarded(&mut || constraint.accept(token).map(|()| token).map_err(|_| Stuck::Grammar))
    }

    /// Takes the chosen token in.
    pub(crate) fn say(&mut self, tokenizer: &dyn Tokenizer, token: u32, logits: &[f32]) -> Said {
        if tokenizer.is_end(token) && !self.ignore_end {
            return Said { stops: true, releases: true, ..Said::default() };
        }
        self.sampler.accept(&[token]);
        let bound = self.gate.is_none();
        if self.gate.as_mut().is_some_and(|gate| gate.push(tokenizer, token).stopped) {
            self.gate = None;
        }
        let event = self.text.push(tokenizer, token);
        let logprob = self.logprobs.map(|top| logprobs(logits, token, top));
        // Where nothing can follow, no end needs to be waited for.
        let complete = self.constraint.as_ref().is_some_and(Constraint::is_complete);
        let whole = bound && complete && !event.stopped;
        Said { text: event.text, logprob, counts: true, stops: event.stopped || whole, releases: whole }
    }
}
