//! What attention is asked to compute: for which tokens, and how.

use crate::attention::mask::Mask;

/// The new tokens of one sequence in a batch.
#[derive(Clone, Copy, Debug)]
pub struct AttentionSpan<'a> {
    /// Index of the first new token in the batch.
    pub first: usize,
    /// How many there are.
    pub tokens: usize,
    /// Position of the first new token in its sequence.
    pub position: usize,
    /// Tokens of the sequence whose keys and values are in the cache, these among them.
    pub stored: usize,
    /// The sequence's blocks, in order.
    pub blocks: &'a [u32],
}

/// What attention computes, of one layer.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOptions<'a> {
    /// What the products of queries and keys are multiplied by.
    pub scale: f32,
    /// Which tokens see which.
    pub mask: Mask,
    /// Scores beyond this are squeezed below it: `cap * tanh(score / cap)`.
    pub soft_cap: Option<f32>,
    /// For each query head, a score that takes its share of the softmax and adds no value.
    pub sinks: Option<&'a [f32]>,
}

impl AttentionOptions<'_> {
    /// Causal attention without caps or sinks.
    #[must_use]
    pub fn causal(scale: f32) -> Self {
        AttentionOptions { scale, mask: Mask::Causal, soft_cap: None, sinks: None }
    }
}
