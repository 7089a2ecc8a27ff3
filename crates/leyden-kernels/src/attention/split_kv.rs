//! Split-KV: the tiles of one row are split over several tasks and merged when all are done.

use crate::attention::online_softmax::{PvOutput, Sink, SoftmaxStates, padded};
use crate::memory::aligned::Aligned;

/// Softmax states and weighted values of one split, kept tile by tile until all splits are done.
pub(super) struct KvSplit<'a> {
    /// Softmax states, `[tile][row]`.
    states: &'a mut [(f32, f32)],
    /// Weighted values, `[tile][row][dim]`.
    partial: &'a mut [f32],
    rows: usize,
    dim: usize,
    /// Index of the split's first tile; the next field is the current tile, relative to it.
    first: usize,
    place: usize,
    /// Weighted values of one tile, padded to whole groups of rows that are computed together.
    values: Aligned<f32>,
}

impl<'a> KvSplit<'a> {
    /// Creates the split that begins with tile `first`.
    pub(super) fn new(
        first: usize,
        (rows, dim): (usize, usize),
        states: &'a mut [(f32, f32)],
        partial: &'a mut [f32],
    ) -> KvSplit<'a> {
        let values = Aligned::zeroed(padded(rows) * dim);
        KvSplit { states, partial, rows, dim, first, place: 0, values }
    }
}

impl Sink for KvSplit<'_> {
    #[inline(always)]
    fn begin(&mut self, index: usize, states: &SoftmaxStates) {
        self.place = index - self.first;
        let to = &mut self.states[self.place * self.rows..][..self.rows];
        let states = states.max_scores.as_flattened().iter().zip(states.sums.as_flattened());
        for (to, (max_scores, sum)) in to.iter_mut().zip(states) {
            *to = (*max_scores, *sum);
        }
    }

    #[inline(always)]
    fn rows(&mut self, first: usize) -> PvOutput<'_> {
        PvOutput::Kept(&mut self.values[first * self.dim..])
    }

    #[inline(always)]
    fn end(&mut self) {
        let size = self.rows * self.dim;
        self.partial[self.place * size..][..size].copy_from_slice(&self.values[..size]);
    }
}
