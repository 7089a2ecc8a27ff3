//! [`Job`]: request of the library to the engine for an answer, log probabilities, a vector or logits.

use crate::error::Error;
use crate::generation::Finish;
use crate::options::GenerateOptions;
use leyden_constrain::{Constraint, Guide};
use leyden_engine::sample::{Proposal, Sampler, TokenSet};
use leyden_engine::schedule::verify;
use leyden_engine::{Answer, Engine, ErrorKind, LogitReader, OutputRow, TokenLogprobs};
use leyden_models::heads::HeadOutput;
use leyden_tasks::Samplers;
use leyden_text::{AnswerText, Tokenizer};
use std::sync::Arc;
use std::time::Instant;

/// Request to the engine, with its results so far.
pub(crate) enum Job {
    /// Generated answer.
    Text(Box<Text>),
    /// Log probabilities of the prompt's tokens, with this number of top tokens each.
    Scores(usize, Vec<TokenLogprobs>),
    /// Output of a head, once it is computed and its values are finite.
    Head(Option<HeadOutput>),
    /// Callback for logits.
    Logits(Arc<LogitReader>),
    /// Forward pass without results.
    Run,
}

impl Answer for Job {
    fn scores(&self) -> Option<usize> {
        match self {
            Job::Scores(top, _) => Some(*top),
            _ => None,
        }
    }

    fn score(&mut self, scored: Vec<TokenLogprobs>) {
        if let Job::Scores(_, all) = self {
            all.extend(scored);
        }
    }

    fn reader(&self) -> Option<&LogitReader> {
        match self {
            Job::Logits(reader) => Some(reader.as_ref()),
            _ => None,
        }
    }

    fn output(&mut self, output: Result<HeadOutput, leyden_engine::Error>) {
        if let Job::Head(found) = self {
            *found = output.ok();
        }
    }

    fn propose(&mut self, logits: &[f32], position: usize) -> Option<Proposal> {
        let Job::Text(text) = self else { return None };
        let proposal = text.sampler.propose(logits, position)?;
        (!text.tokenizer.is_end(proposal.token)).then_some(proposal)
    }

    fn choose(&mut self, rows: &[OutputRow<'_>], draft: &[u32]) -> (Vec<u32>, bool) {
        match self {
            Job::Text(text) => text.choose(rows, draft),
            // Other jobs generate no tokens.
            _ => (Vec::new(), true),
        }
    }
}

/// Answer during generation.
pub(crate) struct Text {
    tokenizer: Arc<dyn Tokenizer>,
    sampler: Sampler,
    constraint: Option<Constraint>,
    calls: Option<Guide>,
    pieces: AnswerText,
    logprobs: Option<usize>,
    /// Generated text.
    pub(crate) text: String,
    /// Bytes of the text that the caller has got.
    pub(crate) delivered: usize,
    pub(crate) tokens: Vec<u32>,
    pub(crate) scores: Vec<TokenLogprobs>,
    /// Numbers of draft tokens, and of accepted ones.
    pub(crate) drafts: (usize, usize),
    /// Time of the first token.
    pub(crate) first: Option<Instant>,
    /// Reason of the end, unless the scheduler ended it.
    pub(crate) end: Option<Result<Finish, Error>>,
    /// True if a stop string ended it, so that held-back text is dropped.
    stopped: bool,
}

impl Text {
    /// Returns an empty answer to `prompt`. `sampler` has accepted the prompt.
    pub(crate) fn new(
        tokenizer: Arc<dyn Tokenizer>,
        sampler: Sampler,
        prompt: &[u32],
        options: &GenerateOptions,
    ) -> Text {
        let pieces = AnswerText::new(tokenizer.as_ref(), prompt, &options.stop);
        let mut pieces = pieces.with_visible(Arc::clone(&options.visible));
        if let Some((open, close, begun)) = &options.reasoning {
            pieces = pieces.with_reasoning(open, close, *begun);
        }
        Text {
            tokenizer,
            sampler,
            constraint: options.constraint.clone(),
            calls: options.calls.clone(),
            pieces,
            logprobs: options.logprobs,
            text: String::new(),
            delivered: 0,
            tokens: Vec::new(),
            scores: Vec::new(),
            drafts: (0, 0),
            first: None,
            end: None,
            stopped: false,
        }
    }

    fn choose(&mut self, rows: &[OutputRow<'_>], draft: &[u32]) -> (Vec<u32>, bool) {
        let mut chosen = Vec::new();
        // An `Err` ends the loop, for errors and for complete answers.
        let ended = verify::<Result<Finish, Error>>(draft, |i| {
            let token = self.token(rows[i].logits, rows[i].position + 1).map_err(Err)?;
            chosen.push(token);
            self.first.get_or_insert_with(Instant::now);
            match self.accept(token, rows[i].logits) {
                Ok(None) => Ok(token),
                Ok(Some(finish)) => Err(Ok(finish)),
                Err(error) => Err(Err(error)),
            }
        });
        self.drafts = (self.drafts.0 + draft.len(), self.drafts.1 + chosen.len().saturating_sub(1));
        self.end = ended.err();
        (chosen, self.end.is_some())
    }

    fn token(&mut self, logits: &[f32], position: usize) -> Result<u32, Error> {
        let constraint = match (&mut self.constraint, &mut self.calls) {
            (Some(constraint), _) => Some(constraint),
            (None, Some(calls)) => calls.constraint(),
            (None, None) => None,
        };
        if let Some(constraint) = constraint {
            let allowed = TokenSet::new(constraint.mask()?.words());
            return Ok(self.sampler.sample_masked(logits, allowed, position)?);
        }
        let token = self.sampler.sample(logits, position)?;
        let Some(calls) = &self.calls else { return Ok(token) };
        // Outside a call, a token is refused only if it would open one wrongly.
        let tokenizer = self.tokenizer.as_ref();
        let describe = |token| (self.pieces.bytes(tokenizer, token), tokenizer.is_end(token));
        let (bytes, ends) = describe(token);
        if !calls.refuses(&bytes, ends) {
            return Ok(token);
        }
        let allowed = calls.allowed(describe);
        Ok(self.sampler.sample_masked(logits, TokenSet::new(allowed.words()), position)?)
    }

    /// Accepts a token, and returns the reason if the answer ends with it.
    fn accept(&mut self, token: u32, logits: &[f32]) -> Result<Option<Finish>, Error> {
        if self.tokenizer.is_end(token) {
            return Ok(Some(Finish::Stop));
        }
        self.tokens.push(token);
        self.scores.extend(self.logprobs.map(|top| TokenLogprobs::of(logits, token, top)));
        self.sampler.accept(&[token]);
        let mut complete = false;
        if let Some(constraint) = &mut self.constraint {
            constraint.accept(token)?;
            complete = constraint.is_complete();
        } else if let Some(calls) = &mut self.calls {
            let bytes = self.pieces.bytes(self.tokenizer.as_ref(), token);
            complete = calls.accept(token, &bytes)?;
        }
        let event = self.pieces.push(self.tokenizer.as_ref(), token);
        self.text.push_str(&event.text);
        self.stopped = event.stopped;
        Ok((event.stopped || complete).then_some(Finish::Stop))
    }

    /// Ends the answer: adds text that was held back as the beginning of a character or stop string.
    pub(crate) fn complete(&mut self) {
        if !self.stopped {
            let rest = self.pieces.finish();
            self.text.push_str(&rest);
        }
    }

    /// Returns the text since the last call, if there is any.
    pub(crate) fn new_text(&mut self) -> Option<String> {
        let new = self.text[self.delivered..].to_owned();
        self.delivered = self.text.len();
        (!new.is_empty()).then_some(new)
    }
}

/// Adds the model's file to an error of the engine that the model causes.
pub(crate) fn named(error: Error, file: &str) -> Error {
    match error {
        Error::Engine(e) if matches!(e.kind(), ErrorKind::NotFinite) => {
            Error::NotFinite { file: file.to_owned() }
        }
        other => other,
    }
}

/// Returns the sampler of an answer to `prompt`.
pub(crate) fn sampler(
    samplers: &Samplers,
    engine: &Engine,
    tokenizer: &dyn Tokenizer,
    options: &GenerateOptions,
    prompt: &[u32],
) -> Result<Sampler, Error> {
    let model = (tokenizer, engine.cpu().tier(), engine.model().vocabulary());
    let sampler = samplers.sampler(model, (&options.sampling, &options.sequence_breakers), 0, prompt);
    sampler.map_err(|error| Error::of_task(error, ""))
}
