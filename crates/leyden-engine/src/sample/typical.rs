//! Locally typical sampling (Meister et al., 2022): tokens whose surprisal is close to the entropy of the distribution.

use super::candidates::{Candidates, Item, sort_part};
use super::params::SamplingParams;
use super::step::{Context, Effect, Step};
use leyden_kernels::ops::ln;

pub(super) const STEP: Step = Step { effect: Effect::MayDropBest, is_active: |p| p.typical < 1.0, apply };

/// Token with its probability and the distance of its surprisal from the entropy.
struct Scored {
    distance: f64,
    probability: f64,
    item: Item,
}

/// Keeps the tokens whose surprisal is nearest to the entropy: the smallest set whose probabilities reach `typical`.
/// Among equally near ones the more probable comes first, then the lower id.
fn apply(p: &SamplingParams, c: &mut Candidates, at: &mut Context<'_>) {
    let weights = c.weights(at.tier);
    let ln_sum = ln(weights.sum);
    let surprise = |i: &Item| ln_sum - (f64::from(i.logit) - f64::from(weights.max));
    let items = c.items();
    let share = |w: &f32| f64::from(*w) / weights.sum;
    let entropy: f64 = items.iter().zip(&weights.values).map(|(i, w)| share(w) * surprise(i)).sum();
    let mut scored: Vec<Scored> = items
        .iter()
        .zip(&weights.values)
        .map(|(i, w)| Scored { distance: (surprise(i) - entropy).abs(), probability: share(w), item: *i })
        .collect();
    let nearest = |a: &Scored, b: &Scored| {
        let by_logit = || b.item.logit.total_cmp(&a.item.logit);
        a.distance.total_cmp(&b.distance).then_with(by_logit).then(a.item.id.cmp(&b.item.id))
    };
    let mut reached = 0.0;
    let (mut done, mut want) = (0, 64);
    while done < scored.len() {
        let end = want.min(scored.len());
        sort_part(&mut scored, done, end, nearest);
        for (i, s) in (done + 1..).zip(&scored[done..end]) {
            reached += s.probability;
            if reached >= f64::from(p.typical) {
                scored.truncate(i);
                c.replace(scored.iter().map(|s| s.item).collect());
                return;
            }
        }
        (done, want) = (end, want * 4);
    }
}
