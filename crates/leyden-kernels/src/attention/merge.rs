//! Where the results of tiles go: merged at once, or kept until other tasks have the tiles before them.

use super::cache::BLOCK_TOKENS;
use crate::memory::Aligned;
use crate::ops::exp16;

/// Query rows (token, head) of one task; they share each load of a key or value.
pub(super) const ROWS: usize = 64;

/// Rows of a buffer for the values of `rows` rows: these and those that are computed with the last of them.
pub(super) fn padded(rows: usize) -> usize {
    rows.next_multiple_of(16)
}

/// What the tiles of a task give, one after the other: for each row the greatest score, the sum of the exponentials of
/// the differences from it, and the values weighted by these.
pub(super) trait Sink {
    /// Takes the scores and sums of the rows in tile `index`.
    fn begin(&mut self, index: usize, tops: &[(f32, f32)]);
    /// Where the weighted values of the rows from `first` on go.
    fn rows(&mut self, first: usize) -> Destination<'_>;
    /// All values are there.
    fn end(&mut self) {}
}

/// Where weighted values go; buffers are `[row][dim]`.
pub(crate) enum Destination<'a> {
    /// To be kept as they are.
    Kept(&'a mut [f32]),
    /// To what the tiles before gave, for each row as its factors say.
    Merged(&'a mut [f32], &'a [Factors]),
}

impl Destination<'_> {
    /// The values, and the factors of rows where there are some.
    #[inline(always)]
    pub(crate) fn parts(&mut self) -> (&mut [f32], Option<&[Factors]>) {
        match self {
            Destination::Kept(out) => (out, None),
            Destination::Merged(out, factors) => (out, Some(factors)),
        }
    }
}

/// How a row's values of a tile are merged with those of the tiles before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Factors {
    /// What the values before are multiplied by, and those of this tile.
    pub(crate) before: f32,
    pub(crate) now: f32,
    /// Whether the row sees anything of the tile; otherwise its values stay.
    pub(crate) sees: bool,
}

impl Factors {
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
pub(super) struct Merger<'a> {
    visible: &'a [usize],
    dim: usize,
    /// Greatest score and sum of the tiles so far.
    running: [(f32, f32); ROWS],
    /// Of this tile.
    factors: [Factors; ROWS],
    /// `[row][dim]`, with as many rows as are computed together, at least.
    out: &'a mut [f32],
}

impl<'a> Merger<'a> {
    #[inline(always)]
    pub(super) fn new(visible: &'a [usize], dim: usize, out: &'a mut [f32]) -> Self {
        out.fill(0.0);
        let (running, factors) = ([(f32::NEG_INFINITY, 0.0); ROWS], [Factors::default(); ROWS]);
        Merger { visible, dim, running, factors, out }
    }

    /// Takes all of a tile at once.
    #[inline(always)]
    pub(super) fn tile(&mut self, index: usize, tops: &[(f32, f32)], values: &[f32]) {
        self.begin(index, tops);
        let rows = self.out.chunks_exact_mut(self.dim).zip(values.chunks_exact(self.dim));
        for ((out, values), factors) in rows.zip(self.factors) {
            factors.merge(out, values);
        }
    }

    /// Divides by the sums.
    #[inline(always)]
    pub(super) fn finish(self) {
        for (o, (_, sum)) in self.out.chunks_exact_mut(self.dim).zip(self.running).take(self.visible.len()) {
            let inverse = 1.0 / sum;
            o.iter_mut().for_each(|o| *o *= inverse);
        }
    }
}

impl Sink for Merger<'_> {
    #[inline(always)]
    fn begin(&mut self, index: usize, tops: &[(f32, f32)]) {
        let n = self.visible.len();
        for first in (0..n).step_by(16) {
            // Factors of what came before and of this tile, for sixteen rows at once.
            let mut factors = [[0.0_f32; 16]; 2];
            let rows = first..n.min(first + 16);
            for (i, r) in rows.clone().enumerate() {
                let (old, top) = (self.running[r].0, tops[r].0);
                let max = if top > old { top } else { old };
                (factors[0][i], factors[1][i]) = (old - max, top - max);
                self.running[r].0 = max;
            }
            let factors = [exp16(&factors[0]), exp16(&factors[1])];
            for (i, r) in rows.enumerate() {
                // The first tile has nothing before it.
                let (before, now) = (if index == 0 { 0.0 } else { factors[0][i] }, factors[1][i]);
                let sees = self.visible[r] > index * BLOCK_TOKENS;
                if sees {
                    self.running[r].1 = self.running[r].1.mul_add(before, tops[r].1 * now);
                }
                self.factors[r] = Factors { before, now, sees };
            }
        }
    }

    #[inline(always)]
    fn rows(&mut self, first: usize) -> Destination<'_> {
        Destination::Merged(&mut self.out[first * self.dim..], &self.factors[first..])
    }
}

/// Keeps the tiles of a piece until all pieces are there.
pub(super) struct Piece<'a> {
    /// `[tile][row]`
    tops: &'a mut [(f32, f32)],
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

impl<'a> Piece<'a> {
    /// For the tiles from `first` on of so many rows.
    pub(super) fn new(
        first: usize,
        (rows, dim): (usize, usize),
        tops: &'a mut [(f32, f32)],
        partial: &'a mut [f32],
    ) -> Piece<'a> {
        let values = Aligned::zeroed(padded(rows) * dim);
        Piece { tops, partial, rows, dim, first, place: 0, values }
    }
}

impl Sink for Piece<'_> {
    #[inline(always)]
    fn begin(&mut self, index: usize, tops: &[(f32, f32)]) {
        self.place = index - self.first;
        self.tops[self.place * self.rows..][..self.rows].copy_from_slice(&tops[..self.rows]);
    }

    #[inline(always)]
    fn rows(&mut self, first: usize) -> Destination<'_> {
        Destination::Kept(&mut self.values[first * self.dim..])
    }

    #[inline(always)]
    fn end(&mut self) {
        let size = self.rows * self.dim;
        self.partial[self.place * size..][..size].copy_from_slice(&self.values[..size]);
    }
}
