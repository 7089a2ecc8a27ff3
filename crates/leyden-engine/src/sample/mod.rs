//! Sampling: the choice of the next token.
//!
//! The logit bias is applied first, and the token is drawn last. Between them run the steps of
//! [`SamplingParams::order`], each on the candidates that the previous one left. The default order is that of
//! [`SamplingStep::ALL`]: penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature. With
//! [`Mirostat`] the steps that drop tokens do not run; instead its bound is applied just before the draw.
//!
//! With a [`TokenSet`] all other tokens are removed before the first step, and their probability is zero throughout.
//!
//! No step drops all tokens. Ties go to the lower id. The random numbers depend on (seed, choice, position, token) alone, and
//! the memory of a step on the sequence's own tokens alone. So the same seed gives the same text, whatever else runs
//! and also if a part is computed again.

mod allowed;
mod breakers;
mod candidates;
mod dry;
mod min_p;
mod mirostat;
mod names;
mod order;
mod params;
mod penalties;
mod propose;
mod random;
mod step;
mod tally;
mod temperature;
mod top_k;
mod top_n_sigma;
mod top_p;
mod typical;
mod xtc;

use crate::error::{Error, ErrorKind};
pub use allowed::TokenSet;
pub use breakers::SequenceBreakers;
use candidates::{Candidates, Item};
use leyden_kernels::Tier;
pub use mirostat::{Mirostat, MirostatVersion};
pub use names::SamplingStep;
pub use params::{Dry, DynamicTemperature, Penalties, SamplingParams, Xtc};
pub use propose::Proposal;
use random::Random;
use step::Context;
use tally::Tally;

/// Sampler of one sequence.
#[derive(Debug)]
pub struct Sampler {
    params: SamplingParams,
    /// Steps that change anything.
    steps: Vec<SamplingStep>,
    choice: u64,
    tier: Tier,
    vocabulary: usize,
    history: Vec<u32>,
    /// Number of the prompt's tokens in the history.
    prompt: usize,
    tally: Tally,
    bounds: mirostat::Bounds,
    candidates: Candidates,
}

impl Sampler {
    /// Creates a sampler for the `choice`-th of several answers to one prompt.
    ///
    /// # Errors
    /// A parameter is outside its range.
    pub fn new(params: SamplingParams, choice: u64, tier: Tier, vocabulary: usize) -> Result<Sampler, Error> {
        params.check(vocabulary)?;
        Ok(Sampler {
            steps: order::plan(&params),
            params,
            choice,
            tier,
            vocabulary,
            history: Vec::new(),
            prompt: 0,
            tally: Tally::default(),
            bounds: mirostat::Bounds::default(),
            candidates: Candidates::default(),
        })
    }

    /// Adds the prompt to the history, before any sampled token. Penalties on generated tokens only ignore it.
    pub fn accept_prompt(&mut self, tokens: &[u32]) {
        self.history.extend_from_slice(tokens);
        self.prompt = self.history.len();
    }

    /// Adds sampled tokens to the history, in order.
    pub fn accept(&mut self, tokens: &[u32]) {
        self.history.extend_from_slice(tokens);
    }

    /// Samples the token after `logits`, for position `position` of the sequence.
    ///
    /// # Errors
    /// A logit is NaN or infinite, or the logit bias forbids every token.
    pub fn sample(&mut self, logits: &[f32], position: usize) -> Result<u32, Error> {
        self.choose(logits, None, position)
    }

    /// Samples the token after `logits`, for position `position` of the sequence, from `allowed` only. With draft
    /// tokens, where [`verify`](crate::schedule::verify) asks for one token after the other, the set must be the one
    /// after the tokens accepted so far, as without a draft.
    ///
    /// # Errors
    /// As [`Sampler::sample`]; or the constraint allows no token that has a finite logit.
    pub fn sample_masked(
        &mut self,
        logits: &[f32],
        allowed: TokenSet<'_>,
        position: usize,
    ) -> Result<u32, Error> {
        self.choose(logits, Some(allowed), position)
    }

    fn choose(
        &mut self,
        logits: &[f32],
        allowed: Option<TokenSet<'_>>,
        position: usize,
    ) -> Result<u32, Error> {
        let mu = self.run(logits, allowed, position)?;
        let (token, probability) = self.draw(position)?;
        if let (Some(mu), Some(m)) = (mu, &self.params.mirostat) {
            self.bounds.drawn(position, mu, probability, m);
        }
        Ok(token)
    }

    /// Returns the tokens that can be drawn after `logits`, for position `position` of the sequence, with their
    /// probabilities, best first. [`sample`](Sampler::sample) draws from these.
    ///
    /// # Errors
    /// As [`Sampler::sample`].
    pub fn distribution(&mut self, logits: &[f32], position: usize) -> Result<Vec<(u32, f64)>, Error> {
        self.run(logits, None, position)?;
        let c = &mut self.candidates;
        c.sort_all();
        let weights = c.weights(self.tier);
        let share = |(i, w): (&Item, &f32)| (i.id, f64::from(*w) / weights.sum);
        Ok(c.items().iter().zip(&weights.values).map(share).collect())
    }

    fn random(&self, position: usize) -> Random {
        Random { seed: self.params.seed, choice: self.choice, position: position as u64 }
    }

    /// Runs all steps, which leave the tokens that can be drawn in the candidates. Returns the bound of Mirostat, if
    /// that is on.
    fn run(
        &mut self,
        logits: &[f32],
        allowed: Option<TokenSet<'_>>,
        position: usize,
    ) -> Result<Option<f64>, Error> {
        let random = self.random(position);
        let (p, c) = (&self.params, &mut self.candidates);
        if !c.fill(logits) {
            return Err(ErrorKind::NotFinite.into());
        }
        if let Some(allowed) = allowed {
            c.allow(allowed);
        }
        for &(id, bias) in &p.logit_bias {
            if bias == f32::NEG_INFINITY {
                c.forbid(id);
            } else {
                c.adjust([id], |_, logit| logit + bias);
            }
        }
        if c.best().is_none() {
            if allowed.is_some() {
                return Err(ErrorKind::NothingAllowed.into());
            }
            if p.logit_bias.is_empty() {
                return Err(ErrorKind::NotFinite.into());
            }
            let what = "every token is forbidden".to_owned();
            return Err(ErrorKind::Parameter { name: "logit_bias", what }.into());
        }
        let (tier, vocabulary, history, prompt) = (self.tier, self.vocabulary, &self.history, self.prompt);
        let mut at = Context { tier, vocabulary, history, prompt, tally: &mut self.tally, random };
        for step in &self.steps {
            c.settle();
            (order::step(*step).apply)(p, c, &mut at);
        }
        Ok(p.mirostat.map(|m| {
            let mu = self.bounds.at(position, &m);
            mirostat::apply(&m, mu, self.vocabulary, c, self.tier);
            mu
        }))
    }

    /// Draws one of the candidates for a position. Returns the token and its probability.
    ///
    /// Each candidate waits for a time of an exponential distribution, with its probability as the rate, and the first
    /// one is drawn. Every token has a random number of its own: so two models with nearly the same probabilities, such
    /// as a model and its draft model, nearly always draw the same token (Daliri, Musco and Suresh, "Coupling without
    /// Communication and Drafter-Invariant Speculative Decoding", 2024).
    fn draw(&mut self, position: usize) -> Result<(u32, f64), Error> {
        let random = self.random(position);
        let c = &mut self.candidates;
        let weights = c.weights(self.tier);
        let mut first: Option<(f64, u32, f64)> = None;
        for (item, weight) in c.items().iter().zip(&weights.values) {
            let (weight, number) = (f64::from(*weight), random.of_token(item.id));
            // -ln x is at least 1 - x, which spares most logarithms.
            if weight <= 0.0 || first.is_some_and(|(time, ..)| 1.0 - number >= time * weight) {
                continue;
            }
            let time = -number.ln() / weight;
            if first.is_none_or(|(least, id, _)| time < least || time == least && item.id < id) {
                first = Some((time, item.id, weight));
            }
        }
        first.map(|(_, id, weight)| (id, weight / weights.sum)).ok_or_else(|| ErrorKind::NotFinite.into())
    }
}

#[cfg(test)]
mod tests;
