//! Split-KV: the tiles of one row divided over several tasks, kept until all are there.

use crate::attention::online_softmax::{PvOutput, Sink, SoftmaxStates, padded};
use crate::memory::aligned::Aligned;

/// The states and values of one split: keeps the tiles of a piece until all pieces are there.
pub(super) struct KvSplit<'a> {
    /// `[tile][row]`
    states: &'a mut [(f32, f32)],
    /// `[tile][row][dim]`
    partial: &'a mut [f32],
    rows: usize,
    dim: usize,
    /// The piece's first tile, and how many after it the present one comes.
    first: usize,
    place: usize,
    /// Values of one tile, with as many rows as are computed together.
    values: Aligned<f32>,
}

impl<'a> KvSplit<'a> {
    /// For the tiles from `first` on of so many rows.
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
