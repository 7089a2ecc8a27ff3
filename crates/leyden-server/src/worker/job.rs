//! Requests in the form for the worker thread.

use crate::mailbox::{Sender, TokenLogprob};
use leyden_constrain::{Constraint, Guide};
use leyden_engine::sample::{Proposal, Sampler, TokenSet};
use leyden_engine::schedule::{KeyId, PromptRows};
use leyden_engine::{ErrorKind, Scope, TokenLogprobs};
use leyden_models::heads::Head;
use leyden_tasks::TaskPrompt;
use leyden_text::output::{AnswerParts, OutputEvent};
use leyden_text::{AnswerText, Tokenizer};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// Request with one or more choices, which are accepted or refused together.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) key: KeyId,
    pub(crate) priority: i32,
    /// Scope of the prefix cache.
    pub(crate) scope: Arc<Scope>,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Instant,
    /// Tasks by the index of the choice.
    pub(crate) tasks: Vec<Task>,
    pub(crate) mailbox: Arc<Sender>,
}

/// Choice with its prompt.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) prompt: Arc<Vec<u32>>,
    /// Maximum number of tokens to generate; with 0 the prompt alone is computed.
    pub(crate) max_tokens: usize,
    pub(crate) work: Work,
}

impl From<TaskPrompt> for Task {
    fn from(prompt: TaskPrompt) -> Task {
        let TaskPrompt { ids, second, head } = prompt;
        Task { prompt: Arc::new(ids), max_tokens: 0, work: Work::Head { head, second } }
    }
}

/// Kind of a task.
#[derive(Debug)]
pub(crate) enum Work {
    /// Generation of a text.
    Text(Box<Choice>),
    /// Output of a head for the prompt.
    Head {
        head: Head,
        /// Index of the first token of a pair's second text.
        second: Option<usize>,
    },
}

impl Work {
    /// Returns true if the cached part of the prompt need not be computed again.
    pub(super) fn shares(&self) -> bool {
        match self {
            Work::Text(_) => true,
            Work::Head { head, .. } => !head.needs_all(),
        }
    }

    /// Returns the results to request for the prompt.
    pub(super) fn rows(&self) -> PromptRows {
        match self {
            Work::Text(choice) if choice.logprobs.of_prompt.is_some() => PromptRows::Logits { from: 0 },
            Work::Text(_) => PromptRows::None,
            Work::Head { head, second } => PromptRows::Head { head: head.clone(), second: *second },
        }
    }
}

/// State of a text that is generated.
#[derive(Debug)]
pub(crate) struct Choice {
    /// Sampler, which has accepted the prompt.
    pub(crate) sampler: Sampler,
    pub(crate) parts: AnswerParts,
    /// Conditions of its end; the stop strings are in `parts`.
    pub(crate) ending: Arc<Ending>,
    pub(crate) logprobs: Logprobs,
    pub(crate) rule: Rule,
    /// True if the grammar allows no further token.
    pub(crate) complete: bool,
    /// Number of generated tokens that belong to the answer.
    pub(crate) chosen: usize,
}

/// Conditions for the end of an answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    /// Stop strings.
    pub(crate) stop: Vec<String>,
    /// Stop tokens, ascending.
    pub(crate) stop_tokens: Vec<u32>,
    /// True if the stop string or stop token is part of the answer.
    pub(crate) includes_stop: bool,
    /// True if the model's end-of-generation tokens do not end the answer.
    pub(crate) ignore_end: bool,
    /// Number of tokens before which nothing ends the answer.
    pub(crate) min_tokens: usize,
}

/// Log probabilities of an answer.
#[derive(Debug, Default)]
pub(crate) struct Logprobs {
    /// Number of alternatives per token; `None` without log probabilities.
    pub(crate) top: Option<usize>,
    /// Number of alternatives per token of the prompt; `None` without its log probabilities.
    pub(crate) of_prompt: Option<usize>,
    /// True if they include a token that ends the answer and is not part of it.
    pub(crate) of_end: bool,
    /// Log probabilities of the tokens for which it is not yet decided whether they are content.
    pub(crate) waiting: VecDeque<TokenLogprob>,
    /// Log probability of the token that ended the answer.
    pub(crate) last: Option<TokenLogprob>,
}

/// Constraint on a text.
#[derive(Debug)]
pub(crate) enum Rule {
    /// No constraint.
    None,
    /// Grammar for all of the text, or for all of it after a gate.
    Grammar {
        constraint: Box<Constraint>,
        /// Text that must come before the grammar applies, such as the end of reasoning; it is the stop string of this
        /// parser.
        gate: Option<AnswerText>,
    },
    /// Grammar for the calls of tools in the text.
    Calls(Guide),
}

/// Reason why no token could be chosen.
#[derive(Debug)]
pub(crate) enum Stuck {
    /// Error of the sampler.
    Sampler(leyden_engine::Error),
    /// No token continues the grammar, or computing its mask takes too long.
    Grammar,
}

/// Effect of a token.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) events: Vec<OutputEvent>,
    pub(crate) logprobs: Vec<TokenLogprob>,
    /// True if the token is part of the answer; an end-of-generation token is not.
    pub(crate) counts: bool,
    pub(crate) stops: bool,
    /// True if held back text is to be released: the answer did not end with a stop string.
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
            // A grammar may allow nothing but the end; then it ends before `min_tokens`.
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

    /// Proposes the token for a position from the logits of a draft model; `None` if the answer would end with it.
    pub(crate) fn propose(
        &mut self,
        tokenizer: &dyn Tokenizer,
        logits: &[f32],
        position: usize,
    ) -> Option<Proposal> {
        let proposal = self.sampler.propose(logits, position)?;
        let is_stop = self.ending.stop_tokens.binary_search(&proposal.token).is_ok();
        (!is_stop && !tokenizer.is_end(proposal.token)).then_some(proposal)
    }

    /// Returns true if the answer has at least `min_tokens` tokens.
    fn may_end(&self) -> bool {
        self.chosen >= self.ending.min_tokens
    }

    /// Returns the logits with minus infinity for the tokens that end the answer.
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

    /// Appends the chosen token to the answer.
    pub(crate) fn say(&mut self, tokenizer: &dyn Tokenizer, token: u32, logits: &[f32]) -> Said {
        let may_end = self.may_end();
        let is_stop = may_end && self.ending.stop_tokens.binary_search(&token).is_ok();
        let is_end = is_stop || tokenizer.is_end(token) && !self.ending.ignore_end;
        if is_end && !(is_stop && self.ending.includes_stop) {
            if self.logprobs.of_end {
                self.logprobs.last = self.logprobs_of(token, logits);
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
        let of_token = self.logprobs_of(token, logits);
        self.logprobs.waiting.extend(of_token);
        let event = self.parts.push(tokenizer, token, may_end);
        // If no token can follow, the answer ends without an end-of-generation token.
        let whole = (self.complete || is_stop) && !event.stopped;
        let logprobs = self.content_logprobs();
        let stops = event.stopped || whole;
        Said { events: event.events, logprobs, counts: true, stops, releases: whole }
    }

    /// Ends the answer, and returns the output that was held back.
    pub(crate) fn finish(&mut self) -> (Vec<OutputEvent>, Vec<TokenLogprob>) {
        let events = self.parts.finish();
        let mut logprobs = self.content_logprobs();
        logprobs.extend(self.logprobs.last.take());
        (events, logprobs)
    }

    /// Returns the log probabilities of a token before it is appended, if they are requested.
    fn logprobs_of(&self, token: u32, logits: &[f32]) -> Option<TokenLogprob> {
        let top = self.logprobs.top?;
        Some(TokenLogprob::new(TokenLogprobs::of(logits, token, top), self.parts.characters()))
    }

    /// Returns the log probabilities of waiting tokens that turned out to be content, and discards those that are not.
    fn content_logprobs(&mut self) -> Vec<TokenLogprob> {
        let in_content = self.parts.content_tokens();
        let waiting = &mut self.logprobs.waiting;
        in_content.into_iter().filter_map(|is_content| waiting.pop_front().filter(|_| is_content)).collect()
    }
}

/// Runs grammar code on a client's grammar. A panic in the grammar library fails this request alone.
fn guarded<T>(work: impl FnOnce() -> Result<T, leyden_constrain::Error>) -> Result<T, Stuck> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) | Err(_) => Err(Stuck::Grammar),
    }
}

/// Samples from the tokens that a grammar allows.
fn masked(
    sampler: &mut Sampler,
    constraint: &mut Constraint,
    logits: &[f32],
    position: usize,
) -> Result<u32, Stuck> {
    let mask = guarded(move || constraint.mask())?;
    sampler.sample_masked(logits, TokenSet::new(mask.words()), position).map_err(Stuck::Sampler)
}

/// Samples outside a call: from all tokens first, and only if the sampled token is not allowed there, from those that
/// are.
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
