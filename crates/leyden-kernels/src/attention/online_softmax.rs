//! Online softmax: tiles of keys merged in order of position by running maximum and denominator.

use crate::attention::mask::TokenRange;
use crate::ops::{Lanes, exp16};

/// Maximum number of query rows (token, head) of one task; they share each load of a key or value.
pub(super) const QUERY_ROWS: usize = 64;

/// Returns the number of rows of a buffer for the values of `rows` rows: rounded up to whole groups of rows that are
/// computed together.
#[inline]
pub(super) fn padded(rows: usize) -> usize {
    rows.next_multiple_of(16)
}

/// Receiver of a task's tiles, in order: for each row the maximum score, the sum of the exponentials of the differences
/// from it, and the values weighted by these exponentials.
pub(super) trait Sink {
    /// Receives the softmax states of the rows in tile `index`.
    fn begin(&mut self, index: usize, states: &SoftmaxStates);
    /// Returns the destination of the weighted values of the rows from `first` on.
    fn rows(&mut self, first: usize) -> PvOutput<'_>;
    /// Ends the tile: all its values have been written.
    fn end(&mut self) {}
}

/// Maximum score of each row, and the sum of the exponentials of the differences from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SoftmaxStates {
    pub(super) max_scores: [Lanes; QUERY_ROWS / 16],
    pub(super) sums: [Lanes; QUERY_ROWS / 16],
}

impl SoftmaxStates {
    /// Returns the states of rows without any tile.
    #[inline]
    pub(super) fn none() -> SoftmaxStates {
        SoftmaxStates {
            max_scores: [[f32::NEG_INFINITY; 16]; QUERY_ROWS / 16],
            sums: [[0.0; 16]; QUERY_ROWS / 16],
        }
    }
}

/// Destination of weighted values; buffers are `[row][dim]`.
pub(crate) enum PvOutput<'a> {
    /// Stores the values.
    Kept(&'a mut [f32]),
    /// Merges the values into those of earlier tiles, with one [`Rescale`] per row.
    Merged(&'a mut [f32], &'a [Rescale]),
}

impl PvOutput<'_> {
    /// Returns the buffer, and the factors of the rows if values are merged.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> (&mut [f32], Option<&[Rescale]>) {
        match self {
            PvOutput::Kept(out) => (out, None),
            PvOutput::Merged(out, factors) => (out, Some(factors)),
        }
    }
}

/// Factors for merging a row's values of a tile into those of earlier tiles.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rescale {
    /// Factor of the values of earlier tiles; `now` is that of this tile's values.
    pub(crate) before: f32,
    pub(crate) now: f32,
    /// True if the row attends to any token of the tile; otherwise its values stay unchanged.
    pub(crate) attends: bool,
}

impl Rescale {
    /// Computes `fma(out, before, values * now)`: two roundings, the definition for all instruction sets.
    #[inline(always)]
    pub(crate) fn merge(self, out: &mut [f32], values: &[f32]) {
        if self.attends {
            for (o, v) in out.iter_mut().zip(values) {
                *o = o.mul_add(self.before, v * self.now);
            }
        }
    }
}

/// [`Sink`] that merges tiles in order of position.
pub(super) struct OnlineSoftmax<'a> {
    token_ranges: &'a [TokenRange],
    dim: usize,
    /// Index of the first tile; no values precede it.
    first: usize,
    /// States after the tiles so far.
    running: SoftmaxStates,
    /// Factors of the current tile.
    factors: [Rescale; QUERY_ROWS],
    /// Output `[row][dim]`, padded to whole groups of rows that are computed together.
    out: &'a mut [f32],
}

impl<'a> OnlineSoftmax<'a> {
    #[inline(always)]
    pub(super) fn new(token_ranges: &'a [TokenRange], dim: usize, first: usize, out: &'a mut [f32]) -> Self {
        out.fill(0.0);
        OnlineSoftmax {
            token_ranges,
            dim,
            first,
            running: SoftmaxStates::none(),
            factors: [Rescale::default(); QUERY_ROWS],
            out,
        }
    }

    /// Merges a whole tile.
    #[inline(always)]
    pub(super) fn tile(&mut self, index: usize, states: &[(f32, f32)], values: &[f32]) {
        let mut all = SoftmaxStates::none();
        for (r, (max_scores, sum)) in states.iter().enumerate() {
            (all.max_scores[r / 16][r % 16], all.sums[r / 16][r % 16]) = (*max_scores, *sum);
        }
        self.begin(index, &all);
        let rows = self.out.chunks_exact_mut(self.dim).zip(values.chunks_exact(self.dim));
        for ((out, values), factors) in rows.zip(self.factors) {
            factors.merge(out, values);
        }
    }

    /// Divides the values by the sums. A row's sink is one more score in its sum, without a value.
    #[inline(always)]
    pub(super) fn finish(self, sinks: Option<&[f32]>) {
        let states = self.running.max_scores.as_flattened().iter().zip(self.running.sums.as_flattened());
        let rows = self.out.chunks_exact_mut(self.dim).zip(states).take(self.token_ranges.len());
        for (r, (o, (&max_scores, &sum))) in rows.enumerate() {
            let inverse = match sinks {
                None => 1.0 / sum,
                Some(sinks) => {
                    let max = if sinks[r] > max_scores { sinks[r] } else { max_scores };
                    let mut e = [0.0; 16];
                    (e[0], e[1]) = (max_scores - max, sinks[r] - max);
                    let e = exp16(&e);
                    e[0] / sum.mul_add(e[0], e[1])
                }
            };
            o.iter_mut().for_each(|o| *o *= inverse);
        }
    }
}

impl Sink for OnlineSoftmax<'_> {
    #[inline(always)]
    fn begin(&mut self, index: usize, states: &SoftmaxStates) {
        let n = self.token_ranges.len();
        for first in (0..n).step_by(16) {
            let group = first / 16;
            let (top, sum) = (&states.max_scores[group], &states.sums[group]);
            let (running, total) = (&mut self.running.max_scores[group], &mut self.running.sums[group]);
            let (mut before, mut now): (Lanes, Lanes) = ([0.0; 16], [0.0; 16]);
            for i in 0..16 {
                let max = if top[i] > running[i] { top[i] } else { running[i] };
                // A row without any attended token so far is skipped: the difference of two infinities is NaN.
                if max > f32::NEG_INFINITY {
                    (before[i], now[i]) = (running[i] - max, top[i] - max);
                }
                running[i] = max;
            }
            before = if index == self.first { [0.0; 16] } else { exp16(&before) };
            now = exp16(&now);
            for i in 0..16 {
                // A row that attends to no token of the tile keeps its sum: it is multiplied by 1 and 0 is added.
                total[i] = total[i].mul_add(before[i], sum[i] * now[i]);
            }
            for (i, r) in (first..n.min(first + 16)).enumerate() {
                let attends = !self.token_ranges[r].in_tile(index).is_empty();
                self.factors[r] = Rescale { before: before[i], now: now[i], attends };
            }
        }
    }

    #[inline(always)]
    fn rows(&mut self, first: usize) -> PvOutput<'_> {
        PvOutput::Merged(&mut self.out[first * self.dim..], &self.factors[first..])
    }
}
