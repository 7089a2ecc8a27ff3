//! A number per token, for a moment: how often it occurred, or how long a repetition it would continue.

/// Numbers of tokens, all 0 between uses. An array over the vocabulary, because a map costs ten times as much and the
/// windows are up to the whole context.
#[derive(Debug, Default)]
pub(super) struct Tally {
    values: Vec<u32>,
    /// Tokens whose number is not 0, each once.
    touched: Vec<u32>,
}

impl Tally {
    /// Sets the number of a token, which is not 0, from its number so far. Tokens outside the vocabulary have none.
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

    /// The number of a token.
    pub(super) fn get(&self, id: u32) -> u32 {
        self.values.get(id as usize).copied().unwrap_or(0)
    }

    /// The tokens that have a number.
    pub(super) fn ids(&self) -> impl Iterator<Item = u32> {
        self.touched.iter().copied()
    }

    /// All 0 again.
    pub(super) fn clear(&mut self) {
        for id in self.touched.drain(..) {
            self.values[id as usize] = 0;
        }
    }
}
