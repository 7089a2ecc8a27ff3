//! Penalties on tokens that have been used.
//!
//! Repetition counts the prompt's tokens as well as the generated ones, presence and frequency the generated ones alone:
//! the scopes of OpenAI's API and of vLLM. What a user wrote is nothing that the model repeats.

use super::candidates::Candidates;
use super::order::{Effect, Step};
use super::tally::Tally;
use super::{Context, SamplingParams};

/// Penalties over the last `window` tokens of the sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalties {
    /// Repetition (Keskar et al., 2019): positive logits are divided by it, negative ones multiplied. 1 is off. Counts
    /// tokens of the prompt, too.
    pub repeat: f32,
    /// Subtracted once per occurrence among the generated tokens.
    pub frequency: f32,
    /// Subtracted once if the token occurs among the generated tokens.
    pub presence: f32,
    /// How many of the last tokens count, `usize::MAX` for all; 0 switches penalties off.
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
    let from = at.history.len().saturating_sub(p.window);
    let count = |tally: &mut Tally, tokens: &[u32]| {
        tokens.iter().for_each(|&id| tally.update(at.vocabulary, id, |n| n.saturating_add(1)));
    };
    if p.repeat != 1.0 {
        count(at.tally, &at.history[from..]);
        c.adjust(at.tally.ids(), |id, logit| match at.tally.get(id) {
            0 => logit,
            _ if logit > 0.0 => logit / p.repeat,
            _ => logit * p.repeat,
        });
        at.tally.clear();
    }
    if p.frequency != 0.0 || p.presence != 0.0 {
        count(at.tally, &at.history[from.max(at.prompt)..]);
        c.adjust(at.tally.ids(), |id, logit| match at.tally.get(id) {
            0 => logit,
            n => logit - (n as f32 * p.frequency + p.presence),
        });
        at.tally.clear();
    }
}
