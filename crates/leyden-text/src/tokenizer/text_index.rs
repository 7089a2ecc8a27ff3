//! Index of tokens by their texts.
//!
//! A hash table of small slots with linear probing: a large vocabulary is looked up a million times while its
//! merges are read, and most of that time is memory latency, so the table must be small.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;

/// Texts with ids in the order in which they were added.
#[derive(Clone)]
pub(super) struct TextIndex {
    /// Concatenated bytes of all texts.
    bytes: Vec<u8>,
    /// End of each text in `bytes`.
    ends: Vec<usize>,
    /// Part of the hash and the id, or `EMPTY`. The length is a power of two, and at most half is in use.
    slots: Vec<(u32, u32)>,
    hasher: RandomState,
    /// Length of the longest text.
    longest: usize,
}

const EMPTY: (u32, u32) = (0, u32::MAX);

impl TextIndex {
    /// Creates an index for up to `n` texts.
    pub(super) fn with_capacity(n: usize) -> Self {
        TextIndex {
            bytes: Vec::new(),
            ends: Vec::with_capacity(n),
            slots: vec![EMPTY; n.saturating_mul(2).max(2).next_power_of_two()],
            hasher: RandomState::default(),
            longest: 0,
        }
    }

    /// Adds the next text. The empty text gets an id, but is never found. Of equal texts the last one is found.
    ///
    /// # Panics
    /// More texts than the capacity were added.
    pub(super) fn push(&mut self, text: &[u8]) {
        let id = u32::try_from(self.ends.len()).unwrap_or(u32::MAX);
        assert!(
            self.ends.len() * 2 < self.slots.len() && id != u32::MAX,
            "more texts than the index is made for"
        );
        let (at, tag, _) = self.slot(text);
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
        self.longest = self.longest.max(text.len());
        if !text.is_empty() {
            self.slots[at] = (tag, id);
        }
    }

    /// Returns the id of a text.
    pub(super) fn get(&self, text: &[u8]) -> Option<u32> {
        if text.is_empty() || text.len() > self.longest { None } else { self.slot(text).2 }
    }

    /// Returns the number of texts.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the length in bytes of the longest text.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the text of an id; empty if there is none.
    pub(super) fn text(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = if id == 0 { 0 } else { self.ends.get(id - 1).copied().unwrap_or_default() };
        self.ends.get(id).map_or(&[], |&end| &self.bytes[start..end])
    }

    /// Returns all texts with their ids. Texts that are not UTF-8 are returned as empty ones.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        (0..).take(self.len()).map(|id| (id, std::str::from_utf8(self.text(id)).unwrap_or_default()))
    }

    /// Returns the slot of a text or for it, its tag, and its id if it is present.
    fn slot(&self, text: &[u8]) -> (usize, u32, Option<u32>) {
        let hash = self.hasher.hash_one(text);
        let tag = (hash >> 32) as u32;
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let (other, id) = self.slots[at];
            if id == EMPTY.1 {
                return (at, tag, None);
            }
            if other == tag && self.text(id) == text {
                return (at, tag, Some(id));
            }
            at = (at + 1) & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_added_and_nothing_else() {
        let texts: Vec<String> =
            (0..1000).map(|i| if i == 7 { String::new() } else { format!("t{i}") }).collect();
        let mut index = TextIndex::with_capacity(texts.len() + 1);
        for text in &texts {
            index.push(text.as_bytes());
        }
        index.push(b"");
        for (id, text) in (0..).zip(&texts) {
            assert_eq!(index.get(text.as_bytes()), (id != 7).then_some(id));
            assert_eq!(index.text(id), text.as_bytes());
        }
        assert_eq!((index.get(b"t1000"), index.get(b"t10000000"), index.len()), (None, None, 1001));
        assert_eq!(index.text(5000), b"");
        let mut twice = TextIndex::with_capacity(3);
        ["a", "b", "a"].iter().for_each(|text| twice.push(text.as_bytes()));
        assert_eq!((twice.get(b"a"), twice.text(0), twice.text(2)), (Some(2), &b"a"[..], &b"a"[..]));
    }
}
