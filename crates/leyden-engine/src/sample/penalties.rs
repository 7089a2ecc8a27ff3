//! Penalties on tokens that have been used.

use super::candidates::Candidates;
use super::order::{Effect, Step};
use super::{Context, SamplingParams};

/// Penalties over the last `window` tokens, the prompt's included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalties {
    /// Repetition (Keskar et al., 2019): positive logits are divided by it, negative ones multiplied. 1 is off.
    pub repeat: f32,
    /// Subtracted once per occurrence.
    pub frequency: f32,
    /// Subtracted once if the token occurs.
    pub presence: f32,
    /// How many of the last tokens count; 0 switches penalties off.
    pub window: usize,
}

impl Default for Penalties {
    fn default() -> Penalties {
        Penalties { repeat: 1.0, frequency: 0.0, presence: 0.0, window: 64 }
    }
}

impl Penalties {
    /// Whether they change nothing.
    #[must_use]
    pub fn is_neutral(&self) -> bool {
        self.window == 0 || self.repeat == 1.0 && self.frequency == 0.0 && self.presence == 0.0
    }
}

pub(super) const STEP: Step =
    Step { effect: Effect::Penalises, is_active: |p| !p.penalties.is_neutral(), apply };

/// Penalises the tokens of the window.
fn apply(p: &SamplingParams, c: &mut Candidates, at: &mut Context<'_>) {
    let p = &p.penalties;
    for &id in &at.history[at.history.len().saturating_sub(p.window)..] {
        at.tally.update(at.vocabulary, id, |n| n.saturating_add(1));
    }
    c.adjust(at.tally.ids(), |id, logit| match at.tally.get(id) {
        0 => logit,
        n => {
            let scaled = if logit > 0.0 { logit / p.repeat } else { logit * p.repeat };
            scaled - (n as f32 * p.frequency + p.presence)
        }
    });
    at.tally.clear();
}
