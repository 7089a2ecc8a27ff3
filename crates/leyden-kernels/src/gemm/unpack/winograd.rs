//! Winograd's inner product: two products for one multiplication and two additions.
//!
//! With `x = a0 + b1` and `y = a1 + b0`, `x y = a0 b0 + a1 b1 + a0 a1 + b0 b1`: the two wanted, one that depends on the activations alone and
//! one on the weights alone (S. Winograd, "A New Algorithm for Inner Product", 1968). The latter two are corrections in the accumulator's
//! initial value: of the activations once for all matrices of a batch ([`start`](crate::simd::winograd::start)), of the weights when panels
//! are unpacked. It pays where a single port multiplies and others add. Sums are the same integers.
//!
//! `x` must be an unsigned byte and `y` a signed one. Activations' quantised values span -120 to 120 for that ([`Q128_MAX`]), and formats' 0 to 15: `x` gets 120 more,
//! and `y` 8 less, which the weights hold. Value `i` of 32 goes with value `i + 16`.

use crate::gemm::format::traits::QuantFormat;
use crate::gemm::unpack::stream::prefetch;
use crate::simd::int::IntSimd;
use crate::simd::winograd::{LESS, MORE};
use crate::types::{PANEL_ROWS, Q128_MAX};

/// Bytes of 32 quantised values of 16 rows, and of the numbers behind them.
pub(crate) const CODES: usize = 32 * PANEL_ROWS;
pub(super) const WEIGHT_CORRECTIONS: usize = 4 * PANEL_ROWS;

/// Whether a format's quantised values and the activations' sum up to bytes, on an instruction set that multiplies such sums.
pub(super) const fn fits<D: IntSimd, F: QuantFormat>() -> bool {
    let unsigned = F::MAX + MORE + Q128_MAX <= u8::MAX as i32 && MORE >= Q128_MAX;
    let signed = F::MAX - LESS + Q128_MAX <= i8::MAX as i32 && -LESS - Q128_MAX >= i8::MIN as i32;
    D::WINOGRAD_INNER_PRODUCT && !F::SIGNED && F::ZERO == 0 && unsigned && signed
}

/// Unpacks 32 values of 16 rows: what the first sixteen activations are added to, what the others are, and what sums begin at.
///
/// # Safety
/// They [`fits`] bytes; `w` points at the quantised values of 32 values, and `out` at room for them in bytes and for [`WEIGHT_CORRECTIONS`] more.
#[inline(always)]
pub(super) unsafe fn block<D: IntSimd, F: QuantFormat>(d: D, w: *const u8, out: *mut u8) {
    let mut sums = d.none();
    for g in 0..4 {
        prefetch::<D, F>(d, w, g, 1);
        // SAFETY: the sums fit bytes (`fits`) (`# Safety`).
        unsafe {
            let (first, last) = F::pair(d, w, g);
            let (x, y) = (d.shift(last, MORE as u8), d.shift(first, (-LESS) as u8));
            d.store_codes(x, out.add(g * 64));
            d.store_codes(y, out.add((g + 4) * 64));
            sums = d.winograd_products(sums, x, y);
        }
    }
    // SAFETY: the sums fit bytes (`fits`) (`# Safety`).
    unsafe { d.store_less(sums, out.add(CODES)) };
}
