//! Where the results of tiles go: merged at once, or kept until other tasks have the tiles before them.

use super::cache::BLOCK_TOKENS;
use crate::ops::exp16;

/// Query rows (token, head) of one task; they share each load of a key or value.
pub(super) const ROWS: usize = 64;

/// What a tile gives for a row: the greatest score, the sum of the exponentials of the differences from it, and the
/// values weighted by them.
pub(super) trait Sink {
    /// Takes the rows' results for tile `index`; `partial` is `[row][dim]`.
    fn tile(&mut self, index: usize, tops: &[(f32, f32)], partial: &[f32]);
}

/// Merges tiles in the order of positions.
pub(super) struct Merger<'a> {
    visible: &'a [usize],
    dim: usize,
    /// Greatest score and sum of the tiles so far.
    running: [(f32, f32); ROWS],
    /// `[row][dim]`
    out: &'a mut [f32],
}

impl<'a> Merger<'a> {
    #[inline(always)]
    pub(super) fn new(visible: &'a [usize], dim: usize, out: &'a mut [f32]) -> Self {
        out.fill(0.0);
        Merger { visible, dim, running: [(f32::NEG_INFINITY, 0.0); ROWS], out }
    }

    /// Divides by the sums.
    #[inline(always)]
    pub(super) fn finish(self) {
        for (o, (_, sum)) in self.out.chunks_exact_mut(self.dim).zip(self.running) {
            let inverse = 1.0 / sum;
            o.iter_mut().for_each(|o| *o *= inverse);
        }
    }
}

impl Sink for Merger<'_> {
    #[inline(always)]
    fn tile(&mut self, index: usize, tops: &[(f32, f32)], partial: &[f32]) {
        let (n, dim) = (self.visible.len(), self.dim);
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
            for (i, r) in rows.enumerate().filter(|(_, r)| self.visible[*r] > index * BLOCK_TOKENS) {
                // The first tile has nothing before it.
                let (before, now) = (if index == 0 { 0.0 } else { factors[0][i] }, factors[1][i]);
                self.running[r].1 = self.running[r].1.mul_add(before, tops[r].1 * now);
                let o = &mut self.out[r * dim..(r + 1) * dim];
                for (o, p) in o.iter_mut().zip(&partial[r * dim..]) {
                    *o = o.mul_add(before, p * now);
                }
            }
        }
    }
}

/// Keeps the tiles of a piece until all pieces are there.
pub(super) struct Piece<'a> {
    /// Its first tile.
    pub(super) first: usize,
    /// `[tile][row]`
    pub(super) tops: &'a mut [(f32, f32)],
    /// `[tile][row][dim]`
    pub(super) partial: &'a mut [f32],
    pub(super) rows: usize,
    pub(super) dim: usize,
}

impl Sink for Piece<'_> {
    #[inline(always)]
    fn tile(&mut self, index: usize, tops: &[(f32, f32)], partial: &[f32]) {
        let (n, values) = (self.rows, self.rows * self.dim);
        let i = index - self.first;
        self.tops[i * n..(i + 1) * n].copy_from_slice(&tops[..n]);
        self.partial[i * values..(i + 1) * values].copy_from_slice(&partial[..values]);
    }
}
