//! Which bounds on sums of products a format's kernels ask for.

use crate::gemm::format::traits::{A, Superblock};
use crate::simd::int::IntSimd;

/// The largest of a tile's [`OverflowBounds::sums`](crate::quant::overflow_bounds::OverflowBounds) with which the sums of one block of a superblock format
/// fit 16 bits, and which of them that is. With `acc_init` the sums are of quantised values as they are meant, else as they are stored.
pub(crate) const fn i16_limit<F: Superblock>(acc_init: bool) -> (i32, usize) {
    let (quants, signed) = match (acc_init, F::SIGNED) {
        (true, false) => (if F::ZERO > F::MAX - F::ZERO { F::ZERO } else { F::MAX - F::ZERO }, true),
        // Those of signed bytes are of no use: they never fit.
        (_, true) => (i16::MAX as i32, true),
        (false, false) => (F::MAX, false),
    };
    (i16::MAX as i32 / quants, if F::PARTS == 2 { 0 } else { 2 } + if signed { 0 } else { 1 })
}

/// What a panel that is unpacked says of the squares of each 128 values.
pub(crate) const NO_NORMS: u8 = 0;

/// Their sum over one block's quantised values.
pub(crate) const OF_BLOCKS: u8 = 1;

/// Their sum over the scaled quantised values of the first three blocks.
pub(crate) const OF_TOTALS: u8 = 2;

/// Which squares of a format's panels bound sums (Cauchy and Schwarz): those that often but not always fit 16 bits; and the
/// totals of bytes, whose sums never do.
pub(crate) const fn norms_of<D: IntSimd, F: Superblock>() -> u8 {
    let of_magnitudes = i16_limit::<F>(true).0;
    match (D::WORDS, F::PARTS) {
        (true, 1) if F::SIGNED && F::SIGNED_SCALES && !F::EXACT => OF_TOTALS,
        (true, 2) if !F::SIGNED && of_magnitudes < 16 * A => OF_BLOCKS,
        _ => NO_NORMS,
    }
}
