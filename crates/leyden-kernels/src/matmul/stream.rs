//! How the loops of the quantised formats read panels from memory: what is asked for ahead, which scales are copied, and which codes
//! are shifted as they are taken apart.

use super::family::{Codes, centred};
use super::format::ROWS;
use crate::isa::dot::{Dot, Unpack};
use crate::quantise::SHIFT;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// A copy of some blocks' scales. They lie before the codes, and what is read of them beside each block's is a second stream of memory,
/// which a processor foresees badly: without asking for anything ahead one core of Zen 4 read Q4_0 at 15 GB/s, and at 23 when each
/// panel's scales were read before its codes.
#[repr(align(64))]
pub(super) struct Kept([MaybeUninit<u8>; 64 * KEPT]);

/// Columns that may meet weights whose scales are kept: with four, Q8_0 and Q4_0 were slower.
pub(super) const KEPT_COLUMNS: usize = 2;
/// Blocks whose scales are kept at a time, each of at most 64 bytes.
pub(super) const KEPT: usize = 64;
/// Blocks of a panel for whose scales it is worth the while: those of fewer lie in few lines.
pub(super) const KEPT_LEAST: usize = 16;

impl Kept {
    #[inline(always)]
    pub(super) fn new() -> Kept {
        const { Kept([MaybeUninit::uninit(); _]) }
    }

    /// Where the copy begins, of whole lines.
    #[inline(always)]
    pub(super) fn copy(&mut self, scales: &[u8]) -> *const u8 {
        self.0[..scales.len()].write_copy_of_slice(scales).as_ptr()
    }
}

/// The codes of a format, fetched ahead where such follow, and shifted where they are [`centred`]. However many columns there are: without it a
/// Zen 5 core multiplied eight columns at half the rate.
pub(super) struct Stream<F, const C: usize, const HELD: bool>(PhantomData<F>);

impl<F: Codes, const C: usize, const HELD: bool> Unpack for Stream<F, C, HELD> {
    const HELD: bool = HELD && !F::APART && C <= KEPT_COLUMNS;
    const APART: bool = F::APART;
    const LINES: bool = F::BYTES == 32 * ROWS;

    #[inline(always)]
    unsafe fn pair<D: Dot>(d: D, w: *const u8, g: usize) -> (D::Codes, D::Codes) {
        if F::FOLLOWED {
            prefetch::<D, F>(d, w, g, C);
        }
        // SAFETY: the caller's promise.
        let (low, high) = unsafe { F::pair(d, w, g) };
        if const { centred::<D, F, C>() && !F::SIGNED } {
            let by = const { (SHIFT - F::ZERO) as u8 };
            return (d.shift(low, by), d.shift(high, by));
        }
        (low, high)
    }
}

/// Fetches ahead the share of step `g` of a block's codes. A Zen 5 core read a tenth slower when a block's were asked for at once.
#[inline(always)]
pub(crate) fn prefetch<D: Dot, F: Codes>(d: D, w: *const u8, g: usize, columns: usize) {
    let share = F::BYTES / 4;
    let mut at = 0;
    while at < share {
        d.prefetch_following(w.wrapping_add(g * share + at), columns);
        at += 64;
    }
}
