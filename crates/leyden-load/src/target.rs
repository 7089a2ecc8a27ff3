//! [`Target`]: a model on a server, and the number of tokens per word in its prompts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use crate::api::{Answer, Ask, reason};
use crate::control::Control;
use crate::error::{Error, ErrorKind, Result};
use crate::http::{Client, Gate};
use crate::random::Random;
use crate::record::Fail;
use crate::server::Server;
use crate::words;

/// Number of words in the probe that measures the tokens added to a prompt.
const PROBE_WORDS: usize = 8;
/// Number of words in the probe that measures the tokens per word, few enough for a small context.
const LONG_PROBE_WORDS: usize = 64;
/// Default tokens per word: that of English text with today's vocabularies.
const DEFAULT_TOKENS_PER_WORD: f64 = 1.3;
/// Value mixed into the seed of probes, so that their prompts differ from those of a run.
const PROBE_STREAM: u64 = u64::MAX;

/// Source of the tokens per word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The server's `/tokenize`.
    Tokenize,
    /// The `usage` of two probes.
    Usage,
    /// A default of 1.3, since the server reports neither.
    Assumed,
}

/// Conversion from tokens to words of prompts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Calibration {
    /// Mean tokens per word.
    pub tokens_per_word: f64,
    /// Tokens that the server adds to a prompt of this interface.
    pub overhead: f64,
    /// Source of `tokens_per_word`.
    pub source: Source,
}

impl Calibration {
    /// Returns the words of a prompt that has this many tokens including those that the server adds; at least one.
    pub(crate) fn words(&self, tokens: u32) -> usize {
        (((f64::from(tokens) - self.overhead) / self.tokens_per_word).round() as usize).max(1)
    }

    /// Returns the words of a text that has this many tokens.
    pub(crate) fn words_alone(&self, tokens: u32) -> usize {
        ((f64::from(tokens) / self.tokens_per_word).round() as usize).max(1)
    }
}

/// A model on a server, ready to be measured.
#[derive(Debug)]
pub struct Target {
    pub(crate) server: Arc<Server>,
    pub(crate) model: String,
    pub(crate) ask: Ask,
    pub(crate) calibration: Calibration,
}

impl Target {
    /// Asks a server for its models, unless `model` names one, and sends one or two short requests to measure
    /// the tokens per word. Each may take `time`.
    ///
    /// # Errors
    /// The server cannot be reached, refuses, or has no model.
    pub fn find(
        server: Server,
        model: Option<String>,
        ask: Ask,
        time: Duration,
        control: &Control,
    ) -> Result<Self> {
        let gate = control.enter()?;
        let mut probe = Probe { server: Arc::new(server), gate, ask, model: String::new(), time };
        let found = probe.find(model);
        if probe.gate.is_cut() {
            return Err(Error::new("", ErrorKind::Stopped));
        }
        let calibration = found?;
        Ok(Self { server: probe.server, model: probe.model, ask: probe.ask, calibration })
    }

    /// Returns the model's name.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the conversion from tokens to words.
    #[must_use]
    pub fn calibration(&self) -> Calibration {
        self.calibration
    }
}

struct Probe {
    server: Arc<Server>,
    gate: Arc<Gate>,
    ask: Ask,
    model: String,
    time: Duration,
}

impl Probe {
    fn find(&mut self, model: Option<String>) -> Result<Calibration> {
        self.model = match model {
            Some(model) => model,
            None => self.first_model()?,
        };
        if let Some(tokens_per_word) = self.tokenized()? {
            let overhead = self.prompt_tokens(PROBE_WORDS)?;
            let overhead = overhead.map_or(0.0, |n| f64::from(n) - PROBE_WORDS as f64 * tokens_per_word);
            return Ok(Calibration {
                tokens_per_word,
                overhead: overhead.max(0.0),
                source: Source::Tokenize,
            });
        }
        let (short, long) = (self.prompt_tokens(PROBE_WORDS)?, self.prompt_tokens(LONG_PROBE_WORDS)?);
        if let (Some(short), Some(long)) = (short, long) {
            let words = (LONG_PROBE_WORDS - PROBE_WORDS) as f64;
            let tokens_per_word = (f64::from(long) - f64::from(short)) / words;
            // A server whose counts do not grow with the prompt does not count prompt tokens.
            if tokens_per_word >= 0.25 {
                let overhead = (f64::from(short) - PROBE_WORDS as f64 * tokens_per_word).max(0.0);
                return Ok(Calibration { tokens_per_word, overhead, source: Source::Usage });
            }
        }
        Ok(Calibration { tokens_per_word: DEFAULT_TOKENS_PER_WORD, overhead: 0.0, source: Source::Assumed })
    }

    fn failed(&self, what: &str, why: impl std::fmt::Display) -> Error {
        Error::new(self.server.base().to_string(), ErrorKind::Server(format!("{what}: {why}")))
    }

    fn document(&self, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        let answer = self.server.document(&self.gate, path, body, self.time);
        answer.map_err(|fail| self.failed(path, fail.message))
    }

    fn first_model(&self) -> Result<String> {
        let path = "/v1/models";
        let (status, list) = self.document(path, None)?;
        if status != 200 {
            let said = reason(list.to_string().as_bytes()).filter(|_| !list.is_null()).unwrap_or_default();
            return Err(self.failed(path, format!("status {status} {said}").trim_end()));
        }
        let id = list["data"][0]["id"].as_str();
        id.map(str::to_owned).ok_or_else(|| self.failed(path, "the answer lists no model"))
    }

    /// Measures the tokens per word with `/tokenize`, whose dialects have two names for the text; `None` without that
    /// path.
    fn tokenized(&self) -> Result<Option<f64>> {
        let (text, n) = words::all();
        for body in [json!({ "content": text }), json!({ "model": self.model, "prompt": text })] {
            let (status, answer) = self.document("/tokenize", Some(&body))?;
            let tokens = answer["tokens"]
                .as_array()
                .map(Vec::len)
                .or_else(|| answer["count"].as_u64()?.try_into().ok());
            if let Some(tokens) = tokens.filter(|n| status == 200 && *n > 0) {
                return Ok(Some(tokens as f64 / n as f64));
            }
            if matches!(status, 404 | 405 | 501) {
                break;
            }
        }
        Ok(None)
    }

    /// Returns the prompt tokens of a request with `n` words; `None` if the server does not report them.
    fn prompt_tokens(&self, n: usize) -> Result<Option<u32>> {
        let prompt = words::text(&mut Random::new(PROBE_STREAM, n as u64), n);
        let body = self.ask.body(&self.model, None, &prompt, 1);
        let request = self.server.request(self.ask.endpoint.path(), Some(&body));
        let mut answer = Answer::new(Instant::now());
        let result: std::result::Result<(), Fail> =
            Client::new(Arc::clone(&self.server), Arc::clone(&self.gate))
                .exchange(&request, Instant::now() + self.time, &mut answer)
                .and_then(|()| answer.verdict());
        result.map_err(|fail| self.failed(self.ask.endpoint.path(), fail.message))?;
        Ok(answer.found.usage.map(|usage| usage.prompt_tokens).filter(|n| *n > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_follow_tokens() {
        let calibration = Calibration { tokens_per_word: 1.25, overhead: 10.0, source: Source::Usage };
        assert_eq!([0, 10, 110].map(|n| calibration.words(n)), [1, 1, 80]);
        assert_eq!(calibration.words_alone(100), 80);
    }
}
