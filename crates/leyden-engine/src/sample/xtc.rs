//! XTC, "exclude top choices" (p-e-w, 2024): now and then the obvious tokens are left out.

use super::candidates::Candidates;
use super::order::{Effect, Step};
use super::{Context, SamplingParams};
use leyden_kernels::ops;

/// Parameters of XTC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xtc {
    /// How often the step acts at all; 0 never, 1 always. 0 to 1.
    pub probability: f32,
    /// Tokens of at least this probability are obvious; above 0.5 there cannot be two of them. 0 to 1.
    pub threshold: f32,
}

impl Default for Xtc {
    fn default() -> Xtc {
        Xtc { probability: 0.0, threshold: 0.1 }
    }
}

pub(super) const STEP: Step = Step {
    effect: Effect::MayDropBest,
    is_active: |p| p.xtc.probability > 0.0 && p.xtc.threshold <= 0.5,
    apply,
};

/// With the given probability, drops all obvious tokens but the least probable of them.
fn apply(p: &SamplingParams, c: &mut Candidates, at: &mut Context<'_>) {
    if at.random.xtc() >= f64::from(p.xtc.probability) {
        return;
    }
    let weights = c.weights(at.tier);
    let least = f64::from(p.xtc.threshold) * weights.sum;
    let end = c.best_first(|part| {
        let mut values: Vec<f32> = part.iter().map(|i| i.logit - weights.max).collect();
        ops::exp(at.tier, &mut values);
        values.iter().position(|w| f64::from(*w) < least)
    });
    let obvious = end.unwrap_or(c.items().len());
    if obvious >= 2 {
        c.drop_best(obvious - 1);
    }
}
