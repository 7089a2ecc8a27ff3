//! Overflow bounds that a format's kernels need.

use crate::gemm::format::traits::{A, Superblock};
use crate::simd::int::IntSimd;

/// Returns the largest entry of a tile's [`OverflowBounds::sums`](crate::quant::overflow_bounds::OverflowBounds) with
/// which the sums of one block of a superblock format fit 16 bits, and the index of that entry. With `acc_init` the
/// sums are of quantised values minus their zero point, else as they are stored.
pub(crate) const fn i16_limit<F: Superblock>(acc_init: bool) -> (i32, usize) {
    let (quants, signed) = match (acc_init, F::SIGNED) {
        (true, false) => (if F::ZERO > F::MAX - F::ZERO { F::ZERO } else { F::MAX - F::ZERO }, true),
        // Sums of signed bytes never fit 16 bits, so their bound is of no use.
        (_, true) => (i16::MAX as i32, true),
        (false, false) => (F::MAX, false),
    };
    (i16::MAX as i32 / quants, if F::PARTS == 2 { 0 } else { 2 } + if signed { 0 } else { 1 })
}

/// Absence of a norm: unpacking a panel computes none.
pub(crate) const NO_NORMS: u8 = 0;

/// Norm per 128 values: the sum of squares of one block's quantised values.
pub(crate) const OF_BLOCKS: u8 = 1;

/// Norm per 128 values: the sum of squares of the scaled quantised values of the first three blocks.
pub(crate) const OF_TOTALS: u8 = 2;

/// Returns the norm of a format's panels that bounds sums (Cauchy-Schwarz): of blocks, if their sums often but not
/// always fit 16 bits; of totals, for signed bytes, whose block sums never fit.
pub(crate) const fn norms_of<D: IntSimd, F: Superblock>() -> u8 {
    let of_magnitudes = i16_limit::<F>(true).0;
    match (D::WORDS, F::PARTS) {
        (true, 1) if F::SIGNED && F::SIGNED_SCALES && !F::EXACT => OF_TOTALS,
        (true, 2) if !F::SIGNED && of_magnitudes < 16 * A => OF_BLOCKS,
        _ => NO_NORMS,
    }
}
