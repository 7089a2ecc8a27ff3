//! The table of the steps and the order in which they run.

use super::names::{SamplingStep, table_of_steps};
use super::params::SamplingParams;
use super::step::{Effect, Step};

/// Declares the function from a name to its step.
macro_rules! declare {
    ($($(#[$doc:meta])* $name:ident $module:ident $text:literal,)*) => {
        /// Returns the step of a name.
        pub(super) fn step(name: SamplingStep) -> Step {
            match name {
                $(SamplingStep::$name => super::$module::STEP,)*
            }
        }
    };
}

table_of_steps!(declare);

/// Returns the steps that change anything, in order.
pub(super) fn plan(p: &SamplingParams) -> Vec<SamplingStep> {
    let effect = |s: &SamplingStep| step(*s).effect;
    let truncates = |s: &SamplingStep| matches!(effect(s), Effect::KeepsBest | Effect::MayDropBest);
    let mut steps: Vec<SamplingStep> = p.order.iter().copied().filter(|s| (step(*s).is_active)(p)).collect();
    if p.mirostat.is_some() {
        steps.retain(|s| !truncates(s));
    }
    // With greedy choice, a step that drops only others has no effect, unless a later step may drop or lower the best.
    let scale = steps.iter().position(|s| effect(s) == Effect::Scales);
    if let Some(scale) = scale
        && p.temperature == 0.0
        && p.dynamic_temperature.range == 0.0
    {
        steps.truncate(scale + 1);
        let from = steps
            .iter()
            .rposition(|s| matches!(effect(s), Effect::Penalises | Effect::MayDropBest))
            .map_or(0, |i| i + 1);
        let tail = steps.split_off(from);
        steps.extend(tail.into_iter().filter(|s| effect(s) == Effect::Scales));
    }
    steps
}
