//! Top-p, or nucleus sampling (Holtzman et al., 2019): the fewest best tokens that reach a probability.

use super::candidates::Candidates;
use leyden_kernels::{Tier, ops};

/// Keeps the best tokens whose probabilities, among the candidates, first reach `top_p`.
pub(super) fn apply(top_p: f32, c: &mut Candidates, tier: Tier) {
    if top_p >= 1.0 || c.items.is_empty() {
        return;
    }
    let logits: Vec<f32> = c.items.iter().map(|i| i.logit).collect();
    let (max, sum) = ops::log_sum_exp(tier, &logits);
    let mut reached = 0.0;
    let mut done = 0;
    // Usually a few dozen tokens suffice, so the rest is never sorted.
    let mut want = 64;
    loop {
        c.sort(want);
        let end = want.min(c.items.len());
        let mut p: Vec<f32> = c.items[done..end].iter().map(|i| i.logit - max).collect();
        ops::exp(tier, &mut p);
        for (i, e) in p.iter().enumerate() {
            reached += e / sum;
            if reached >= top_p {
                c.keep(done + i + 1);
                return;
            }
        }
        if end == c.items.len() {
            return;
        }
        done = end;
        want *= 4;
    }
}
