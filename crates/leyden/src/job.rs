//! What the library asks of the engine: an answer, log probabilities, a vector.

use crate::breakers::sequence_breakers;
use crate::error::Error;
use crate::generation::Finish;
use crate::options::GenerateOptions;
use leyden_constrain::Constraint;
use leyden_engine::sample::{Sampler, SequenceBreakers, TokenSet};
use leyden_engine::schedule::verify;
use leyden_engine::{Answer, Engine, ErrorKind, LogitReader, OutputRow, Pool, StateRow, TokenLogprobs};
use leyden_text::{AnswerText, Tokenizer};
use std::sync::Arc;
use std::time::Instant;

/// One request.
pub(crate) enum Job {
    Text(Box<Text>),
    /// With how many of the best tokens each is told, and what was told.
    Scores(usize, Vec<TokenLogprobs>),
    Vector(Pool),
    /// What reads the logits.
    Logits(Arc<LogitReader>),
    /// Nothing but that it is computed.
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

    fn pool(&mut self, states: &[StateRow<'_>]) {
        if let Job::Vector(pool) = self {
            states.iter().for_each(|row| pool.push(row.position, row.state));
        }
    }

    fn choose(&mut self, rows: &[OutputRow<'_>], guesses: &[u32]) -> (Vec<u32>, bool) {
        match self {
            Job::Text(text) => text.choose(rows, guesses),
            // They ask for no token.
            _ => (Vec::new(), true),
        }
    }
}

/// An answer that grows.
pub(crate) struct Text {
    tokenizer: Arc<dyn Tokenizer>,
    sampler: Sampler,
    constraint: Option<Constraint>,
    pieces: AnswerText,
    logprobs: Option<usize>,
    /// All of it, and how much of that was told.
    pub(crate) text: String,
    pub(crate) told: usize,
    pub(crate) tokens: Vec<u32>,
    pub(crate) scores: Vec<TokenLogprobs>,
    /// When the first token was chosen.
    pub(crate) first: Option<Instant>,
    /// Why it ended, if that was decided here.
    pub(crate) end: Option<Result<Finish, Error>>,
    /// Whether a stop text ended it: what is held back must not come.
    stopped: bool,
}

impl Text {
    /// Nothing yet. The sampler has accepted no token.
    pub(crate) fn new(
        tokenizer: Arc<dyn Tokenizer>,
        mut sampler: Sampler,
        prompt: &[u32],
        options: &GenerateOptions,
    ) -> Text {
        sampler.accept_prompt(prompt);
        let mut pieces = AnswerText::new(tokenizer.as_ref(), prompt, &options.stop);
        if let Some((open, close, begun)) = &options.reasoning {
            pieces = pieces.with_reasoning(open, close, *begun);
        }
        Text {
            tokenizer,
            sampler,
            constraint: options.constraint.clone(),
            pieces,
            logprobs: options.logprobs,
            text: String::new(),
            told: 0,
            tokens: Vec::new(),
            scores: Vec::new(),
            first: None,
            end: None,
            stopped: false,
        }
    }

    fn choose(&mut self, rows: &[OutputRow<'_>], guesses: &[u32]) -> (Vec<u32>, bool) {
        let mut chosen = Vec::new();
        // An error ends the choosing, also where it only means that the answer is complete.
        let ended = verify::<Result<Finish, Error>>(guesses, |i| {
            let token = self.token(rows[i].logits, rows[i].position + 1).map_err(Err)?;
            chosen.push(token);
            self.first.get_or_insert_with(Instant::now);
            match self.accept(token, rows[i].logits) {
                Ok(None) => Ok(token),
                Ok(Some(finish)) => Err(Ok(finish)),
                Err(error) => Err(Err(error)),
            }
        });
        self.end = ended.err();
        (chosen, self.end.is_some())
    }

    fn token(&mut self, logits: &[f32], position: usize) -> Result<u32, Error> {
        Ok(match &mut self.constraint {
            None => self.sampler.sample(logits, position)?,
            Some(constraint) => {
                let allowed = TokenSet::new(constraint.mask()?.words());
                self.sampler.sample_masked(logits, allowed, position)?
            }
        })
    }

    /// Takes in a token; whether the answer ends with it.
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
        }
        let event = self.pieces.push(self.tokenizer.as_ref(), token);
        self.text.push_str(&event.text);
        self.stopped = event.stopped;
        Ok((event.stopped || complete).then_some(Finish::Stop))
    }

    /// The answer is over: what was held back because it might have become a character or a stop text is text.
    pub(crate) fn complete(&mut self) {
        if !self.stopped {
            let rest = self.pieces.finish();
            self.text.push_str(&rest);
        }
    }

    /// Text that was not told yet.
    pub(crate) fn news(&mut self) -> Option<String> {
        let news = self.text[self.told..].to_owned();
        self.told = self.text.len();
        (!news.is_empty()).then_some(news)
    }
}

/// An error of the engine, with the model's file where it is the model's fault.
pub(crate) fn named(error: Error, file: &str) -> Error {
    match error {
        Error::Engine(e) if matches!(e.kind(), ErrorKind::NotFinite) => {
            Error::NotFinite { file: file.to_owned() }
        }
        other => other,
    }
}

/// Makes samplers. It remembers the last sequence breakers as tokens: converting them reads the whole vocabulary.
#[derive(Default)]
pub(crate) struct Samplers {
    breakers: (Vec<String>, SequenceBreakers),
}

impl Samplers {
    pub(crate) fn sampler(
        &mut self,
        engine: &Engine,
        tokenizer: &dyn Tokenizer,
        options: &GenerateOptions,
    ) -> Result<Sampler, Error> {
        let mut params = options.sampling.clone();
        if params.dry.is_active() {
            if self.breakers.0 != options.sequence_breakers {
                let tokens = sequence_breakers(tokenizer, &options.sequence_breakers)?;
                self.breakers = (options.sequence_breakers.clone(), tokens);
            }
            params.dry.breakers = self.breakers.1.clone();
        }
        Ok(Sampler::new(params, 0, engine.cpu().tier(), engine.model().vocabulary())?)
    }
}
