//! Offsets of both factors of Winograd's inner product, and the correction of a sum of products for them.

use crate::types::Q128_MAX;

/// Offset added to the weights paired with the first 16 of 32 activations; `LESS` is subtracted from the other weights.
pub(crate) const MORE: i32 = Q128_MAX;

pub(crate) const LESS: i32 = 8;

/// Returns the initial value of the sums for 32 activations: the negated terms that depend on the activations alone.
#[inline(always)]
pub(crate) fn start(quants: &[i8; 32]) -> i32 {
    let mut sum = 0_i32;
    for i in 0..16 {
        let (a, b) = (i32::from(quants[i]), i32::from(quants[16 + i]));
        // Nothing overflows; wrapping additions avoid checks.
        sum = sum.wrapping_add(a.wrapping_mul(LESS - b)).wrapping_sub(b.wrapping_mul(MORE));
    }
    sum
}
