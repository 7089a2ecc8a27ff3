//! Overflow bounds of i16 accumulators: the largest possible sums of products with a tile's activations.

use crate::simd::Moments;

/// Bounds on sums of products of 128 values, the maximum over all columns of a tile.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OverflowBounds {
    /// Largest sum of magnitudes of 16 quantised values, largest sum of those of one sign, and the same two for 32
    /// quantised values. Times the largest magnitude of a quantised weight, the sum of magnitudes bounds sums with
    /// signed weights, and the sum of one sign those with unsigned weights.
    pub(crate) sums: [i32; 4],
    /// Sum of the squares of the first 96 quantised values: with that of the weights it bounds the sum of their
    /// products.
    pub(crate) squares_of_96: i32,
    /// Largest sum of the squares of 16 quantised values.
    pub(crate) squares_of_16: i32,
}

/// Running maxima over the columns of a tile, per block; [`OverflowBounds`] holds the maximum over blocks.
#[derive(Clone, Copy, Default)]
pub(super) struct Largest {
    magnitudes: [i32; 8],
    signs: [i32; 8],
    magnitudes_of_32: [i32; 4],
    signs_of_32: [i32; 4],
    squares: [i32; 8],
    squares_of_96: i32,
}

impl Largest {
    /// Includes one column. No sum overflows; wrapping additions let the compiler vectorise.
    #[inline(always)]
    pub(super) fn count(&mut self, m: &Moments) {
        let of_signs = |magnitudes: i32, sum: i32| magnitudes.wrapping_add(sum.wrapping_abs()) >> 1;
        let both = |of: &[i32; 8], i: usize| of[2 * i].wrapping_add(of[2 * i + 1]);
        for i in 0..8 {
            self.magnitudes[i] = self.magnitudes[i].max(m.magnitudes[i]);
            self.signs[i] = self.signs[i].max(of_signs(m.magnitudes[i], m.sums[i]));
            self.squares[i] = self.squares[i].max(m.squares[i]);
        }
        for i in 0..4 {
            let (magnitudes, sum) = (both(&m.magnitudes, i), both(&m.sums, i));
            self.magnitudes_of_32[i] = self.magnitudes_of_32[i].max(magnitudes);
            self.signs_of_32[i] = self.signs_of_32[i].max(of_signs(magnitudes, sum));
        }
        let squares = m.squares[..6].iter().fold(0_i32, |sum, v| sum.wrapping_add(*v));
        self.squares_of_96 = self.squares_of_96.max(squares);
    }

    #[inline(always)]
    pub(super) fn overflow_bounds(&self) -> OverflowBounds {
        fn most(of: &[i32]) -> i32 {
            of.iter().fold(0, |most, v| most.max(*v))
        }
        OverflowBounds {
            sums: [
                most(&self.magnitudes),
                most(&self.signs),
                most(&self.magnitudes_of_32),
                most(&self.signs_of_32),
            ],
            squares_of_96: self.squares_of_96,
            squares_of_16: most(&self.squares),
        }
    }
}
