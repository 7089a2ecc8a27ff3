//! Panels taken apart ahead, for batches of many tiles.
//!
//! A tile takes the codes and scales of a panel apart on the fly, which costs a sixth of the instructions of a 5-bit format
//! for the codes alone. Where many tiles meet a panel, a task first writes it in a layout of bytes and floats ([`Apart`])
//! into memory of its own that stays in the second cache, once for all tiles, and these read that. Sums are the same
//! integers, and so the results the same bits. A format and level has such kernels where `leyden hwbench --columns 516`
//! shows that they pay: bytes are read from a farther cache than bits, which may outweigh what taking formats apart costs.
//!
//! With [`Starts::Shift`] codes are shifted to be unsigned, all by the same number, and sums begin at what takes that back:
//! then neither the offset of a format nor its signs cost a tile anything. With [`Starts::Lanes`] they stay what they are. AVX2 has layouts of
//! its own for integer scales and signed codes (`isa/avx2_lanes.rs`, `isa/avx2_words.rs`).
//!
//! Floats of 16 bits become floats of 32, which a tile's loop then multiplies as it does those of F32.

use super::family::{Codes, Factors, NO_NORMS, OF_BLOCKS, Simple, Super, norms_of, unread};
use super::format::ROWS;
use super::mixed;
use super::stream::prefetch;
use crate::isa::Starts;
use crate::isa::dot::{Dot, INTEGERS, Whole};
use crate::quantise::SHIFT;
use std::marker::PhantomData;

/// Bytes of 32 codes of 16 rows, and of 16 floats.
const BLOCK: usize = 32 * ROWS;
const FLOATS: usize = 4 * ROWS;

/// A format after its panels were taken apart, a format of its own: scales as floats, or as bytes where they are
/// integers, and then codes; with `MIXED` as [`mixed`] reads them.
pub(crate) struct Apart<F, const MIXED: bool = false>(PhantomData<F>);

impl<F: Codes, const MIXED: bool> Codes for Apart<F, MIXED> {
    const APART: bool = true;
    const MIXED: bool = MIXED;
    const MAX: i32 = F::MAX;
    const SIGNED: bool = F::SIGNED;
    const ZERO: i32 = F::ZERO;
    const BYTES: usize = BLOCK + if MIXED { mixed::ROW_STARTS } else { 0 };

    #[inline(always)]
    unsafe fn pair<D: Dot>(d: D, p: *const u8, g: usize) -> (D::Codes, D::Codes) {
        // SAFETY: the caller gives eight vectors.
        unsafe { (d.load(p.add(g * 64)), d.load(p.add((g + 4) * 64))) }
    }
}

/// A panel: `[k/32][16]` scales, each with `[16]` minima if there are any, then codes.
impl<F: Simple> Simple for Apart<F> {
    const MINIMUM: bool = F::MINIMUM;
    const HALVES: bool = F::HALVES;

    fn scale_bytes(k: usize) -> (usize, usize) {
        let block = if F::MINIMUM { 2 * FLOATS } else { FLOATS };
        (k / 32 * block, block)
    }

    #[inline(always)]
    unsafe fn scale<D: Dot>(d: D, p: *const u8) -> (D::Floats, D::Floats) {
        // SAFETY: the caller gives one block's scales.
        unsafe { (d.load_floats(p), if F::MINIMUM { d.load_floats(p.add(FLOATS)) } else { d.zeros() }) }
    }
}

/// How the weights of a float format are read.
pub(crate) trait Read: Copy {
    /// Sixteen of them.
    ///
    /// # Safety
    /// `p` points at them.
    unsafe fn read<D: Dot>(self, d: D, p: *const u8) -> D::Floats;
}

/// Makes the weights of 16 bits of a panel floats of 32.
#[inline(always)]
pub(crate) fn floats<D: Dot, F: Read>(d: D, f: F, panel: &[u8], k: usize, out: &mut [u8]) {
    const HALVES: usize = 2 * ROWS;
    assert!(k.checked_mul(HALVES) == Some(panel.len()) && float_bytes(k) == Some(out.len()));
    for i in 0..k {
        // SAFETY: the lengths checked above cover sixteen values of each k.
        unsafe {
            let values = f.read(d, panel.as_ptr().add(i * HALVES));
            d.store(values, out.as_mut_ptr().add(i * FLOATS).cast());
        }
    }
}

/// Bytes of a panel of depth `k` of floats.
pub(crate) fn float_bytes(k: usize) -> Option<usize> {
    k.checked_mul(FLOATS)
}

/// Bytes of a panel of depth `k` of bfloat16 in pairs, an odd depth's last ones beside zeros.
pub(crate) fn pair_bytes(k: usize) -> Option<usize> {
    k.checked_next_multiple_of(2)?.checked_mul(2 * ROWS)
}

/// Bytes of a panel of a simple format of depth `k`.
pub(crate) fn simple_bytes<F: Simple>(k: usize) -> Option<usize> {
    Apart::<F>::scale_bytes(k).0.checked_add(k.checked_mul(ROWS)?)
}

/// A panel, for each 256 values: `[16]` d, `[16]` dmin, the bytes of the blocks' scales and of their minima, codes.
impl<F: Super, const MIXED: bool> Apart<F, MIXED> {
    const SCALES: usize = 2 * FLOATS;
    const MINIMA: usize = Self::SCALES + 8 * F::PARTS * ROWS;
    const CODES: usize = if F::MINIMUM { Self::MINIMA + 8 * F::PARTS * ROWS } else { Self::MINIMA };
    const OF_256: usize = Self::CODES + 8 * Self::BYTES;
}

impl<F: Super, const MIXED: bool> Super for Apart<F, MIXED> {
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
    unsafe fn factors<D: Dot>(d: D, panel: *const u8, _k: usize, sb: usize) -> Factors<D> {
        // SAFETY: the caller gives a whole panel, of which this is superblock sb.
        unsafe {
            let p = panel.add(sb * Self::OF_256);
            // Scales are read one by one by those below: so many do not stay in registers.
            let (factor, minimum) = (d.load_floats(p), d.load_floats(p.add(FLOATS)));
            Factors {
                d: factor,
                dmin: minimum,
                scales: unread::<D>(),
                minima: unread::<D>(),
                codes: p.add(Self::CODES),
            }
        }
    }

    #[inline(always)]
    unsafe fn scale<D: Dot>(d: D, f: &Factors<D>, i: usize) -> D::Bytes {
        // SAFETY: the factors' codes lie behind the scales of 256 values.
        unsafe { d.bytes(f.codes.sub(Self::CODES - Self::SCALES).add(i * ROWS)) }
    }

    #[inline(always)]
    unsafe fn minimum<D: Dot>(d: D, f: &Factors<D>, i: usize) -> D::Bytes {
        // SAFETY: as above.
        unsafe { d.bytes(f.codes.sub(Self::CODES - Self::MINIMA).add(i * ROWS)) }
    }
}

/// What is added to every code of a format whose sums begin at the batch's `starts`: those that are not unsigned and
/// without offset from the beginning.
const fn shift<D: Dot, F: Codes>() -> u8 {
    match D::STARTS {
        Starts::Shift if F::SIGNED || F::ZERO != 0 => (SHIFT - F::ZERO) as u8,
        _ => 0,
    }
}

/// Takes 32 values of 16 rows apart.
///
/// # Safety
/// `w` points at the codes of 32 values, and `out` at room for [`BLOCK`] bytes.
#[inline(always)]
unsafe fn block<D: Dot, F: Codes>(d: D, w: *const u8, out: *mut u8, shift: u8) {
    for g in 0..4 {
        prefetch::<D, F>(d, w, g, 1);
        // SAFETY: the caller's promise.
        unsafe {
            let (low, high) = F::pair(d, w, g);
            let (low, high) =
                if shift == 0 { (low, high) } else { (d.shift(low, shift), d.shift(high, shift)) };
            d.store_codes(low, out.add(g * 64));
            d.store_codes(high, out.add((g + 4) * 64));
        }
    }
}

/// Takes a panel of a simple format apart.
#[inline(always)]
pub(crate) fn simple<D: Dot, F: Simple>(d: D, panel: &[u8], k: usize, out: &mut [u8]) {
    let ((first, stride), (first_out, stride_out)) = (F::scale_bytes(k), Apart::<F>::scale_bytes(k));
    assert!(panel.len() == first + k / 32 * F::BYTES && Some(out.len()) == simple_bytes::<F>(k));
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
            let to = to.add(first_out + b * Apart::<F>::BYTES);
            block::<D, F>(d, from.add(first + b * F::BYTES), to, by);
        }
    }
}

/// Takes a panel of a super format apart, and raises `norms` to what [`norms_of`] says of each 128 values.
#[inline(always)]
pub(crate) fn superblocks<D: Whole, F: Super, const MIXED: bool>(
    d: D,
    panel: &[u8],
    k: usize,
    out: &mut [u8],
    norms: &mut [f32],
) {
    const { assert!(!MIXED || mixed::fits::<D, F>()) };
    assert!(F::panel_bytes(k) == Some(panel.len()) && norms.len() == k / 128);
    assert!(Apart::<F, MIXED>::panel_bytes(k) == Some(out.len()));
    let by = const { shift::<D, F>() };
    for sb in 0..k / 256 {
        // SAFETY: the lengths checked above cover superblock sb.
        unsafe {
            let f = F::factors(d, panel.as_ptr(), k, sb);
            let to = out.as_mut_ptr().add(sb * Apart::<F, MIXED>::OF_256);
            d.store(f.d, to.cast());
            d.store(f.dmin, to.add(FLOATS).cast());
            for i in 0..8 * F::PARTS {
                d.store_bytes(F::scale(d, &f, i), to.add(Apart::<F, MIXED>::SCALES + i * ROWS));
                if F::MINIMUM {
                    d.store_bytes(F::minimum(d, &f, i), to.add(Apart::<F, MIXED>::MINIMA + i * ROWS));
                }
            }
            for b in 0..8 {
                let to = to.add(Apart::<F, MIXED>::CODES + b * Apart::<F, MIXED>::BYTES);
                if MIXED {
                    mixed::block::<D, F>(d, f.codes.add(b * F::BYTES), to);
                    continue;
                }
                block::<D, F>(d, f.codes.add(b * F::BYTES), to, by);
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

/// The largest over all rows, and over all blocks where `norms_of` says so, of the sum of squares that it names.
///
/// # Safety
/// `f` is a superblock's.
#[inline(always)]
unsafe fn norm<D: Whole, F: Super>(d: D, f: &Factors<D>, half: usize) -> f32 {
    let of_blocks = const { norms_of::<D, F>() } == OF_BLOCKS;
    let mut total = d.zeros();
    for b in half * 4..half * 4 + if of_blocks { 4 } else { 3 } {
        let mut squares = [d.ints(); 2];
        for g in 0..4 {
            // SAFETY: the caller's promise.
            let (low, high) = unsafe { F::pair(d, f.codes.add(b * F::BYTES), g) };
            let centred = |codes| if F::ZERO == 0 { codes } else { d.shift(codes, (-F::ZERO) as u8) };
            squares = [d.add_squares(squares[0], centred(low)), d.add_squares(squares[1], centred(high))];
        }
        let [low, high] = squares.map(|s| d.floats::<INTEGERS>(s));
        if of_blocks {
            total = d.max(d.max(total, low), high);
        } else {
            // SAFETY: the caller's promise.
            let scale = d.signed_bytes(unsafe { F::scale(d, f, b) });
            total = d.fma(d.sum(low, high), d.mul(scale, scale), total);
        }
    }
    d.join_max(total)
}
