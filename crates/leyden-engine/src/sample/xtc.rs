//! XTC, "exclude top choices" (p-e-w, 2024): with some probability, drops the most probable tokens.

use super::candidates::Candidates;
use super::params::SamplingParams;
use super::step::{Context, Effect, Step};
use leyden_kernels::ops;

pub(super) const STEP: Step = Step {
    effect: Effect::MayDropBest,
    is_active: |p| p.xtc.probability > 0.0 && p.xtc.threshold <= 0.5,
    apply,
};

/// Drops, with the given probability, all tokens that reach the threshold but the least probable of them.
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
