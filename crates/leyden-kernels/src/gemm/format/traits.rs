//! Traits that describe a weight format to the microkernels.

use crate::simd::int::{FLOATS, INTEGERS, IntSimd};
use crate::types::PANEL_ROWS;
use std::mem::MaybeUninit;

/// Largest magnitude of a quantised activation.
pub(crate) const A: i32 = 127;

/// Storage of 32 quantised values of 16 rows in a format.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
pub(crate) trait QuantFormat {
    /// True if panels were unpacked before ([`unpacked`](crate::gemm::unpack::panel)).
    const UNPACKED: bool = false;
    /// True if they were unpacked for [`winograd`](crate::gemm::unpack::winograd).
    const WINOGRAD: bool = false;
    /// True if the memory after a panel is multiplied next, and is therefore prefetched.
    const FOLLOWED: bool = !Self::UNPACKED;
    /// Largest unsigned quantised value.
    const MAX: i32;
    /// True if quantised values are signed bytes.
    const SIGNED: bool = false;
    /// Zero point: the unsigned quantised value that stands for 0.
    const ZERO: i32 = 0;
    /// Bytes of 32 values of 16 rows.
    const BYTES: usize;

    /// Reads the quantised values of k-group `g` (0 to 3) and of k-group `g + 4`.
    ///
    /// # Safety
    /// `p` points at [`QuantFormat::BYTES`] readable bytes.
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants);
}

/// Format with one float scale per 32 values.
pub(crate) trait Block32: QuantFormat {
    /// True if a block also has a minimum, added to each of its values.
    const MINIMUM: bool = false;
    /// True if scales are half-precision numbers.
    const HALVES: bool = true;

    /// Returns the bytes of the scales before the quantised values in a panel of depth `k`, and of one block's scales:
    /// by default 16 halves per block, and 16 more for minima.
    fn scale_bytes(k: usize) -> (usize, usize) {
        let block = if Self::MINIMUM { 4 * PANEL_ROWS } else { 2 * PANEL_ROWS };
        ((k / 32 * block).next_multiple_of(64), block)
    }

    /// Converts the scale and the minimum of the block at `p` to floats.
    ///
    /// # Safety
    /// `p` points at the scales of one block.
    #[inline(always)]
    unsafe fn scale<D: IntSimd>(d: D, p: *const u8) -> (D::Floats, D::Floats) {
        // SAFETY: the caller passes one block's scales.
        unsafe { (d.halves(p), if Self::MINIMUM { d.halves(p.add(2 * PANEL_ROWS)) } else { d.zeros() }) }
    }
}

/// Vectors of scales, one byte per row, for the maximum number of blocks in 256 values. Those beyond a format's blocks
/// stay uninitialised.
pub(crate) type ScaleVectors<D> = [MaybeUninit<<D as IntSimd>::Bytes>; 16];

/// Returns uninitialised vectors of scales.
pub(crate) const fn uninit_scales<D: IntSimd>() -> ScaleVectors<D> {
    [const { MaybeUninit::uninit() }; 16]
}

/// Factors, scales and minima of a superblock of 256 values.
pub(crate) struct SuperblockScales<D: IntSimd> {
    /// Factor of the scales; `dmin` is that of the minima.
    pub(crate) d: D::Floats,
    pub(crate) dmin: D::Floats,
    /// Scales and minima of the blocks of 16 or 32 values, unless [`Superblock::scale`] and [`Superblock::minimum`]
    /// read them from the panel.
    pub(crate) scales: ScaleVectors<D>,
    pub(crate) minima: ScaleVectors<D>,
    /// Address of the quantised values.
    pub(crate) quants: *const u8,
}

/// Format with an integer scale per block, and float factors per 256 values.
pub(crate) trait Superblock: QuantFormat {
    /// Number of scaled blocks per 32 values: 1 or 2.
    const PARTS: usize;
    /// Largest magnitude of a block's scale.
    const MAX_SCALE: i32;
    /// True if scales are signed bytes.
    const SIGNED_SCALES: bool = false;
    /// True if blocks have minima, subtracted from their values.
    const MINIMUM: bool = false;
    /// True if scaled sums of 128 values stay below 2^24.
    const EXACT: bool;
    /// Arithmetic of the scaled sums that this allows.
    const HOW: u8 = if Self::EXACT { FLOATS } else { INTEGERS };
    /// True if scaled sums of 64 values stay below 2^24. Then two of them, added as floats and so rounded once, equal
    /// the rounded integer sum of 128 values.
    const EXACT_64: bool = Self::EXACT;

    /// Returns the bytes of a panel of depth `k`.
    fn panel_bytes(k: usize) -> Option<usize>;

    /// Reads the factors of the `sb`-th 256 values of a panel. Unless they are read elsewhere, also the scales of
    /// `8 * PARTS` blocks, and with [`MINIMUM`](Superblock::MINIMUM) as many minima.
    ///
    /// # Safety
    /// `panel` points at a whole panel of depth `k`, and `sb < k / 256`.
    unsafe fn factors<D: IntSimd>(d: D, panel: *const u8, k: usize, sb: usize) -> SuperblockScales<D>;

    /// Returns the scale of the `i`-th block of 256 values.
    ///
    /// # Safety
    /// `f` was returned by [`Superblock::factors`], and the superblock has more than `i` blocks.
    #[inline(always)]
    unsafe fn scale<D: IntSimd>(_d: D, f: &SuperblockScales<D>, i: usize) -> D::Bytes {
        // SAFETY: `factors` returned `f` (`# Safety`), and initialised the scale.
        unsafe { f.scales[i].assume_init() }
    }

    /// Returns the minimum of the `i`-th block of 256 values, of a format that has minima.
    ///
    /// # Safety
    /// As in [`Superblock::scale`].
    #[inline(always)]
    unsafe fn minimum<D: IntSimd>(_d: D, f: &SuperblockScales<D>, i: usize) -> D::Bytes {
        // SAFETY: `factors` returned `f` (`# Safety`), and initialised the minimum.
        unsafe { f.minima[i].assume_init() }
    }
}

/// Products of a float format, step by step along the depth.
pub(crate) trait FloatFormat<D: IntSimd>: Copy {
    /// Bytes of a weight.
    const SIZE: usize;
    /// Number of weights of a row in one step.
    const DEPTH: usize = 1;
    /// Number of floats of a column in one step.
    const VALUES: usize = Self::DEPTH;

    /// True if a panel ends with a whole step even if its depth does not.
    const PADDED: bool = false;

    /// Adds the products of one step to each column. Without `WHOLE` only those of its first weights: the others are
    /// beyond an odd depth.
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

/// Number of chains of multiply-adds in a product of float weights; `CHAIN` is the number of consecutive k per chain.
/// With one chain and one column, each addition would wait four cycles for the last.
pub(crate) const CHAINS: usize = 4;

pub(crate) const CHAIN: usize = 64;

/// Conversion of a float format's weights to floats.
pub(crate) trait ReadFloats: Copy {
    /// Reads 16 weights as a vector of floats.
    ///
    /// # Safety
    /// `p` points at 16 weights.
    unsafe fn read<D: IntSimd>(self, d: D, p: *const u8) -> D::Floats;
}
