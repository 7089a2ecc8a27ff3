//! Online softmax: tiles of keys merged in order of position by running maximum and denominator.

use crate::attention::mask::Sight;
use crate::ops::{Lanes, exp16};

/// Query rows (token, head) of one task; they share each load of a key or value.
pub(super) const QUERY_ROWS: usize = 64;

/// Rows of a buffer for the values of `rows` rows: these and those that are computed with the last of them.
#[inline]
pub(super) fn padded(rows: usize) -> usize {
    rows.next_multiple_of(16)
}

/// What the tiles of a task give, one after the other: for each row the running maximum, the sum of the exponentials of
/// the differences from it, and the values weighted by these.
pub(super) trait Sink {
    /// Takes what the rows have in tile `index`.
    fn begin(&mut self, index: usize, states: &SoftmaxStates);
    /// Where the weighted values of the rows from `first` on go.
    fn rows(&mut self, first: usize) -> PvOutput<'_>;
    /// All values are there.
    fn end(&mut self) {}
}

/// The running maximum of each row, and the sum of the exponentials of the differences from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SoftmaxStates {
    pub(super) max_scores: [Lanes; QUERY_ROWS / 16],
    pub(super) sums: [Lanes; QUERY_ROWS / 16],
}

impl SoftmaxStates {
    /// Of rows that have seen nothing.
    #[inline]
    pub(super) fn none() -> SoftmaxStates {
        SoftmaxStates {
            max_scores: [[f32::NEG_INFINITY; 16]; QUERY_ROWS / 16],
            sums: [[0.0; 16]; QUERY_ROWS / 16],
        }
    }
}

/// Where weighted values go; buffers are `[row][dim]`.
pub(crate) enum PvOutput<'a> {
    /// To be kept as they are.
    Kept(&'a mut [f32]),
    /// To what the tiles before gave, for each row as its factors say.
    Merged(&'a mut [f32], &'a [Rescale]),
}

impl PvOutput<'_> {
    /// The values, and the factors of rows where there are some.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> (&mut [f32], Option<&[Rescale]>) {
        match self {
            PvOutput::Kept(out) => (out, None),
            PvOutput::Merged(out, factors) => (out, Some(factors)),
        }
    }
}

/// How a row's values of a tile are merged with those of the tiles before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rescale {
    /// What the values before are multiplied by, and those of this tile.
    pub(crate) before: f32,
    pub(crate) now: f32,
    /// Whether the row sees anything of the tile; otherwise its values stay.
    pub(crate) sees: bool,
}

impl Rescale {
    /// `fma(out, before, values * now)`: two roundings, which is the definition for all instruction sets.
    #[inline(always)]
    pub(crate) fn merge(self, out: &mut [f32], values: &[f32]) {
        if self.sees {
            for (o, v) in out.iter_mut().zip(values) {
                *o = o.mul_add(self.before, v * self.now);
            }
        }
    }
}

/// Merges tiles in the order of positions.
pub(super) struct OnlineSoftmax<'a> {
    sights: &'a [Sight],
    dim: usize,
    /// The first tile, before which there is nothing.
    first: usize,
    /// Of the tiles so far.
    running: SoftmaxStates,
    /// Of this tile.
    factors: [Rescale; QUERY_ROWS],
    /// `[row][dim]`, with as many rows as are computed together, at least.
    out: &'a mut [f32],
}

impl<'a> OnlineSoftmax<'a> {
    #[inline(always)]
    pub(super) fn new(sights: &'a [Sight], dim: usize, first: usize, out: &'a mut [f32]) -> Self {
        out.fill(0.0);
        OnlineSoftmax {
            sights,
            dim,
            first,
            running: SoftmaxStates::none(),
            factors: [Rescale::default(); QUERY_ROWS],
            out,
        }
    }

    /// Takes all of a tile at once.
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

    /// Divides by the sums. A row's sink, if there are any, is one more score in its sum, without a value.
    #[inline(always)]
    pub(super) fn finish(self, sinks: Option<&[f32]>) {
        let states = self.running.max_scores.as_flattened().iter().zip(self.running.sums.as_flattened());
        let rows = self.out.chunks_exact_mut(self.dim).zip(states).take(self.sights.len());
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
        let n = self.sights.len();
        for first in (0..n).step_by(16) {
            let group = first / 16;
            let (top, sum) = (&states.max_scores[group], &states.sums[group]);
            let (running, total) = (&mut self.running.max_scores[group], &mut self.running.sums[group]);
            let (mut before, mut now): (Lanes, Lanes) = ([0.0; 16], [0.0; 16]);
            for i in 0..16 {
                let max = if top[i] > running[i] { top[i] } else { running[i] };
                // A row that has seen nothing up to here has no differences: those of infinities are no numbers.
                if max > f32::NEG_INFINITY {
                    (before[i], now[i]) = (running[i] - max, top[i] - max);
                }
                running[i] = max;
            }
            before = if index == self.first { [0.0; 16] } else { exp16(&before) };
            now = exp16(&now);
            for i in 0..16 {
                // A row that sees nothing of the tile keeps its sum: it is multiplied by one, and none is added.
                total[i] = total[i].mul_add(before[i], sum[i] * now[i]);
            }
            for (i, r) in (first..n.min(first + 16)).enumerate() {
                let sees = !self.sights[r].in_tile(index).is_empty();
                self.factors[r] = Rescale { before: before[i], now: now[i], sees };
            }
        }
    }

    #[inline(always)]
    fn rows(&mut self, first: usize) -> PvOutput<'_> {
        PvOutput::Merged(&mut self.out[first * self.dim..], &self.factors[first..])
    }
}
