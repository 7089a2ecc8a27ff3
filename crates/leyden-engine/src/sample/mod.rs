//! The choice of the next token.
//!
//! First comes the logit bias, last the draw. Between them run the steps of [`SamplingParams::order`], each on what the
//! one before left. The default order is that of [`SamplingStep::ALL`]: penalties, DRY, top-n-sigma, top-k, typical,
//! top-p, min-p, XTC, temperature. With [`Mirostat`] the steps that drop tokens do not run; its bound takes their place
//! just before the draw.
//!
//! With a [`TokenSet`] the other tokens are out from the start: no step sees them, and their probability is zero
//! throughout.
//!
//! No step drops all tokens. Ties go to the lower id. The random numbers depend on (seed, choice, position) alone, and
//! what a step remembers on the sequence's own tokens alone, so the same seed gives the same text whatever else runs,
//! and when a part of it is computed again.

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
use leyden_kernels::{Tier, ops};
pub use mirostat::{Mirostat, MirostatVersion};
pub use names::SamplingStep;
pub use params::{Dry, DynamicTemperature, Penalties, SamplingParams, Xtc};
use random::Random;
use step::Context;
use tally::Tally;

/// Up to this many candidates are sorted for the draw in one go.
const SORT_ALL: usize = 1024;

/// Chooses the tokens of one sequence.
#[derive(Debug)]
pub struct Sampler {
    params: SamplingParams,
    /// The steps that have something to do.
    steps: Vec<SamplingStep>,
    choice: u64,
    tier: Tier,
    vocabulary: usize,
    history: Vec<u32>,
    /// How many tokens of the history are the prompt's.
    prompt: usize,
    tally: Tally,
    bounds: mirostat::Bounds,
    candidates: Candidates,
}

impl Sampler {
    /// A sampler for the `choice`-th of several answers to one prompt.
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

    /// Tells the sampler of the prompt, before any chosen token. What counts generated tokens alone leaves it out.
    pub fn accept_prompt(&mut self, tokens: &[u32]) {
        self.history.extend_from_slice(tokens);
        self.prompt = self.history.len();
    }

    /// Tells the sampler of chosen tokens, in order.
    pub fn accept(&mut self, tokens: &[u32]) {
        self.history.extend_from_slice(tokens);
    }

    /// The next token after `logits`, for position `position` of the sequence.
    ///
    /// # Errors
    /// The logits are not numbers, or every token is forbidden.
    pub fn sample(&mut self, logits: &[f32], position: usize) -> Result<u32, Error> {
        self.choose(logits, None, position)
    }

    /// The next token after `logits`, for position `position` of the sequence, chosen among `allowed` alone. With
    /// guesses, where [`verify`](crate::schedule::verify) asks for one token after the other, the set must be
    /// the one after the tokens accepted so far, as it is without.
    ///
    /// # Errors
    /// As [`Sampler::sample`]; also if no token is both allowed and possible.
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
        let random = self.random(position).draw();
        let (token, probability) = self.draw(random)?;
        if let (Some(mu), Some(m)) = (mu, &self.params.mirostat) {
            self.bounds.drawn(position, mu, probability, m);
        }
        Ok(token)
    }

    /// The tokens that may come next after `logits`, for position `position` of the sequence, with their
    /// probabilities, best first. A token drawn there is drawn from these.
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

    /// Leaves what may be drawn in the candidates. With Mirostat gives its bound.
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

    /// Draws one of the candidates by a number in `[0, 1)`; the token and its probability.
    fn draw(&mut self, random: f64) -> Result<(u32, f64), Error> {
        let c = &mut self.candidates;
        if c.items().len() <= SORT_ALL {
            c.sort_all();
        }
        let weights = c.weights(self.tier);
        let temperature = c.temperature();
        let mut rest = random * weights.sum;
        let mut drawn = 0.0;
        let at = c.best_first(|part| {
            let mut values: Vec<f32> = part.iter().map(|i| (i.logit - weights.max) / temperature).collect();
            ops::exp(self.tier, &mut values);
            values.iter().position(|w| {
                drawn = f64::from(*w);
                rest -= drawn;
                rest < 0.0
            })
        });
        // Only rounding leaves something over.
        let items = c.items();
        let item = at.and_then(|at| items.get(at)).or(items.last());
        item.map(|i| (i.id, drawn / weights.sum)).ok_or_else(|| ErrorKind::NotFinite.into())
    }
}

#[cfg(test)]
mod tests;
