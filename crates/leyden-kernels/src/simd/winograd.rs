//! What Winograd's inner product adds to both factors, and what that adds to a sum of products.

use crate::types::Q128_MAX;

/// What is added to the weights that meet the first sixteen of 32 activations, and taken from those that meet the others.
pub(crate) const MORE: i32 = Q128_MAX;

pub(crate) const LESS: i32 = 8;

/// The accumulator's initial value of sums for 32 activations: what depends on them alone, negated.
#[inline(always)]
pub(crate) fn start(quants: &[i8; 32]) -> i32 {
    let mut sum = 0_i32;
    for i in 0..16 {
        let (a, b) = (i32::from(quants[i]), i32::from(quants[16 + i]));
        // Nothing overflows, and additions that say so are made one after the other.
        sum = sum.wrapping_add(a.wrapping_mul(LESS - b)).wrapping_sub(b.wrapping_mul(MORE));
    }
    sum
}
