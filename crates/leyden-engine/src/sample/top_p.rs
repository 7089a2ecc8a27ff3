//! Top-p, or nucleus sampling (Holtzman et al., 2019): the smallest set of best tokens whose probabilities reach a sum.

use super::candidates::Candidates;
use super::params::SamplingParams;
use super::step::{Context, Effect, Step};
use leyden_kernels::ops;

pub(super) const STEP: Step = Step { effect: Effect::KeepsBest, is_active: |p| p.top_p < 1.0, apply };

/// Keeps the best tokens until the sum of their probabilities, among the candidates, reaches `top_p`.
fn apply(p: &SamplingParams, c: &mut Candidates, at: &mut Context<'_>) {
    let logits: Vec<f32> = c.items().iter().map(|i| i.logit).collect();
    let (max, sum) = ops::log_sum_exp(at.tier, &logits);
    let mut reached = 0.0;
    let last = c.best_first(|part| {
        let mut shares: Vec<f32> = part.iter().map(|i| i.logit - max).collect();
        ops::exp(at.tier, &mut shares);
        shares.iter().position(|e| {
            reached += e / sum;
            reached >= p.top_p
        })
    });
    if let Some(last) = last {
        c.keep(last + 1);
    }
}
