//! [`Tally`]: a temporary number per token, such as its number of occurrences or the length of a repetition.

/// Numbers per token, all 0 between uses. An array over the vocabulary, because a map takes ten times as long and the
/// windows are up to the whole context.
#[derive(Debug, Default)]
pub(super) struct Tally {
    values: Vec<u32>,
    /// Tokens with a number other than 0, each once.
    touched: Vec<u32>,
}

impl Tally {
    /// Sets the number of a token to a value other than 0, computed from its current number. Tokens outside the
    /// vocabulary have none.
    pub(super) fn update(&mut self, vocabulary: usize, id: u32, value: impl FnOnce(u32) -> u32) {
        if self.values.len() < vocabulary {
            self.values.resize(vocabulary, 0);
        }
        if let Some(v) = self.values.get_mut(id as usize) {
            if *v == 0 {
                self.touched.push(id);
            }
            *v = value(*v);
        }
    }

    /// Returns the number of a token.
    pub(super) fn get(&self, id: u32) -> u32 {
        self.values.get(id as usize).copied().unwrap_or(0)
    }

    /// Returns the tokens with a number other than 0.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        self.touched.iter().copied()
    }

    /// Resets all numbers to 0.
    pub(super) fn clear(&mut self) {
        for id in self.touched.drain(..) {
            self.values[id as usize] = 0;
        }
    }
}
