//! Penalties on tokens that have been used.

use std::collections::BTreeMap;

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

    /// Applies them to logits after the tokens of `history`.
    pub(super) fn apply(&self, history: &[u32], logits: &mut [f32]) {
        if self.is_neutral() {
            return;
        }
        let recent = &history[history.len().saturating_sub(self.window)..];
        let mut counts: BTreeMap<u32, f32> = BTreeMap::new();
        for &id in recent {
            *counts.entry(id).or_default() += 1.0;
        }
        for (id, count) in counts {
            if let Some(l) = logits.get_mut(id as usize) {
                *l = if *l > 0.0 { *l / self.repeat } else { *l * self.repeat };
                *l -= count * self.frequency + self.presence;
            }
        }
    }
}
