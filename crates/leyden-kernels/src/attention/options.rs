//! Arguments of attention: spans of new tokens, and options.

use crate::attention::mask::Mask;

/// The new tokens of one sequence in a batch.
#[derive(Clone, Copy, Debug)]
pub struct AttentionSpan<'a> {
    /// Index of the first new token in the batch.
    pub first: usize,
    /// Number of new tokens.
    pub tokens: usize,
    /// Position of the first new token in its sequence.
    pub position: usize,
    /// Number of the sequence's tokens in the cache, the new ones included.
    pub stored: usize,
    /// Block indices of the sequence, in order.
    pub blocks: &'a [u32],
}

/// Options of attention in one layer.
#[derive(Clone, Copy, Debug)]
pub struct AttentionOptions<'a> {
    /// Factor of the products of queries and keys.
    pub scale: f32,
    /// Attention mask.
    pub mask: Mask,
    /// Soft cap of scores: `cap * tanh(score / cap)`.
    pub soft_cap: Option<f32>,
    /// Attention sinks: one score per query head that takes part in the softmax without a value.
    pub sinks: Option<&'a [f32]>,
}

impl AttentionOptions<'_> {
    /// Returns the options of causal attention without soft cap or sinks.
    #[must_use]
    pub fn causal(scale: f32) -> Self {
        AttentionOptions { scale, mask: Mask::Causal, soft_cap: None, sinks: None }
    }
}
