//! Requests as the thread sees them.

use crate::mailbox::{Sender, TokenLogprob};
use leyden_constrain::{Constraint, Guide};
use leyden_engine::sample::{Sampler, TokenSet};
use leyden_engine::schedule::{KeyId, PromptRows};
use leyden_engine::{ErrorKind, Pool, Scope, TokenLogprobs, WholeText};
use leyden_text::output::{AnswerParts, OutputEvent};
use leyden_text::{AnswerText, Tokenizer};
use std::collections::VecDeque;
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
    /// The most tokens to generate; with 0 the prompt alone is computed.
    pub(crate) max_tokens: usize,
    pub(crate) work: Work,
}

/// What is wanted.
#[derive(Debug)]
pub(crate) enum Work {
    /// A text.
    Text(Box<Choice>),
    /// A vector of the prompt, or all of its states.
    State(States),
}

/// What is wanted of a prompt's states.
#[derive(Debug)]
pub(crate) struct States {
    pub(crate) pool: Pool,
    /// If the prompt is computed in one step: where the second text of a pair begins, and whether the first token's state is all.
    pub(crate) whole: Option<WholeText>,
}

impl Work {
    /// Whether what the cache has of the prompt need not be computed.
    pub(super) fn shares(&self) -> bool {
        match self {
            Work::Text(_) => true,
            Work::State(states) => !states.pool.needs_all(),
        }
    }

    /// What is wanted of a prompt of so many tokens.
    pub(super) fn rows(&self, prompt_tokens: usize) -> PromptRows {
        match self {
            Work::Text(choice) if choice.logprobs.of_prompt.is_some() => PromptRows::Logits { from: 0 },
            Work::Text(_) => PromptRows::None,
            Work::State(States { whole: Some(text), .. }) => PromptRows::Whole(*text),
            Work::State(states) if states.pool.needs_all() => PromptRows::States { from: 0 },
            Work::State(_) => PromptRows::States { from: prompt_tokens.saturating_sub(1) },
        }
    }
}

/// How a text is generated.
#[derive(Debug)]
pub(crate) struct Choice {
    /// It has accepted the prompt.
    pub(crate) sampler: Sampler,
    pub(crate) parts: AnswerParts,
    /// When it ends, stop texts left aside.
    pub(crate) ending: Arc<Ending>,
    pub(crate) logprobs: Logprobs,
    pub(crate) rule: Rule,
    /// Whether nothing can follow what was chosen.
    pub(crate) complete: bool,
    /// Tokens chosen so far that count.
    pub(crate) chosen: usize,
}

/// When an answer ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    /// Texts of which any ends it.
    pub(crate) stop: Vec<String>,
    /// Tokens of which any ends it, ascending.
    pub(crate) stop_tokens: Vec<u32>,
    /// Whether what ended it is part of it.
    pub(crate) includes_stop: bool,
    /// Whether the model's end does not end it.
    pub(crate) ignore_end: bool,
    /// Before so many tokens nothing does.
    pub(crate) min_tokens: usize,
}

/// Logarithmic probabilities of an answer.
#[derive(Debug, Default)]
pub(crate) struct Logprobs {
    /// How many alternatives are wanted with each token, if any are.
    pub(crate) top: Option<usize>,
    /// The same for the tokens of the prompt.
    pub(crate) of_prompt: Option<usize>,
    /// Whether a token that ends the answer and is not part of it is told of, too.
    pub(crate) of_end: bool,
    /// Those of tokens of which it is not decided whether they are content.
    pub(crate) waiting: VecDeque<TokenLogprob>,
    /// Those of the token that ended the answer.
    pub(crate) last: Option<TokenLogprob>,
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
    pub(crate) events: Vec<OutputEvent>,
    pub(crate) logprobs: Vec<TokenLogprob>,
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
        if !self.may_end() {
            // A grammar may want the end all the same.
            let without = self.without_ends(tokenizer, logits);
            if without.iter().any(|logit| *logit > f32::NEG_INFINITY) {
                match self.choose_from(tokenizer, &without, position) {
                    Err(Stuck::Sampler(e)) if matches!(e.kind(), ErrorKind::NothingAllowed) => {}
                    chosen => return chosen,
                }
            }
        }
        self.choose_from(tokenizer, logits, position)
    }

    /// Whether the answer has the tokens that it must have.
    fn may_end(&self) -> bool {
        self.chosen >= self.ending.min_tokens
    }

    /// The logits without those of tokens that end the answer.
    fn without_ends(&self, tokenizer: &dyn Tokenizer, logits: &[f32]) -> Vec<f32> {
        let ends = |id: u32| tokenizer.is_end(id) || self.ending.stop_tokens.binary_search(&id).is_ok();
        (0..).zip(logits).map(|(id, l)| if ends(id) { f32::NEG_INFINITY } else { *l }).collect()
    }

    fn choose_from(
        &mut self,
        tokenizer: &dyn Tokenizer,
        logits: &[f32],
        position: usize,
    ) -> Result<u32, Stuck> {
        let Choice { sampler, parts: text, rule, complete, .. } = self;
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
        let may_end = self.may_end();
        let is_stop = may_end && self.ending.stop_tokens.binary_search(&token).is_ok();
        let is_end = is_stop || tokenizer.is_end(token) && !self.ending.ignore_end;
        if is_end && !(is_stop && self.ending.includes_stop) {
            if self.logprobs.of_end {
                self.logprobs.last = self.told(token, logits);
            }
            return Said { stops: true, releases: true, ..Said::default() };
        }
        self.sampler.accept(&[token]);
        self.chosen += 1;
        if let Rule::Grammar { gate, .. } = &mut self.rule
            && gate.as_mut().is_some_and(|gate| gate.push(tokenizer, token).stopped)
        {
            *gate = None;
        }
        let told = self.told(token, logits);
        self.logprobs.waiting.extend(told);
        let event = self.parts.push(tokenizer, token, may_end);
        // Where nothing can follow, no end needs to be waited for.
        let whole = (self.complete || is_stop) && !event.stopped;
        let logprobs = self.content_logprobs();
        let stops = event.stopped || whole;
        Said { events: event.events, logprobs, counts: true, stops, releases: whole }
    }

    /// The answer is over: what was held back.
    pub(crate) fn finish(&mut self) -> (Vec<OutputEvent>, Vec<TokenLogprob>) {
        let events = self.parts.finish();
        let mut logprobs = self.content_logprobs();
        logprobs.extend(self.logprobs.last.take());
        (events, logprobs)
    }

    /// The probabilities of a token that comes now, if they are wanted.
    fn told(&self, token: u32, logits: &[f32]) -> Option<TokenLogprob> {
        let top = self.logprobs.top?;
        Some(TokenLogprob::new(TokenLogprobs::of(logits, token, top), self.parts.characters()))
    }

    /// Probabilities are told of the content's tokens alone.
    fn content_logprobs(&mut self) -> Vec<TokenLogprob> {
        let told = self.parts.content_tokens();
        let waiting = &mut self.logprobs.waiting;
        told.into_iter().filter_map(|is_content| waiting.pop_front().filter(|_| is_content)).collect()
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
    text: &AnswerParts,
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
