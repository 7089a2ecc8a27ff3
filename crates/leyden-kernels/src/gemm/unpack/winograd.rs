//! Winograd's inner product: two products for one multiplication and two additions.
//!
//! With `x = a0 + b1` and `y = a1 + b0`, `x y = a0 b0 + a1 b1 + a0 a1 + b0 b1`: the two products, a term of the
//! activations alone and one of the weights alone (S. Winograd, "A New Algorithm for Inner Product", 1968). The latter
//! two are corrections in the accumulator's initial value: of the activations once for all matrices of a batch
//! ([`start`](crate::simd::winograd::start)), of the weights when panels are unpacked. It pays on processors with a
//! single multiply port and other ports for additions. Sums are the same integers.
//!
//! `x` must be an unsigned byte and `y` a signed one. For that, quantised activations range from -120 to 120
//! ([`Q128_MAX`]), and quantised weights from 0 to 15: 120 is added to `x` and 8 subtracted from `y`, both in the
//! unpacked weights. Value `i` of 32 is paired with value `i + 16`.

use crate::gemm::format::traits::QuantFormat;
use crate::gemm::unpack::stream::prefetch;
use crate::simd::int::IntSimd;
use crate::simd::winograd::{LESS, MORE};
use crate::types::{PANEL_ROWS, Q128_MAX};

/// Bytes of 32 quantised values of 16 rows; they are followed by `WEIGHT_CORRECTIONS` bytes of corrections.
pub(crate) const CODES: usize = 32 * PANEL_ROWS;
pub(super) const WEIGHT_CORRECTIONS: usize = 4 * PANEL_ROWS;

/// Returns whether the sums of a format's quantised values and of activations fit bytes, on an instruction set that has
/// such products.
pub(super) const fn fits<D: IntSimd, F: QuantFormat>() -> bool {
    let unsigned = F::MAX + MORE + Q128_MAX <= u8::MAX as i32 && MORE >= Q128_MAX;
    let signed = F::MAX - LESS + Q128_MAX <= i8::MAX as i32 && -LESS - Q128_MAX >= i8::MIN as i32;
    D::WINOGRAD_INNER_PRODUCT && !F::SIGNED && F::ZERO == 0 && unsigned && signed
}

/// Unpacks 32 values of 16 rows: the terms that the first 16 activations are added to, those of the last 16, and the
/// correction of the weights.
///
/// # Safety
/// The sums fit bytes ([`fits`]); `w` points at 32 quantised values of 16 rows, and `out` at room for as many bytes and
/// for [`WEIGHT_CORRECTIONS`] more.
#[inline(always)]
pub(super) unsafe fn block<D: IntSimd, F: QuantFormat>(d: D, w: *const u8, out: *mut u8) {
    let mut sums = d.none();
    for g in 0..4 {
        prefetch::<D, F>(d, w, g, 1);
        // SAFETY: the sums fit bytes, `w` is readable and `out` has room (`# Safety`).
        unsafe {
            let (first, last) = F::pair(d, w, g);
            let (x, y) = (d.shift(last, MORE as u8), d.shift(first, (-LESS) as u8));
            d.store_codes(x, out.add(g * 64));
            d.store_codes(y, out.add((g + 4) * 64));
            sums = d.winograd_products(sums, x, y);
        }
    }
    // SAFETY: the sums fit bytes, and `out` has room (`# Safety`).
    unsafe { d.store_less(sums, out.add(CODES)) };
}
