//! Panels for AMX matrix products, unpacked from packed panels once for several tiles, or part by part for a single
//! tile.
//!
//! An instruction multiplies 64 or 32 values of 16 rows with those of 16 columns. With a scale per 32 or 16 values,
//! each such product would have to be scaled. Where these scales are integers, weights are multiplied by them here, so
//! that 128 values are one sum. Such a weight takes two bytes, so there are two planes: unsigned lower bytes, and
//! signed upper bytes. The sum over the latter times 256, plus that over the former, is the integer sum of all other
//! levels.

use crate::gemm::format::traits::{A, Block32, QuantFormat, Superblock};
use crate::gemm::unpack::stream::prefetch;
use crate::quant::quantize::ZERO_POINT_SHIFT;
use crate::simd::int::IntSimd;
use crate::types::PANEL_ROWS;
use std::marker::PhantomData;
use std::ops::Range;

/// Bytes of 16 floats; `BLOCK` is the bytes of 32 quantised values of 16 rows.
const FLOATS: usize = 4 * PANEL_ROWS;
const BLOCK: usize = 32 * PANEL_ROWS;

/// Additional operations of an instruction set for [`superblocks`].
pub(crate) trait Planes: IntSimd {
    /// Computes `(quants - zero) * scales` and returns its lower and upper bytes. `quants` are unsigned; `scales` are
    /// signed bytes, each row's scale in both numbers of a pair. Products fit 16 bits.
    fn planes(self, quants: Self::Quants, scales: Self::Pairs, zero: i16) -> [Self::Quants; 2];
    /// Stores pairs of 16 rows.
    ///
    /// # Safety
    /// `p` points at room for them.
    unsafe fn store_pairs(self, a: Self::Pairs, p: *mut u8);
}

/// Panel of a Block32 format. Per 32 values: `[16]` scales, `[16]` minima if there are any, and quantised values
/// `[8][16][4]`, signed and without zero point.
pub(crate) struct AmxBlocks<F>(PhantomData<F>);

impl<F: Block32> AmxBlocks<F> {
    pub(crate) const CODES: usize = if F::MINIMUM { 2 * FLOATS } else { FLOATS };
    pub(crate) const OF_32: usize = Self::CODES + BLOCK;

    /// Returns the bytes of a panel of depth `k`.
    pub(crate) fn bytes(k: usize) -> Option<usize> {
        (k / 32).checked_mul(Self::OF_32)
    }
}

/// Panel of a superblock format. Per 128 values: `[16]` d, `[16]` dmin, the minima of two blocks in a word
/// `[PAIRS][16]`, and planes of quantised values `[32][16][4]`, first the lower bytes, then the upper ones.
pub(crate) struct AmxPlanes<F>(PhantomData<F>);

impl<F: Superblock> AmxPlanes<F> {
    /// Largest magnitude of a quantised value times its scale.
    const LARGEST: i32 = {
        let above = if F::SIGNED { F::MAX } else { F::MAX - F::ZERO };
        let below = if F::SIGNED { F::MAX + 1 } else { F::ZERO };
        F::MAX_SCALE * if above > below { above } else { below }
    };
    /// Number of planes: one if every product is an unsigned byte, else two.
    pub(crate) const PLANES: usize = {
        let unsigned = !F::SIGNED && F::ZERO == 0 && !F::SIGNED_SCALES;
        if unsigned && Self::LARGEST <= u8::MAX as i32 { 1 } else { 2 }
    };
    /// Number of words with the minima of two blocks each.
    pub(crate) const PAIRS: usize = 2 * F::PARTS;
    pub(crate) const MINIMA: usize = 2 * FLOATS;
    pub(crate) const CODES: usize = Self::MINIMA + if F::MINIMUM { Self::PAIRS * FLOATS } else { 0 };
    pub(crate) const OF_128: usize = Self::CODES + Self::PLANES * 4 * BLOCK;

    /// Returns the bytes of a panel of depth `k`.
    pub(crate) fn bytes(k: usize) -> Option<usize> {
        (k / 128).checked_mul(Self::OF_128)
    }
}

/// Loads k-groups `g` and `g + 4` of every row, each quantised value plus `shift`, and prefetches the memory after the
/// panel's part.
///
/// # Safety
/// `w` points at 32 quantised values of 16 rows.
#[inline(always)]
unsafe fn quants<D: IntSimd, F: QuantFormat>(d: D, w: *const u8, g: usize, shift: u8) -> [D::Quants; 2] {
    prefetch::<D, F>(d, w, g, 1);
    // SAFETY: `w` points at 32 quantised values of 16 rows (`# Safety`).
    let (low, high) = unsafe { F::pair(d, w, g) };
    if shift == 0 { [low, high] } else { [d.shift(low, shift), d.shift(high, shift)] }
}

/// Unpacks blocks of a Block32 panel to [`AmxBlocks`].
#[inline(always)]
pub(crate) fn block32<D: IntSimd, F: Block32>(
    d: D,
    panel: &[u8],
    k: usize,
    blocks: Range<usize>,
    out: &mut [u8],
) {
    let (first, stride) = F::scale_bytes(k);
    assert!(panel.len() == first + k / 32 * F::BYTES && blocks.end <= k / 32);
    assert!(out.len() == blocks.len() * AmxBlocks::<F>::OF_32);
    let panel = panel.as_ptr();
    for (b, out) in blocks.zip(out.chunks_exact_mut(AmxBlocks::<F>::OF_32)) {
        let out = out.as_mut_ptr();
        // SAFETY: the lengths checked above cover block b.
        unsafe {
            let (scale, minimum) = F::scale(d, panel.add(b * stride));
            d.store(scale, out.cast());
            if F::MINIMUM {
                d.store(minimum, out.add(FLOATS).cast());
            }
            for g in 0..4 {
                let shift = if F::SIGNED { 0 } else { (-F::ZERO) as u8 };
                let [low, high] = quants::<D, F>(d, panel.add(first + b * F::BYTES), g, shift);
                d.store_codes(low, out.add(AmxBlocks::<F>::CODES + g * 64));
                d.store_codes(high, out.add(AmxBlocks::<F>::CODES + (g + 4) * 64));
            }
        }
    }
}

/// Unpacks superblocks of a panel to [`AmxPlanes`].
#[inline(always)]
pub(crate) fn superblocks<D: Planes, F: Superblock>(
    d: D,
    panel: &[u8],
    k: usize,
    superblocks: Range<usize>,
    out: &mut [u8],
) {
    const {
        // Sums of each plane are exact as floats, so the sum of both is rounded once.
        assert!(AmxPlanes::<F>::LARGEST <= i16::MAX as i32 && 255 * F::MAX_SCALE <= i16::MAX as i32);
        assert!(128 * 255 * A < 1 << 22 && 128 * (AmxPlanes::<F>::LARGEST / 256 + 1) * A < 1 << 22);
    }
    assert!(F::panel_bytes(k) == Some(panel.len()) && superblocks.end <= k / 256);
    assert!(out.len() == superblocks.len() * 2 * AmxPlanes::<F>::OF_128);
    for (sb, out) in superblocks.zip(out.chunks_exact_mut(2 * AmxPlanes::<F>::OF_128)) {
        // SAFETY: the lengths checked above cover superblock sb.
        unsafe {
            let f = F::factors(d, panel.as_ptr(), k, sb);
            for (half, out) in out.chunks_exact_mut(AmxPlanes::<F>::OF_128).enumerate() {
                let out = out.as_mut_ptr();
                d.store(f.d, out.cast());
                d.store(f.dmin, out.add(FLOATS).cast());
                if F::MINIMUM {
                    for i in 0..AmxPlanes::<F>::PAIRS {
                        let first = 2 * (half * AmxPlanes::<F>::PAIRS + i);
                        let pairs = d.pairs(F::minimum(d, &f, first), F::minimum(d, &f, first + 1), false);
                        d.store_pairs(pairs, out.add(AmxPlanes::<F>::MINIMA + i * FLOATS));
                    }
                }
                for b in half * 4..half * 4 + 4 {
                    let to = out.add(AmxPlanes::<F>::CODES + b % 4 * BLOCK);
                    let (one, other) =
                        (F::scale(d, &f, b * F::PARTS), F::scale(d, &f, b * F::PARTS + F::PARTS - 1));
                    let scales =
                        [d.pairs(one, one, F::SIGNED_SCALES), d.pairs(other, other, F::SIGNED_SCALES)];
                    for g in 0..4 {
                        let (shift, zero) =
                            if F::SIGNED { (ZERO_POINT_SHIFT, ZERO_POINT_SHIFT) } else { (0, F::ZERO) };
                        let quants = quants::<D, F>(d, f.quants.add(b * F::BYTES), g, shift as u8);
                        for i in 0..2 {
                            let to = to.add((g + 4 * i) * 64);
                            let [low, high] = d.planes(quants[i], scales[i], zero as i16);
                            d.store_codes(low, to);
                            if AmxPlanes::<F>::PLANES == 2 {
                                d.store_codes(high, to.add(4 * BLOCK));
                            }
                        }
                    }
                }
            }
        }
    }
}
