//! The choice of the next token.
//!
//! Steps run in this order, each on what the one before left: logit bias; repetition, frequency and presence
//! penalties; top-k; top-p; min-p; temperature; draw. At temperature 0 the best token is taken after bias and
//! penalties. Ties go to the lower id. The random number depends on (seed, choice, position) alone, so the same
//! seed gives the same text whatever else runs.

mod candidates;
mod min_p;
mod penalties;
mod random;
mod top_k;
mod top_p;

use crate::error::{Error, ErrorKind};
use candidates::Candidates;
use leyden_kernels::{Tier, ops};
pub use penalties::Penalties;

/// How tokens are chosen. The default is what `leyden run` uses.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingParams {
    /// Divides the logits; 0 takes the best token always. 0 to 100.
    pub temperature: f32,
    /// Keeps this many best tokens; 0 keeps all.
    pub top_k: usize,
    /// Keeps the best tokens whose probabilities first reach this sum; 1 keeps all. Above 0, to 1.
    pub top_p: f32,
    /// Drops tokens less probable than this share of the best; 0 keeps all. 0 to 1.
    pub min_p: f32,
    /// Penalties on tokens that were used.
    pub penalties: Penalties,
    /// Added to the logits of these tokens; minus infinity forbids one.
    pub logit_bias: Vec<(u32, f32)>,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for SamplingParams {
    fn default() -> SamplingParams {
        SamplingParams {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            penalties: Penalties::default(),
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

impl SamplingParams {
    /// The best token always.
    #[must_use]
    pub fn greedy() -> SamplingParams {
        SamplingParams { temperature: 0.0, ..SamplingParams::default() }
    }

    /// Checks every parameter for a model of `vocabulary` tokens.
    ///
    /// # Errors
    /// Names the first parameter outside its range.
    pub fn check(&self, vocabulary: usize) -> Result<(), Error> {
        let within = |name, value: f32, low: f32, high: f32| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(Error::from(ErrorKind::Parameter {
                name,
                what: format!("{value} is not between {low} and {high}"),
            }))
        };
        within("temperature", self.temperature, 0.0, 100.0)?;
        within("top_p", self.top_p, f32::MIN_POSITIVE, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("repeat_penalty", self.penalties.repeat, 0.01, 100.0)?;
        within("frequency_penalty", self.penalties.frequency, -100.0, 100.0)?;
        within("presence_penalty", self.penalties.presence, -100.0, 100.0)?;
        for &(id, bias) in &self.logit_bias {
            if id as usize >= vocabulary {
                let what = format!("token {id} is outside the vocabulary of {vocabulary}");
                return Err(ErrorKind::Parameter { name: "logit_bias", what }.into());
            }
            if bias.is_nan() || bias == f32::INFINITY {
                let what = format!("{bias} for token {id} is not a number");
                return Err(ErrorKind::Parameter { name: "logit_bias", what }.into());
            }
        }
        Ok(())
    }
}

/// Chooses the tokens of one sequence.
#[derive(Debug)]
pub struct Sampler {
    params: SamplingParams,
    choice: u64,
    tier: Tier,
    history: Vec<u32>,
    adjusted: Vec<f32>,
    candidates: Candidates,
}

impl Sampler {
    /// A sampler for the `choice`-th of several answers to one prompt.
    ///
    /// # Errors
    /// A parameter is outside its range.
    pub fn new(params: SamplingParams, choice: u64, tier: Tier, vocabulary: usize) -> Result<Sampler, Error> {
        params.check(vocabulary)?;
        let (history, adjusted) = (Vec::new(), Vec::new());
        Ok(Sampler { params, choice, tier, history, adjusted, candidates: Candidates::default() })
    }

    /// Tells the sampler of tokens in the sequence: the prompt's, then each chosen one.
    pub fn accept(&mut self, tokens: &[u32]) {
        self.history.extend_from_slice(tokens);
    }

    /// The next token after `logits`, for position `position` of the sequence.
    ///
    /// # Errors
    /// The logits are not numbers, or every token is forbidden.
    pub fn sample(&mut self, logits: &[f32], position: usize) -> Result<u32, Error> {
        let p = &self.params;
        let changed = !p.logit_bias.is_empty() || !p.penalties.is_neutral();
        let logits = if changed {
            self.adjusted.clear();
            self.adjusted.extend_from_slice(logits);
            for &(id, bias) in &p.logit_bias {
                if let Some(l) = self.adjusted.get_mut(id as usize) {
                    *l += bias;
                }
            }
            p.penalties.apply(&self.history, &mut self.adjusted);
            &self.adjusted
        } else {
            logits
        };
        let best = match argmax(logits)? {
            Some(best) => best,
            None if p.logit_bias.is_empty() => return Err(ErrorKind::NotFinite.into()),
            None => {
                let what = "every token is forbidden".to_owned();
                return Err(ErrorKind::Parameter { name: "logit_bias", what }.into());
            }
        };
        if p.temperature == 0.0 {
            return Ok(best);
        }
        let c = &mut self.candidates;
        c.fill(logits);
        top_k::apply(p.top_k, c);
        top_p::apply(p.top_p, c, self.tier);
        min_p::apply(p.min_p, c, logits[best as usize]);
        c.sort_all();
        let max = logits[best as usize];
        let mut weights: Vec<f32> = c.items.iter().map(|i| (i.logit - max) / p.temperature).collect();
        ops::exp(self.tier, &mut weights);
        let total: f64 = weights.iter().map(|w| f64::from(*w)).sum();
        let mut rest = random::uniform(p.seed, self.choice, position as u64) * total;
        for (item, weight) in c.items.iter().zip(&weights) {
            rest -= f64::from(*weight);
            if rest < 0.0 {
                return Ok(item.id);
            }
        }
        // Only rounding leaves something over.
        Ok(c.items.last().map_or(best, |i| i.id))
    }
}

/// The id of the largest value, the lowest among equals; `None` if all are minus infinity.
fn argmax(logits: &[f32]) -> Result<Option<u32>, Error> {
    let mut best: Option<(usize, f32)> = None;
    for (i, &l) in logits.iter().enumerate() {
        if l.is_nan() || l == f32::INFINITY {
            return Err(ErrorKind::NotFinite.into());
        }
        if l > best.map_or(f32::NEG_INFINITY, |(_, b)| b) {
            best = Some((i, l));
        }
    }
    let id =
        |(i, _)| u32::try_from(i).map_err(|_| ErrorKind::Token { id: u32::MAX, vocabulary: logits.len() });
    Ok(best.map(id).transpose()?)
}

#[cfg(test)]
mod tests;
