//! What a format says of itself to the microkernels.

use crate::simd::int::{FLOATS, INTEGERS, IntSimd};
use crate::types::PANEL_ROWS;
use std::mem::MaybeUninit;

/// Largest magnitude of an activation code.
pub(crate) const A: i32 = 127;

/// How a format stores the quantised values of 32 values of 16 rows.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
pub(crate) trait QuantFormat {
    /// Whether panels were unpacked ahead ([`unpacked`](crate::gemm::unpack::panel)).
    const UNPACKED: bool = false;
    /// Whether they were so as [`winograd`](crate::gemm::unpack::winograd) reads them.
    const WINOGRAD: bool = false;
    /// Whether what lies behind a panel is multiplied next, and so prefetched.
    const FOLLOWED: bool = !Self::UNPACKED;
    /// The largest unsigned code.
    const MAX: i32;
    /// Whether quantised values are signed bytes.
    const SIGNED: bool = false;
    /// What the unsigned code of the value 0 is.
    const ZERO: i32 = 0;
    /// Bytes of 32 values of 16 rows.
    const BYTES: usize;

    /// Quantised values of k-group `g` (0 to 3) and of k-group `g + 4`.
    ///
    /// # Safety
    /// `p` points at [`QuantFormat::BYTES`] readable bytes.
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants);
}

/// A format with one float scale per 32 values.
pub(crate) trait Block32: QuantFormat {
    /// Whether a block also has a minimum, added to each of its values.
    const MINIMUM: bool = false;
    /// Whether scales are half-precision numbers.
    const HALVES: bool = true;

    /// Bytes of the scales before the quantised values in a panel of depth `k`, and of one block's scales: by default 16
    /// halves per block, and 16 more for minima.
    fn scale_bytes(k: usize) -> (usize, usize) {
        let block = if Self::MINIMUM { 4 * PANEL_ROWS } else { 2 * PANEL_ROWS };
        ((k / 32 * block).next_multiple_of(64), block)
    }

    /// Scale and minimum of a block from its scales at `p`.
    ///
    /// # Safety
    /// `p` points at the scales of one block.
    #[inline(always)]
    unsafe fn scale<D: IntSimd>(d: D, p: *const u8) -> (D::Floats, D::Floats) {
        // SAFETY: the caller gives one block's scales.
        unsafe { (d.halves(p), if Self::MINIMUM { d.halves(p.add(2 * PANEL_ROWS)) } else { d.zeros() }) }
    }
}

/// Bytes of as many blocks as 256 values have. Those that a format has not stay as they are uninitialised.
pub(crate) type ScaleVectors<D> = [MaybeUninit<<D as IntSimd>::Bytes>; 16];

/// None of them.
pub(crate) const fn uninit_scales<D: IntSimd>() -> ScaleVectors<D> {
    [const { MaybeUninit::uninit() }; 16]
}

/// SuperblockScales of 256 values.
pub(crate) struct SuperblockScales<D: IntSimd> {
    /// Scale of the scales, and of the minima.
    pub(crate) d: D::Floats,
    pub(crate) dmin: D::Floats,
    /// Scales and minima of the blocks of 16 or 32 values, where [`Superblock::scale`] and [`Superblock::minimum`] do not read them elsewhere.
    pub(crate) scales: ScaleVectors<D>,
    pub(crate) minima: ScaleVectors<D>,
    /// The quantised values.
    pub(crate) quants: *const u8,
}

/// A format with integer scales under floats per 256 values.
pub(crate) trait Superblock: QuantFormat {
    /// Blocks with a scale of their own per 32 values: 1 or 2.
    const PARTS: usize;
    /// The largest magnitude of a block's scale.
    const MAX_SCALE: i32;
    /// Whether scales are signed bytes.
    const SIGNED_SCALES: bool = false;
    /// Whether blocks have minima, subtracted from their values.
    const MINIMUM: bool = false;
    /// Whether scaled sums of 128 values stay below 2^24.
    const EXACT: bool;
    /// What that allows.
    const HOW: u8 = if Self::EXACT { FLOATS } else { INTEGERS };
    /// Whether those of 64 values do. Then two of them in floats make, added and so rounded once, what the sum of 128 in
    /// integers rounds to.
    const EXACT_64: bool = Self::EXACT;

    /// Bytes of a panel of depth `k`.
    fn panel_bytes(k: usize) -> Option<usize>;

    /// SuperblockScales of the `sb`-th 256 values of a panel: unless they are read elsewhere, the scales of `8 * PARTS` blocks, and with
    /// [`MINIMUM`](Superblock::MINIMUM) as many minima.
    ///
    /// # Safety
    /// `panel` points at a whole panel of depth `k`, and `sb < k / 256`.
    unsafe fn factors<D: IntSimd>(d: D, panel: *const u8, k: usize, sb: usize) -> SuperblockScales<D>;

    /// The scale of the `i`-th block of 256 values.
    ///
    /// # Safety
    /// `f` is what [`Superblock::factors`] gave, and there are so many blocks.
    #[inline(always)]
    unsafe fn scale<D: IntSimd>(_d: D, f: &SuperblockScales<D>, i: usize) -> D::Bytes {
        // SAFETY: `f` is what `factors` gave (`# Safety`), which wrote it.
        unsafe { f.scales[i].assume_init() }
    }

    /// As [`Superblock::scale`], its minimum, of a format that has such.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn minimum<D: IntSimd>(_d: D, f: &SuperblockScales<D>, i: usize) -> D::Bytes {
        // SAFETY: `f` is what `factors` gave (`# Safety`), which wrote it.
        unsafe { f.minima[i].assume_init() }
    }
}

/// How the products of a float format are made, step by step along the depth.
pub(crate) trait FloatFormat<D: IntSimd>: Copy {
    /// Bytes of a weight.
    const SIZE: usize;
    /// Weights of a row in one step.
    const DEPTH: usize = 1;
    /// Numbers of a column in one step.
    const VALUES: usize = Self::DEPTH;

    /// Whether a panel ends with a whole step, though its depth does not.
    const PADDED: bool = false;

    /// Adds the products of one step to each column; without `WHOLE` of its first weights alone, as the others lie
    /// behind an odd depth.
    ///
    /// # Safety
    /// `w` and `x` point at the weights and activations of a step.
    unsafe fn step<const WHOLE: bool, const C: usize>(
        self,
        d: D,
        w: *const u8,
        x: *const f32,
        y: &mut [D::Floats; C],
    );
}

/// Chains of multiply-adds in a product of float weights, and how many k one chain takes before the next does.
/// Several, because a single one would wait four cycles for each addition when there is one column.
pub(crate) const CHAINS: usize = 4;

pub(crate) const CHAIN: usize = 64;

/// How the weights of a float format are read.
pub(crate) trait ReadFloats: Copy {
    /// ScaleVectors of them.
    ///
    /// # Safety
    /// `p` points at them.
    unsafe fn read<D: IntSimd>(self, d: D, p: *const u8) -> D::Floats;
}
