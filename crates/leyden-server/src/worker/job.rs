//! Requests as the thread sees them.

use super::logprobs::logprobs;
use crate::mailbox::{Sender, TokenLogprob};
use leyden_constrain::{Constraint, Guide};
use leyden_engine::sample::{Sampler, TokenSet};
use leyden_engine::schedule::KeyId;
use leyden_engine::{Pool, Scope};
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
    /// A vector of the prompt.
    State(Pool),
}

impl Work {
    /// Whether what the cache has of the prompt need not be computed.
    pub(super) fn shares(&self) -> bool {
        match self {
            Work::Text(_) => true,
            Work::State(pool) => !pool.pooling().needs_all(),
        }
    }
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
    pub(crate) rule: Rule,
    /// Whether nothing can follow what was chosen.
    pub(crate) complete: bool,
}

/// What a text must look like.
#[derive(Debug)]
pub(crate) enum Rule {
    /// As it comes.
    None,
    /// All of it follows a grammar.
    Grammar {
        constraint: Box<Constraint>,
        /// What must have been said before that counts, such as the end of reasoning: a text whose stop text that is.
        gate: Option<AnswerText>,
    },
    /// The calls of tools in it do.
    Calls(Guide),
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
    pub(crate) fn choose(
        &mut self,
        tokenizer: &dyn Tokenizer,
        logits: &[f32],
        position: usize,
    ) -> Result<u32, Stuck> {
        let Choice { sampler, text, rule, complete, .. } = self;
        match rule {
            Rule::None | Rule::Grammar { gate: Some(_), .. } => {
                sampler.sample(logits, position).map_err(Stuck::Sampler)
            }
            Rule::Grammar { constraint, gate: None } => {
                let token = masked(sampler, constraint, logits, position)?;
                guarded(|| constraint.accept(token))?;
                *complete = constraint.is_complete();
                Ok(token)
            }
            Rule::Calls(guide) => {
                let token = match guide.constraint() {
                    Some(constraint) => masked(sampler, constraint, logits, position)?,
                    None => outside_calls(sampler, guide, text, tokenizer, logits, position)?,
                };
                let bytes = text.bytes(tokenizer, token);
                *complete = guarded(|| guide.accept(token, &bytes))?;
                Ok(token)
            }
        }
    }

    /// Takes the chosen token in.
    pub(crate) fn say(&mut self, tokenizer: &dyn Tokenizer, token: u32, logits: &[f32]) -> Said {
        if tokenizer.is_end(token) && !self.ignore_end {
            return Said { stops: true, releases: true, ..Said::default() };
        }
        self.sampler.accept(&[token]);
        if let Rule::Grammar { gate, .. } = &mut self.rule
            && gate.as_mut().is_some_and(|gate| gate.push(tokenizer, token).stopped)
        {
            *gate = None;
        }
        let event = self.text.push(tokenizer, token);
        let logprob = self.logprobs.map(|top| logprobs(logits, token, top));
        // Where nothing can follow, no end needs to be waited for.
        let whole = self.complete && !event.stopped;
        Said { text: event.text, logprob, counts: true, stops: event.stopped || whole, releases: whole }
    }
}

/// Follows a grammar, which comes from outside. Should it find a fault in the library that does it, it costs its own
/// request and no other.
fn guarded<T>(work: impl FnOnce() -> Result<T, leyden_constrain::Error>) -> Result<T, Stuck> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) | Err(_) => Err(Stuck::Grammar),
    }
}

/// Chooses among the tokens that a grammar allows.
fn masked(
    sampler: &mut Sampler,
    constraint: &mut Constraint,
    logits: &[f32],
    position: usize,
) -> Result<u32, Stuck> {
    let mask = guarded(move || constraint.mask())?;
    sampler.sample_masked(logits, TokenSet::new(mask.words()), position).map_err(Stuck::Sampler)
}

/// Chooses where no call is open: among all tokens, and only if that gives one that no call goes on with, among those
/// that may come.
fn outside_calls(
    sampler: &mut Sampler,
    guide: &Guide,
    text: &AnswerText,
    tokenizer: &dyn Tokenizer,
    logits: &[f32],
    position: usize,
) -> Result<u32, Stuck> {
    let describe = |token| (text.bytes(tokenizer, token), tokenizer.is_end(token));
    let token = sampler.sample(logits, position).map_err(Stuck::Sampler)?;
    let (bytes, ends) = describe(token);
    if !guarded(|| Ok(guide.refuses(&bytes, ends)))? {
        return Ok(token);
    }
    let mask = guarded(|| Ok(guide.allowed(describe)))?;
    sampler.sample_masked(logits, TokenSet::new(mask.words()), position).map_err(Stuck::Sampler)
}
