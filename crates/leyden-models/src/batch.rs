//! [`Batch`]: input of one forward pass.

use crate::lora::AdapterSet;
use crate::state_rounds::StateCheckpoint;

/// New tokens of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// How many tokens of the batch belong to it.
    pub tokens: usize,
    /// Position of the first in its sequence.
    pub position: usize,
    /// The sequence's cache blocks, enough for all its tokens.
    pub blocks: &'a [u32],
    /// Which of the states in the cache is the sequence's, in models that have such.
    pub state: usize,
    /// Copies of that state to be made on the way, ascending by tokens.
    pub checkpoints: &'a [StateCheckpoint],
    /// Which of them is the first of a second text, where the types of texts matter.
    pub second: Option<usize>,
    /// What is added to the model's projections.
    pub adapters: &'a AdapterSet,
}

/// Tokens of any number of sequences, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Token ids, span by span.
    pub tokens: &'a [u32],
    /// The sequences.
    pub spans: &'a [Span<'a>],
    /// Indices of the tokens whose logits are wanted, ascending.
    pub outputs: &'a [usize],
    /// Indices of the tokens whose states are wanted without logits, ascending.
    pub states: &'a [usize],
    /// How many tokens a sequence may have in all. The same in all batches whose sequences share a cache.
    pub context: usize,
}

impl Batch<'_> {
    /// Indices of the tokens of which more is wanted than that their keys and values are kept, ascending.
    pub(crate) fn wanted(&self) -> Vec<usize> {
        let mut all = [self.outputs, self.states].concat();
        all.sort_unstable();
        all.dedup();
        all
    }
}
