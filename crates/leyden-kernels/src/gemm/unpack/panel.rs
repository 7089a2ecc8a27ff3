//! Panels unpacked once for many tiles.
//!
//! On a packed panel each tile unpacks quantised values and scales in registers. If many tiles use a panel, a task
//! first writes it as bytes and floats ([`Unpacked`]) to scratch memory that stays in L2, and all tiles read that. Sums
//! are the same integers, so results are the same bits. `gemm::registry` lists the formats and levels that do this.
//!
//! With [`AccInit::Shift`] all quantised values are shifted by the same number to be unsigned, and sums begin at a
//! correction, so neither the zero point nor the sign of a format costs a tile anything. With [`AccInit::Lanes`]
//! quantised values stay unchanged. AVX2 has its own layouts for integer scales and signed quantised values
//! (`gemm/microkernel/x86_64/avx2_maddubs.rs`, `gemm/microkernel/x86_64/avx2_madd.rs`).
//!
//! 16-bit floats become 32-bit floats, which a tile multiplies like F32 weights.

use crate::cpu::isa::AccInit;
use crate::gemm::format::overflow_bounds::{NO_NORMS, OF_BLOCKS, norms_of};
use crate::gemm::format::traits::{
    Block32, QuantFormat, ReadFloats, Superblock, SuperblockScales, uninit_scales,
};
use crate::gemm::unpack::stream::prefetch;
use crate::gemm::unpack::winograd;
use crate::quant::quantize::ZERO_POINT_SHIFT;
use crate::simd::int::{F32Simd, INTEGERS, IntSimd};
use crate::types::PANEL_ROWS;
use std::marker::PhantomData;

/// Bytes of 32 quantised values of 16 rows; `FLOATS` is the bytes of 16 floats.
const BLOCK: usize = 32 * PANEL_ROWS;
const FLOATS: usize = 4 * PANEL_ROWS;

/// Format of unpacked panels of format `F`: scales as floats, or as bytes if they are integers, then quantised values;
/// with `WINOGRAD` in the layout of [`winograd`].
pub(crate) struct Unpacked<F, const WINOGRAD: bool = false>(PhantomData<F>);

impl<F: QuantFormat, const WINOGRAD: bool> QuantFormat for Unpacked<F, WINOGRAD> {
    const UNPACKED: bool = true;
    const WINOGRAD: bool = WINOGRAD;
    const MAX: i32 = F::MAX;
    const SIGNED: bool = F::SIGNED;
    const ZERO: i32 = F::ZERO;
    const BYTES: usize = BLOCK + if WINOGRAD { winograd::WEIGHT_CORRECTIONS } else { 0 };

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives eight vectors.
        unsafe { (d.load(p.add(g * 64)), d.load(p.add((g + 4) * 64))) }
    }
}

/// Panel layout: `[k/32][16]` scales, each with `[16]` minima if there are any, then quantised values.
impl<F: Block32> Block32 for Unpacked<F> {
    const MINIMUM: bool = F::MINIMUM;
    const HALVES: bool = F::HALVES;

    fn scale_bytes(k: usize) -> (usize, usize) {
        let block = if F::MINIMUM { 2 * FLOATS } else { FLOATS };
        (k / 32 * block, block)
    }

    #[inline(always)]
    unsafe fn scale<D: IntSimd>(d: D, p: *const u8) -> (D::Floats, D::Floats) {
        // SAFETY: the caller gives one block's scales.
        unsafe { (d.load_floats(p), if F::MINIMUM { d.load_floats(p.add(FLOATS)) } else { d.zeros() }) }
    }
}

/// Converts the 16-bit weights of a panel to 32-bit floats.
#[inline(always)]
pub(crate) fn floats<D: IntSimd, F: ReadFloats>(d: D, f: F, panel: &[u8], k: usize, out: &mut [u8]) {
    const HALVES: usize = 2 * PANEL_ROWS;
    assert!(k.checked_mul(HALVES) == Some(panel.len()) && float_bytes(k) == Some(out.len()));
    for i in 0..k {
        // SAFETY: the lengths checked above cover sixteen values of each k.
        unsafe {
            let values = f.read(d, panel.as_ptr().add(i * HALVES));
            d.store(values, out.as_mut_ptr().add(i * FLOATS).cast());
        }
    }
}

/// Returns the bytes of a float panel of depth `k`.
pub(crate) fn float_bytes(k: usize) -> Option<usize> {
    k.checked_mul(FLOATS)
}

/// Returns the bytes of a panel of depth `k` of bfloat16 pairs; the last values of an odd depth are paired with zeros.
pub(crate) fn pair_bytes(k: usize) -> Option<usize> {
    k.checked_next_multiple_of(2)?.checked_mul(2 * PANEL_ROWS)
}

/// Returns the bytes of a panel of a Block32 format of depth `k`.
pub(crate) fn block32_bytes<F: Block32>(k: usize) -> Option<usize> {
    Unpacked::<F>::scale_bytes(k).0.checked_add(k.checked_mul(PANEL_ROWS)?)
}

/// Panel layout per 256 values: `[16]` d, `[16]` dmin, the bytes of the blocks' scales and of their minima, then
/// quantised values.
impl<F: Superblock, const WINOGRAD: bool> Unpacked<F, WINOGRAD> {
    const SCALES: usize = 2 * FLOATS;
    const MINIMA: usize = Self::SCALES + 8 * F::PARTS * PANEL_ROWS;
    const CODES: usize = if F::MINIMUM { Self::MINIMA + 8 * F::PARTS * PANEL_ROWS } else { Self::MINIMA };
    const OF_256: usize = Self::CODES + 8 * Self::BYTES;
}

impl<F: Superblock, const WINOGRAD: bool> Superblock for Unpacked<F, WINOGRAD> {
    const PARTS: usize = F::PARTS;
    const MAX_SCALE: i32 = F::MAX_SCALE;
    const SIGNED_SCALES: bool = F::SIGNED_SCALES;
    const MINIMUM: bool = F::MINIMUM;
    const EXACT: bool = F::EXACT;
    const EXACT_64: bool = F::EXACT_64;

    fn panel_bytes(k: usize) -> Option<usize> {
        (k / 256).checked_mul(Self::OF_256)
    }

    #[inline(always)]
    unsafe fn factors<D: IntSimd>(d: D, panel: *const u8, _k: usize, sb: usize) -> SuperblockScales<D> {
        // SAFETY: the caller passes a whole panel, and this is its superblock sb.
        unsafe {
            let p = panel.add(sb * Self::OF_256);
            // The methods below read scales one by one: so many do not stay in registers.
            let (factor, minimum) = (d.load_floats(p), d.load_floats(p.add(FLOATS)));
            SuperblockScales {
                d: factor,
                dmin: minimum,
                scales: uninit_scales::<D>(),
                minima: uninit_scales::<D>(),
                quants: p.add(Self::CODES),
            }
        }
    }

    #[inline(always)]
    unsafe fn scale<D: IntSimd>(d: D, f: &SuperblockScales<D>, i: usize) -> D::Bytes {
        // SAFETY: the factors' quantised values follow the scales of 256 values.
        unsafe { d.bytes(f.quants.sub(Self::CODES - Self::SCALES).add(i * PANEL_ROWS)) }
    }

    #[inline(always)]
    unsafe fn minimum<D: IntSimd>(d: D, f: &SuperblockScales<D>, i: usize) -> D::Bytes {
        // SAFETY: as above.
        unsafe { d.bytes(f.quants.sub(Self::CODES - Self::MINIMA).add(i * PANEL_ROWS)) }
    }
}

/// Returns the shift of the quantised values of formats whose sums begin at the batch's `acc_init`: signed formats and
/// those with a zero point.
const fn shift<D: IntSimd, F: QuantFormat>() -> u8 {
    match D::ACC_INIT {
        AccInit::Shift if F::SIGNED || F::ZERO != 0 => (ZERO_POINT_SHIFT - F::ZERO) as u8,
        _ => 0,
    }
}

/// Unpacks 32 values of 16 rows.
///
/// # Safety
/// `w` points at 32 quantised values of 16 rows, and `out` at room for [`BLOCK`] bytes.
#[inline(always)]
unsafe fn block<D: IntSimd, F: QuantFormat>(d: D, w: *const u8, out: *mut u8, shift: u8) {
    for g in 0..4 {
        prefetch::<D, F>(d, w, g, 1);
        // SAFETY: `w` points at 32 quantised values of 16 rows, and `out` at room for `BLOCK` bytes (`# Safety`).
        unsafe {
            let (low, high) = F::pair(d, w, g);
            let (low, high) =
                if shift == 0 { (low, high) } else { (d.shift(low, shift), d.shift(high, shift)) };
            d.store_codes(low, out.add(g * 64));
            d.store_codes(high, out.add((g + 4) * 64));
        }
    }
}

/// Unpacks a panel of a Block32 format.
#[inline(always)]
pub(crate) fn block32<D: IntSimd, F: Block32>(d: D, panel: &[u8], k: usize, out: &mut [u8]) {
    let ((first, stride), (first_out, stride_out)) = (F::scale_bytes(k), Unpacked::<F>::scale_bytes(k));
    assert!(panel.len() == first + k / 32 * F::BYTES && Some(out.len()) == block32_bytes::<F>(k));
    let by = const { shift::<D, F>() };
    let (from, to) = (panel.as_ptr(), out.as_mut_ptr());
    for b in 0..k / 32 {
        // SAFETY: the lengths checked above cover block b.
        unsafe {
            let (scale, minimum) = F::scale(d, from.add(b * stride));
            d.store(scale, to.add(b * stride_out).cast());
            if F::MINIMUM {
                d.store(minimum, to.add(b * stride_out + FLOATS).cast());
            }
            let to = to.add(first_out + b * Unpacked::<F>::BYTES);
            block::<D, F>(d, from.add(first + b * F::BYTES), to, by);
        }
    }
}

/// Unpacks a panel of a superblock format, and raises `norms` to the panel's norm ([`norms_of`]) of each 128 values.
#[inline(always)]
pub(crate) fn superblocks<D: F32Simd, F: Superblock, const WINOGRAD: bool>(
    d: D,
    panel: &[u8],
    k: usize,
    out: &mut [u8],
    norms: &mut [f32],
) {
    const { assert!(!WINOGRAD || winograd::fits::<D, F>()) };
    assert!(F::panel_bytes(k) == Some(panel.len()) && norms.len() == k / 128);
    assert!(Unpacked::<F, WINOGRAD>::panel_bytes(k) == Some(out.len()));
    let by = const { shift::<D, F>() };
    for sb in 0..k / 256 {
        // SAFETY: the lengths checked above cover superblock sb.
        unsafe {
            let f = F::factors(d, panel.as_ptr(), k, sb);
            let to = out.as_mut_ptr().add(sb * Unpacked::<F, WINOGRAD>::OF_256);
            d.store(f.d, to.cast());
            d.store(f.dmin, to.add(FLOATS).cast());
            for i in 0..8 * F::PARTS {
                d.store_bytes(F::scale(d, &f, i), to.add(Unpacked::<F, WINOGRAD>::SCALES + i * PANEL_ROWS));
                if F::MINIMUM {
                    d.store_bytes(
                        F::minimum(d, &f, i),
                        to.add(Unpacked::<F, WINOGRAD>::MINIMA + i * PANEL_ROWS),
                    );
                }
            }
            for b in 0..8 {
                let to = to.add(Unpacked::<F, WINOGRAD>::CODES + b * Unpacked::<F, WINOGRAD>::BYTES);
                if WINOGRAD {
                    winograd::block::<D, F>(d, f.quants.add(b * F::BYTES), to);
                    continue;
                }
                block::<D, F>(d, f.quants.add(b * F::BYTES), to, by);
            }
            if const { norms_of::<D, F>() != NO_NORMS } {
                for half in 0..2 {
                    let most = &mut norms[sb * 2 + half];
                    *most = most.max(norm::<D, F>(d, &f, half));
                }
            }
        }
    }
}

/// Returns the norm of a half: the sum of squares selected by `norms_of`, the largest over all rows and, for blocks,
/// over all blocks.
///
/// # Safety
/// `f` belongs to a superblock of a whole panel.
#[inline(always)]
unsafe fn norm<D: F32Simd, F: Superblock>(d: D, f: &SuperblockScales<D>, half: usize) -> f32 {
    let of_blocks = const { norms_of::<D, F>() } == OF_BLOCKS;
    let mut total = d.zeros();
    for b in half * 4..half * 4 + if of_blocks { 4 } else { 3 } {
        let mut squares = [d.ints(); 2];
        for g in 0..4 {
            // SAFETY: `f` belongs to a superblock of a whole panel (`# Safety`).
            let (low, high) = unsafe { F::pair(d, f.quants.add(b * F::BYTES), g) };
            let zero_point_in_acc_init =
                |quants| if F::ZERO == 0 { quants } else { d.shift(quants, (-F::ZERO) as u8) };
            squares = [
                d.add_squares(squares[0], zero_point_in_acc_init(low)),
                d.add_squares(squares[1], zero_point_in_acc_init(high)),
            ];
        }
        let [low, high] = squares.map(|s| d.floats::<INTEGERS>(s));
        if of_blocks {
            total = d.max(d.max(total, low), high);
        } else {
            // SAFETY: `f` belongs to a superblock of a whole panel (`# Safety`).
            let scale = d.signed_bytes(unsafe { F::scale(d, f, b) });
            total = d.fma(d.sum(low, high), d.mul(scale, scale), total);
        }
    }
    d.join_max(total)
}
