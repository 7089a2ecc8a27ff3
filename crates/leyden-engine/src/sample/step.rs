//! [`Step`]: one step between the logits and the draw.

use super::candidates::Candidates;
use super::params::SamplingParams;
use super::random::Random;
use super::tally::Tally;
use leyden_kernels::Tier;

/// Effect of a step on the candidates. It decides which steps are left out before a greedy choice, and which ones
/// Mirostat replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Lowers the logits of some tokens.
    Penalises,
    /// Drops tokens, never the best.
    KeepsBest,
    /// Drops tokens, perhaps the best, never all.
    MayDropBest,
    /// Divides all logits by one number, or keeps the best alone.
    Scales,
}

/// Sampling step.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) effect: Effect,
    /// Returns true if the parameters make the step change anything.
    pub(super) is_active: fn(&SamplingParams) -> bool,
    pub(super) apply: fn(&SamplingParams, &mut Candidates, &mut Context<'_>),
}

/// Input of a step besides the parameters and the candidates.
#[derive(Debug)]
pub(super) struct Context<'a> {
    pub(super) tier: Tier,
    pub(super) vocabulary: usize,
    /// Tokens of the sequence so far.
    pub(super) history: &'a [u32],
    /// Number of these that belong to the prompt.
    pub(super) prompt: usize,
    pub(super) tally: &'a mut Tally,
    pub(super) random: Random,
}
