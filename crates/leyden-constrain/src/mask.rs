//! Set of tokens.

/// Set of the tokens that may come next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenMask {
    words: Vec<u32>,
    vocabulary: usize,
}

impl TokenMask {
    /// Creates a set from its bits: token `t` is bit `t % 32` of word `t / 32`. Bits beyond the vocabulary are
    /// dropped.
    pub(crate) fn new(mut words: Vec<u32>, vocabulary: usize) -> TokenMask {
        words.resize(vocabulary.div_ceil(32), 0);
        if let Some(last) = words.last_mut()
            && !vocabulary.is_multiple_of(32)
        {
            *last &= (1 << (vocabulary % 32)) - 1;
        }
        TokenMask { words, vocabulary }
    }

    pub(crate) fn from_ids(ids: impl IntoIterator<Item = u32>, vocabulary: usize) -> TokenMask {
        let mut mask = TokenMask::new(Vec::new(), vocabulary);
        for id in ids {
            if let Some(word) = mask.words.get_mut(id as usize / 32) {
                *word |= 1 << (id % 32);
            }
        }
        mask
    }

    /// Removes the tokens in `other`, which belongs to the same vocabulary.
    pub(crate) fn remove(&mut self, other: &TokenMask) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }

    /// Removes one token.
    pub(crate) fn remove_one(&mut self, id: u32) {
        if let Some(word) = self.words.get_mut(id as usize / 32) {
            *word &= !(1 << (id % 32));
        }
    }

    /// Returns the bits: token `t` is bit `t % 32` of word `t / 32`. The length is the minimum for the vocabulary;
    /// bits beyond it are not set.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns whether a token is in the set.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.words.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
    }

    /// Returns the tokens, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.vocabulary as u32).filter(|id| self.contains(*id))
    }

    /// Returns the number of tokens in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }
}
