//! Top-k (Fan et al., 2018): only the k best tokens.

use super::candidates::Candidates;
use super::params::SamplingParams;
use super::step::{Context, Effect, Step};

pub(super) const STEP: Step = Step { effect: Effect::KeepsBest, is_active: |p| p.top_k > 0, apply };

/// Keeps the `top_k` best tokens.
fn apply(p: &SamplingParams, c: &mut Candidates, _: &mut Context<'_>) {
    c.keep(p.top_k);
}
