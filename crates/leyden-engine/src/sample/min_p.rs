//! Min-p (Nguyen et al., 2024): tokens at least a given share as probable as the best.

use super::candidates::Candidates;
use super::params::SamplingParams;
use super::step::{Context, Effect, Step};
use leyden_kernels::ops::ln;

pub(super) const STEP: Step = Step { effect: Effect::KeepsBest, is_active: |p| p.min_p > 0.0, apply };

/// Drops tokens whose probability is below `min_p` times that of the best.
fn apply(p: &SamplingParams, c: &mut Candidates, _: &mut Context<'_>) {
    if let Some(best) = c.best() {
        c.keep_above(best.logit + ln(f64::from(p.min_p)) as f32);
    }
}
