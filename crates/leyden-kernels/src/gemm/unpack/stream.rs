//! Reading of packed panels in microkernels: prefetch, copies of scales, and quantised values shifted by their zero
//! point.

use crate::cpu::isa::AccInit;
use crate::gemm::format::traits::QuantFormat;
use crate::prefetch::MEMORY_BOUND_TOKENS;
use crate::quant::quantize::ZERO_POINT_SHIFT;
use crate::simd::int::{IntSimd, ReadQuants};
use crate::types::PANEL_ROWS;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Copy of some blocks' scales. Scales precede the quantised values, so reading them block by block would be a second
/// memory stream, which hardware prefetchers follow badly.
#[repr(align(64))]
pub(crate) struct ScaleCopy([MaybeUninit<u8>; 64 * KEPT]);

/// Maximum number of columns for which scales are copied.
pub(crate) const KEPT_COLUMNS: usize = 2;
/// Number of blocks whose scales are copied at a time, each of at most 64 bytes.
pub(crate) const KEPT: usize = 64;
/// Minimum number of blocks in a panel for copying: the scales of fewer blocks take few cache lines.
pub(crate) const MIN_KEPT: usize = 16;

impl ScaleCopy {
    #[inline(always)]
    pub(crate) fn new() -> ScaleCopy {
        const { ScaleCopy([MaybeUninit::uninit(); _]) }
    }

    /// Copies whole lines of scales and returns the address of the copy.
    #[inline(always)]
    pub(crate) fn copy(&mut self, scales: &[u8]) -> *const u8 {
        self.0[..scales.len()].write_copy_of_slice(scales).as_ptr()
    }
}

/// Quantised values of a format, read into registers: the memory after the panel is prefetched where it is used next,
/// and values are shifted if the accumulator's initial value holds the zero point ([`zero_point_in_acc_init`]).
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

/// Prefetches the share of step `g` of a block's quantised values. In shares, because a burst of hints would be
/// dropped.
#[inline(always)]
pub(crate) fn prefetch<D: IntSimd, F: QuantFormat>(d: D, w: *const u8, g: usize, columns: usize) {
    let share = F::BYTES / 4;
    let mut at = 0;
    while at < share {
        d.prefetch_following(w.wrapping_add(g * share + at), columns);
        at += 64;
    }
}

/// Returns whether a tile is bound by a single multiply port, with enough columns to share the cost of unpacking.
pub(crate) const fn multiply_port_bound<D: IntSimd, F: QuantFormat, const C: usize>() -> bool {
    D::PACKS_TWO_SUMS && (F::UNPACKED || C > MEMORY_BOUND_TOKENS)
}

/// Returns whether each tile shifts the quantised values as [`unpacked`](crate::gemm::unpack::panel) does: sums then
/// begin at the batch's `acc_init`, and the zero point needs no products. Sums of signed values are also smaller: with
/// Q6_K and eleven columns nearly all fit 16 bits, where most unsigned ones did not.
pub(crate) const fn zero_point_in_acc_init<D: IntSimd, F: QuantFormat, const C: usize>() -> bool {
    multiply_port_bound::<D, F, C>()
        && !F::UNPACKED
        && matches!(D::ACC_INIT, AccInit::Shift)
        && (F::SIGNED || F::ZERO != 0)
}
