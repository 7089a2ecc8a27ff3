//! How the microkernels read packed panels: prefetch, copies of scales, and quantised values shifted by their zero point.

use crate::cpu::isa::AccInit;
use crate::gemm::format::traits::QuantFormat;
use crate::prefetch::MEMORY_BOUND_TOKENS;
use crate::quant::quantize::ZERO_POINT_SHIFT;
use crate::simd::int::{IntSimd, ReadQuants};
use crate::types::PANEL_ROWS;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// A copy of some blocks' scales. They lie before the quantised values, so that reading them beside each block's would be a second stream of
/// memory, which hardware prefetchers follow badly.
#[repr(align(64))]
pub(crate) struct ScaleCopy([MaybeUninit<u8>; 64 * KEPT]);

/// Columns up to which scales are copied.
pub(crate) const KEPT_COLUMNS: usize = 2;
/// Blocks whose scales are kept at a time, each of at most 64 bytes.
pub(crate) const KEPT: usize = 64;
/// Blocks of a panel for whose scales it is worth the while: those of fewer lie in few lines.
pub(crate) const KEPT_LEAST: usize = 16;

impl ScaleCopy {
    #[inline(always)]
    pub(crate) fn new() -> ScaleCopy {
        const { ScaleCopy([MaybeUninit::uninit(); _]) }
    }

    /// Where the copy begins, of whole lines.
    #[inline(always)]
    pub(crate) fn copy(&mut self, scales: &[u8]) -> *const u8 {
        self.0[..scales.len()].write_copy_of_slice(scales).as_ptr()
    }
}

/// The quantised values of a format, read in registers: prefetched where such follow, and shifted where the zero point is in the accumulator's
/// initial value ([`zero_point_in_acc_init`]).
pub(crate) struct Stream<F, const C: usize, const HELD: bool>(PhantomData<F>);

impl<F: QuantFormat, const C: usize, const HELD: bool> ReadQuants for Stream<F, C, HELD> {
    const HELD: bool = HELD && !F::UNPACKED && C <= KEPT_COLUMNS;
    const UNPACKED: bool = F::UNPACKED;
    const LINES: bool = F::BYTES == 32 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, w: *const u8, g: usize) -> (D::Quants, D::Quants) {
        if F::FOLLOWED {
            prefetch::<D, F>(d, w, g, C);
        }
        // SAFETY: the trait method's `# Safety`.
        let (low, high) = unsafe { F::pair(d, w, g) };
        if const { zero_point_in_acc_init::<D, F, C>() && !F::SIGNED } {
            let by = const { (ZERO_POINT_SHIFT - F::ZERO) as u8 };
            return (d.shift(low, by), d.shift(high, by));
        }
        (low, high)
    }
}

/// Prefetches the share of step `g` of a block's quantised values. In shares, lest hints be dropped.
#[inline(always)]
pub(crate) fn prefetch<D: IntSimd, F: QuantFormat>(d: D, w: *const u8, g: usize, columns: usize) {
    let share = F::BYTES / 4;
    let mut at = 0;
    while at < share {
        d.prefetch_following(w.wrapping_add(g * share + at), columns);
        at += 64;
    }
}

/// Whether a tile is bound by a single multiply port, with columns enough to share what unpacking costs.
pub(crate) const fn multiply_port_bound<D: IntSimd, F: QuantFormat, const C: usize>() -> bool {
    D::PACKS_TWO_SUMS && (F::UNPACKED || C > MEMORY_BOUND_TOKENS)
}

/// Whether quantised values that each tile unpacks are shifted as [`unpacked`](crate::gemm::unpack::panel) shifts them: sums begin at the batch's
/// `acc_init`, and their offset takes no products. Nor do those of both signs grow as large: of Q6_K and eleven columns nearly all
/// then fit 16 bits, of which most did not.
pub(crate) const fn zero_point_in_acc_init<D: IntSimd, F: QuantFormat, const C: usize>() -> bool {
    multiply_port_bound::<D, F, C>()
        && !F::UNPACKED
        && matches!(D::ACC_INIT, AccInit::Shift)
        && (F::SIGNED || F::ZERO != 0)
}
