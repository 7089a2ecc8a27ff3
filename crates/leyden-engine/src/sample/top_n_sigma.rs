//! Top-n-sigma (Tang et al., 2024): tokens within n standard deviations of the best logit.
//!
//! Most logits are noise around a mean; the informative ones lie above it. Unlike a cut on probabilities, this one does
//! not depend on the temperature.

use super::candidates::Candidates;
use super::params::SamplingParams;
use super::step::{Context, Effect, Step};

pub(super) const STEP: Step = Step { effect: Effect::KeepsBest, is_active: |p| p.top_n_sigma > 0.0, apply };

/// Sums `f` over the logits in eight partial sums, so that additions do not depend on each other.
fn sum(c: &mut Candidates, f: impl Fn(f64) -> f64) -> f64 {
    let (parts, rest) = c.items().as_chunks::<8>();
    let mut sums = [0.0; 8];
    for part in parts {
        for i in 0..8 {
            sums[i] += f(f64::from(part[i].logit));
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|i| f(f64::from(i.logit))).sum::<f64>()
}

/// Drops candidates more than `top_n_sigma` standard deviations of the candidates' logits below the best.
fn apply(p: &SamplingParams, c: &mut Candidates, _: &mut Context<'_>) {
    let Some(best) = c.best() else { return };
    let n = c.items().len() as f64;
    let mean = sum(c, |l| l) / n;
    let sigma = (sum(c, |l| (l - mean) * (l - mean)) / n).sqrt();
    // Rounding must not lift the bound above the best.
    let floor = (f64::from(best.logit) - f64::from(p.top_n_sigma) * sigma) as f32;
    c.keep_above(floor.min(best.logit));
}
