//! Mirostat (Basu et al., 2021): keeps the surprisal of the chosen tokens near a target.
//!
//! Its memory is a function of the sequence only: for each token that was drawn, the bound after it. Drawing a position
//! again drops the bounds from there on, so computing a sequence a second time gives the same tokens.

use super::candidates::Candidates;
use leyden_kernels::Tier;
use leyden_kernels::ops::{ln, pow};
use std::f64::consts::{E, LN_2};

/// Version of the algorithm, which decides how it bounds the surprisal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MirostatVersion {
    /// Keeps the best k tokens, with k estimated from Zipf's law, whose exponent is fitted to the 100 best tokens.
    V1,
    /// Drops the tokens whose surprisal exceeds the bound.
    #[default]
    V2,
}

/// Parameters of Mirostat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mirostat {
    /// Version of the algorithm.
    pub version: MirostatVersion,
    /// Target surprisal in bits: tau in the paper. 0 to 100.
    pub entropy: f32,
    /// Learning rate of the bound: eta in the paper. 0 to 100.
    pub rate: f32,
}

impl Default for Mirostat {
    fn default() -> Mirostat {
        Mirostat { version: MirostatVersion::default(), entropy: 5.0, rate: 0.1 }
    }
}

/// Number of best tokens from which version 1 estimates the exponent.
const ESTIMATE_FROM: usize = 100;

/// Bounds on the surprisal, in bits, after the tokens that were drawn.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// Positions of drawn tokens, with the bound after each.
    after: Vec<(usize, f64)>,
}

impl Bounds {
    /// Returns the bound for the token at `position`; drops the bounds from there on.
    pub(super) fn at(&mut self, position: usize, m: &Mirostat) -> f64 {
        while self.after.pop_if(|(p, _)| *p >= position).is_some() {}
        self.after.last().map_or(2.0 * f64::from(m.entropy), |(_, mu)| *mu)
    }

    /// Records that a token of this probability was drawn at `position` under the bound `mu`.
    pub(super) fn drawn(&mut self, position: usize, mu: f64, probability: f64, m: &Mirostat) {
        let surprise = -ln(probability.max(f64::MIN_POSITIVE)) / LN_2;
        self.after.push((position, mu - f64::from(m.rate) * (surprise - f64::from(m.entropy))));
    }
}

/// Keeps the tokens that the bound `mu` allows, and the best in any case.
pub(super) fn apply(m: &Mirostat, mu: f64, vocabulary: usize, c: &mut Candidates, tier: Tier) {
    match m.version {
        MirostatVersion::V1 => {
            let k = best_k(mu, vocabulary, c);
            c.keep(k);
        }
        MirostatVersion::V2 => {
            let temperature = f64::from(c.temperature());
            let weights = c.weights(tier);
            let ln_sum = ln(weights.sum);
            // -log2 p > mu, solved for the logit.
            let floor = f64::from(weights.max) + (ln_sum - mu * LN_2) * temperature;
            let end = c.best_first(|part| part.iter().position(|i| f64::from(i.logit) < floor));
            if let Some(end) = end {
                c.keep(end);
            }
        }
    }
}

/// Returns the number of best tokens that keep the expected surprisal below `mu`, by equations 29 and 30 of the paper.
fn best_k(mu: f64, vocabulary: usize, c: &mut Candidates) -> usize {
    c.sort(ESTIMATE_FROM);
    let temperature = f64::from(c.temperature());
    let items = c.items();
    let best = &items[..items.len().min(ESTIMATE_FROM)];
    if best.len() < 2 {
        return 1;
    }
    // Least squares through the origin of log-probabilities over log-ranks.
    let (mut tb, mut tt) = (0.0, 0.0);
    for (i, pair) in (1..).zip(best.windows(2)) {
        let t = ln(f64::from(i + 1) / f64::from(i));
        tb += t * (f64::from(pair[0].logit) - f64::from(pair[1].logit)) / temperature;
        tt += t * t;
    }
    let s = (tb / tt).clamp(1e-3, 1e6);
    let epsilon = s - 1.0;
    let n = ln(vocabulary.max(2) as f64);
    // The limits keep the powers finite; beyond them k is 1 or everything anyway.
    let power = |exponent: f64| pow(E, exponent.clamp(-600.0, 600.0));
    let factor = if epsilon.abs() < 1e-9 { 1.0 / n } else { epsilon / (1.0 - power(-epsilon * n)) };
    let ln_k = (ln(factor.max(f64::MIN_POSITIVE)) + mu * LN_2) / s;
    // Truncated, after adding a small margin so that whole numbers survive the logarithm.
    (power(ln_k.min(40.0)) * (1.0 + 1e-12)) as usize
}
