//! One conversation or text: what was processed stays in the cache, and only what is new is computed.

use crate::breakers::{SEQUENCE_BREAKERS, sequence_breakers};
use crate::error::Error;
use leyden_constrain::Constraint;
use leyden_engine::sample::{Sampler, SamplingParams, SequenceBreakers, TokenSet};
use leyden_engine::{Engine, EngineOptions, Outputs, SequenceId, StepEntry, StepPlan};
use leyden_kernels::Cpu;
use leyden_kernels::attention::KvType;
use leyden_models::Network;
use leyden_text::{AnswerText, Tokenizer};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Tokens of a prompt computed in one step.
const PROMPT_STEP: usize = 512;

/// What a session is made for.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionOptions {
    /// The longest text in tokens, prompt and answer together; by default what the model was made for.
    pub context: Option<usize>,
    /// How keys and values are cached.
    pub kv_type: KvType,
}

/// What to generate.
#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// The most tokens; by default until the model ends or the context is full. More than fit are clipped.
    pub max_tokens: Option<usize>,
    /// How tokens are chosen: the sampling steps, their order and their parameters.
    pub sampling: SamplingParams,
    /// Texts across which DRY sees no repetition; they take the place of those in `sampling.dry`. By default
    /// [`SEQUENCE_BREAKERS`].
    pub sequence_breakers: Vec<String>,
    /// Generation ends before the first of these texts.
    pub stop: Vec<String>,
    /// For a model that reasons before it answers, the texts around that, and whether the prompt has opened it: `stop`
    /// concerns the answer alone.
    pub reasoning: Option<(String, String, bool)>,
    /// What the answer must follow, from [`Model::compile`](crate::Model::compile) and
    /// [`Compiled::start`](crate::Compiled::start). Generation ends when nothing can follow.
    pub constraint: Option<Constraint>,
}

impl Default for GenerateOptions {
    fn default() -> GenerateOptions {
        GenerateOptions {
            max_tokens: None,
            sampling: SamplingParams::default(),
            sequence_breakers: SEQUENCE_BREAKERS.map(str::to_owned).to_vec(),
            stop: Vec::new(),
            reasoning: None,
            constraint: None,
        }
    }
}

/// What the caller is told during generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// More of the prompt has been processed: tokens done, and in all.
    Prompt(usize, usize),
    /// More text, whole characters only.
    Text(&'a str),
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
pub struct Generation {
    /// The text.
    pub text: String,
    /// Its token ids; the one that ended the text, if any, is not among them.
    pub tokens: Vec<u32>,
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

/// One conversation or text.
pub struct Session {
    engine: Engine,
    tokenizer: Arc<dyn Tokenizer>,
    sequence: SequenceId,
    /// The model file, for errors.
    file: String,
    /// The tokens whose keys and values are in the cache.
    cached: Vec<u32>,
    /// The last sequence breakers, as texts and as tokens: converting them reads the whole vocabulary.
    breakers: (Vec<String>, SequenceBreakers),
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("cached", &self.cached.len()).finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(
        network: Arc<dyn Network>,
        cpu: Arc<Cpu>,
        tokenizer: Arc<dyn Tokenizer>,
        file: &str,
        options: &SessionOptions,
    ) -> Result<Session, Error> {
        let made_for = network.config().context;
        let context = options.context.unwrap_or(made_for);
        if context == 0 || context > made_for {
            let what =
                format!("{context} is not between 1 and {made_for}, the longest this model was made for");
            return Err(Error::Option { name: "ctx", what });
        }
        let options = EngineOptions {
            kv_type: options.kv_type,
            context,
            cache_tokens: context,
            step_tokens: PROMPT_STEP,
        };
        let mut engine = Engine::new(network, cpu, options)?;
        let sequence = engine.open();
        let (file, cached, breakers) = (file.to_owned(), Vec::new(), Default::default());
        Ok(Session { engine, tokenizer, sequence, file, cached, breakers })
    }

    /// The longest text in tokens.
    #[must_use]
    pub fn context(&self) -> usize {
        self.engine.options().context
    }

    /// Continues `prompt`. `on_event` gets the text as it comes and may stop it.
    ///
    /// A prompt that begins like what the session has processed before costs only what differs; the answer is the
    /// same as without.
    ///
    /// # Errors
    /// The prompt is empty or too long, an option is out of range, or the model failed.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<Generation, Error> {
        let start = Instant::now();
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if prompt.len() > self.context() {
            return Err(Error::PromptTooLong { tokens: prompt.len(), context: self.context() });
        }
        let mut chooser = Chooser { sampler: self.sampler(options)?, constraint: options.constraint.clone() };
        chooser.sampler.accept_prompt(prompt);
        let tokenizer = Arc::clone(&self.tokenizer);
        let mut answer = Answer::new(tokenizer.as_ref(), prompt, options);
        // The last token's logits are never cached, so at least it is computed again.
        let same = self.cached.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let kept = same.min(prompt.len() - 1);
        let limit = options.max_tokens.unwrap_or(usize::MAX);
        let mut result = Generation {
            text: String::new(),
            tokens: Vec::new(),
            finish: Finish::Length,
            prompt_tokens: prompt.len(),
            cached_tokens: kept,
            prefill: Duration::ZERO,
            first_token: Duration::ZERO,
            decode: Duration::ZERO,
        };
        if limit == 0 {
            return Ok(result);
        }
        let mut next = match self.prefill(prompt, kept, &mut chooser, on_event)? {
            ControlFlow::Continue(token) => token,
            ControlFlow::Break(()) => {
                result.finish = Finish::Cancelled;
                return Ok(result);
            }
        };
        result.prefill = start.elapsed();
        result.first_token = result.prefill;
        let first = Instant::now();
        // Text before a stop string is out; what is held back behind it must not come.
        let mut held = true;
        loop {
            if tokenizer.is_end(next) {
                result.finish = Finish::Stop;
                break;
            }
            result.tokens.push(next);
            let complete = chooser.accept(next)?;
            match answer.push(next, on_event) {
                Pushed::Go => {}
                Pushed::Stopped => {
                    result.finish = Finish::Stop;
                    held = false;
                    break;
                }
                Pushed::Cancelled => {
                    result.finish = Finish::Cancelled;
                    break;
                }
            }
            if complete {
                result.finish = Finish::Stop;
                break;
            }
            if result.tokens.len() >= limit || self.cached.len() >= self.context() {
                break;
            }
            next = self.advance(&[next], &mut chooser)?;
        }
        result.decode = first.elapsed();
        if held && result.finish != Finish::Cancelled && answer.finish(on_event).is_break() {
            result.finish = Finish::Cancelled;
        }
        result.text = answer.text;
        Ok(result)
    }

    fn sampler(&mut self, options: &GenerateOptions) -> Result<Sampler, Error> {
        let mut params = options.sampling.clone();
        if params.dry.is_active() {
            if self.breakers.0 != options.sequence_breakers {
                let tokens = sequence_breakers(self.tokenizer.as_ref(), &options.sequence_breakers)?;
                self.breakers = (options.sequence_breakers.clone(), tokens);
            }
            params.dry.breakers = self.breakers.1.clone();
        }
        Ok(Sampler::new(params, 0, self.engine.cpu().tier(), self.engine.model().vocabulary())?)
    }

    /// Computes the prompt from token `kept` on and chooses the first token of the answer.
    fn prefill(
        &mut self,
        prompt: &[u32],
        kept: usize,
        chooser: &mut Chooser,
        on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<(), u32>, Error> {
        self.engine.truncate(self.sequence, kept)?;
        self.cached.truncate(kept);
        let mut rest = &prompt[kept..];
        while rest.len() > PROMPT_STEP {
            let (part, after) = rest.split_at(PROMPT_STEP);
            self.step(part, Outputs::None)?;
            rest = after;
            if on_event(Event::Prompt(prompt.len() - rest.len(), prompt.len())).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        let token = self.advance(rest, chooser)?;
        let told = on_event(Event::Prompt(prompt.len(), prompt.len()));
        Ok(told.map_continue(|()| token))
    }

    /// Computes `tokens` without wanting logits.
    fn step(&mut self, tokens: &[u32], outputs: Outputs) -> Result<(), Error> {
        let entry = StepEntry { sequence: self.sequence, tokens: tokens.to_vec(), outputs };
        self.engine.step(&StepPlan { entries: vec![entry] })?;
        self.cached.extend_from_slice(tokens);
        Ok(())
    }

    /// Computes `tokens` and chooses the one after them.
    fn advance(&mut self, tokens: &[u32], chooser: &mut Chooser) -> Result<u32, Error> {
        let entry = StepEntry { sequence: self.sequence, tokens: tokens.to_vec(), outputs: Outputs::Last };
        let output = self.engine.step(&StepPlan { entries: vec![entry] })?;
        let row = output.rows().next().ok_or(Error::EmptyPrompt)?;
        let token = chooser.choose(row.logits, row.position + 1);
        let token = token.map_err(|error| match error {
            Error::Engine(e) if matches!(e.kind(), leyden_engine::ErrorKind::NotFinite) => {
                Error::NotFinite { file: self.file.clone() }
            }
            _ => error,
        })?;
        self.cached.extend_from_slice(tokens);
        Ok(token)
    }
}

/// What chooses the tokens of an answer.
struct Chooser {
    sampler: Sampler,
    constraint: Option<Constraint>,
}

impl Chooser {
    fn choose(&mut self, logits: &[f32], position: usize) -> Result<u32, Error> {
        Ok(match &mut self.constraint {
            None => self.sampler.sample(logits, position)?,
            Some(constraint) => {
                let allowed = TokenSet::new(constraint.mask()?.words());
                self.sampler.sample_masked(logits, allowed, position)?
            }
        })
    }

    /// Goes on behind a chosen token. Returns whether nothing can follow.
    fn accept(&mut self, token: u32) -> Result<bool, Error> {
        self.sampler.accept(&[token]);
        let Some(constraint) = &mut self.constraint else { return Ok(false) };
        constraint.accept(token)?;
        Ok(constraint.is_complete())
    }
}

/// The answer's text as it grows.
struct Answer<'a> {
    tokenizer: &'a dyn Tokenizer,
    pieces: AnswerText,
    text: String,
}

enum Pushed {
    Go,
    Stopped,
    Cancelled,
}

impl<'a> Answer<'a> {
    fn new(tokenizer: &'a dyn Tokenizer, prompt: &[u32], options: &GenerateOptions) -> Answer<'a> {
        let mut pieces = AnswerText::new(tokenizer, prompt, &options.stop);
        if let Some((open, close, begun)) = &options.reasoning {
            pieces = pieces.with_reasoning(open, close, *begun);
        }
        Answer { tokenizer, pieces, text: String::new() }
    }

    fn push(&mut self, token: u32, on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>) -> Pushed {
        let event = self.pieces.push(self.tokenizer, token);
        if self.say(&event.text, on_event).is_break() {
            return Pushed::Cancelled;
        }
        if event.stopped { Pushed::Stopped } else { Pushed::Go }
    }

    /// What was held back because it might have become a character or a stop text.
    fn finish(&mut self, on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
        let rest = self.pieces.finish();
        self.say(&rest, on_event)
    }

    fn say(&mut self, text: &str, on_event: &mut dyn FnMut(Event<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
        if text.is_empty() {
            return ControlFlow::Continue(());
        }
        self.text.push_str(text);
        on_event(Event::Text(text))
    }
}
