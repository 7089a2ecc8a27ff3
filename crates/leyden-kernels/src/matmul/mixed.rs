//! Two products for one multiplication: weights' codes are added to activations' before they are multiplied.
//!
//! With `x = a0 + b1` and `y = a1 + b0`, `x y = a0 b0 + a1 b1 + a0 a1 + b0 b1`: the two wanted, one that depends on the activations alone and
//! one on the weights alone (S. Winograd, "A New Algorithm for Inner Product", 1968). The latter two are taken off before: those of the activations once
//! for all matrices of a batch ([`start`]), those of the weights when panels are taken apart. So a product of 32 values takes four
//! multiplications of vectors instead of eight, and eight additions. Where one unit multiplies and others add, as on Zen 4, that is a quarter
//! less of its time than it takes at best otherwise. Sums are the same integers.
//!
//! `x` must be an unsigned byte and `y` a signed one. Activations' codes span -120 to 120 for that ([`MOST_OF_128`]), and formats' 0 to 15: `x` gets 120 more,
//! and `y` 8 less, which the weights hold. Value `i` of 32 goes with value `i + 16`.

use super::family::Codes;
use super::format::ROWS;
use super::many::FEWEST;
use super::stream::prefetch;
use crate::isa::Tier;
use crate::isa::dot::Dot;
use crate::quantise::MOST_OF_128;

/// What is added to the weights that meet the first sixteen of 32 activations, and taken from those that meet the others.
pub(crate) const MORE: i32 = MOST_OF_128;
pub(crate) const LESS: i32 = 8;

/// Bytes of 32 codes of 16 rows, and of the numbers behind them.
pub(crate) const CODES: usize = 32 * ROWS;
pub(super) const ROW_STARTS: usize = 4 * ROWS;

/// Whether a batch of so many tiles is read by such kernels, if it is quantised for weights that have them.
pub(crate) fn mixes(tier: Tier, tiles: usize) -> bool {
    tier.one_multiplier() && tiles >= FEWEST
}

/// What sums begin at for 32 activations: what depends on them alone, negated.
#[inline(always)]
pub(crate) fn start(codes: &[i8; 32]) -> i32 {
    let mut sum = 0_i32;
    for i in 0..16 {
        let (a, b) = (i32::from(codes[i]), i32::from(codes[16 + i]));
        // Nothing overflows, and additions that say so are made one after the other.
        sum = sum.wrapping_add(a.wrapping_mul(LESS - b)).wrapping_sub(b.wrapping_mul(MORE));
    }
    sum
}

/// Whether a format's codes and the activations' sum up to bytes, on an instruction set that multiplies such sums.
pub(super) const fn fits<D: Dot, F: Codes>() -> bool {
    let unsigned = F::MAX + MORE + MOST_OF_128 <= u8::MAX as i32 && MORE >= MOST_OF_128;
    let signed = F::MAX - LESS + MOST_OF_128 <= i8::MAX as i32 && -LESS - MOST_OF_128 >= i8::MIN as i32;
    D::MIXES && !F::SIGNED && F::ZERO == 0 && unsigned && signed
}

/// Takes 32 values of 16 rows apart: what the first sixteen activations are added to, what the others are, and what sums begin at.
///
/// # Safety
/// They [`fits`] bytes; `w` points at the codes of 32 values, and `out` at room for them in bytes and for [`ROW_STARTS`] more.
#[inline(always)]
pub(super) unsafe fn block<D: Dot, F: Codes>(d: D, w: *const u8, out: *mut u8) {
    let mut sums = d.none();
    for g in 0..4 {
        prefetch::<D, F>(d, w, g, 1);
        // SAFETY: the caller's promise.
        unsafe {
            let (first, last) = F::pair(d, w, g);
            let (x, y) = (d.shift(last, MORE as u8), d.shift(first, (-LESS) as u8));
            d.store_codes(x, out.add(g * 64));
            d.store_codes(y, out.add((g + 4) * 64));
            sums = d.mix(sums, x, y);
        }
    }
    // SAFETY: the caller's promise.
    unsafe { d.store_less(sums, out.add(CODES)) };
}
