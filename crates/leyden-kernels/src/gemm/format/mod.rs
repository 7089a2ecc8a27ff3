//! Packed weight formats, one file each: the panel layout, the packing, and the scalar tile that defines the result.
//!
//! A panel holds 16 rows of one matrix over its whole depth. Packing moves bits and changes none. Four consecutive k of
//! a row stay together (a k-group, one 32-bit lane of the integer dot product), and the 16 rows of a k-group are
//! adjacent, so that each vector lane holds one row and no kernel needs a horizontal sum. Rows beyond the matrix are
//! zero.
//!
//! The scalar tile is the oracle: every other tier must give its bits. A result is one chain of fused multiply-adds
//! over k per row; integer sums inside a block are exact.

use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;

pub(crate) mod bf16;
pub(crate) mod decoded;
pub(crate) mod float;
pub(crate) mod iq4_nl;
pub(crate) mod iq4_xs;
pub(crate) mod mxfp4;
pub(crate) mod overflow_bounds;
pub(crate) mod q2_k;
pub(crate) mod q3_k;
pub(crate) mod q4_0;
pub(crate) mod q4_1;
pub(crate) mod q4_k;
pub(crate) mod q5_0;
pub(crate) mod q5_1;
pub(crate) mod q5_k;
pub(crate) mod q6_k;
pub(crate) mod q8_0;
pub(crate) mod scalar;
pub(crate) mod traits;

/// Packed weight format.
#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) dtype: DType,
    pub(crate) act_format: ActFormat,
    /// Computes the bytes of a panel of depth `k` (a whole number of blocks); `None` on overflow.
    pub(crate) panel_bytes: fn(k: usize) -> Option<usize>,
    /// Packs up to 16 rows of file bytes into one zeroed panel.
    pub(crate) pack: fn(rows: &[&[u8]], k: usize, panel: &mut [u8]),
}

/// Reads one little-endian half at a byte offset.
#[inline(always)]
pub(crate) fn half_at(bytes: &[u8], at: usize) -> f32 {
    leyden_tensor::quant::f16_to_f32(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// Returns the bytes of `n` rows of 16 halves, rounded up to a cache line so that the following data stays aligned.
pub(crate) fn scales_bytes(n: usize) -> Option<usize> {
    n.checked_mul(2 * PANEL_ROWS)?.checked_next_multiple_of(64)
}

/// Returns the quantised activation `k` of column `col` in a tile of `c` columns.
#[inline(always)]
pub(crate) fn code(tile: &Tile<'_>, k: usize, col: usize) -> i32 {
    i32::from(tile.quants[((k / 4) * tile.c + col) * 4 + k % 4])
}

/// Packs the nibbles of 32 values, 16 low ones then 16 high ones in a nibble each, into `[4][16 rows][4]`.
#[inline(always)]
fn pack_nibbles(bytes: &[u8], r: usize, out: &mut [u8]) {
    for (g, four) in bytes[..16].as_chunks::<4>().0.iter().enumerate() {
        out[g * 64 + r * 4..][..4].copy_from_slice(four);
    }
}

/// Packs two bits of each of 32 values into `[2][16 rows][4]`. Byte (row, j) of vector h holds, from bit 0, the bits of
/// k = 8h + j, 16 + 8h + j, 4 + 8h + j and 20 + 8h + j.
#[inline(always)]
fn pack_crumbs(value: impl Fn(usize) -> u8, r: usize, out: &mut [u8]) {
    for h in 0..2 {
        for j in 0..4 {
            let i = 8 * h + j;
            out[h * 64 + r * 4 + j] = value(i) | value(16 + i) << 2 | value(4 + i) << 4 | value(20 + i) << 6;
        }
    }
}

/// Packs one bit of each of 32 values into `[16 rows][4]`: bit g of byte (row, j) belongs to k = 4g + j.
#[inline(always)]
fn pack_bits(value: impl Fn(usize) -> u8, r: usize, out: &mut [u8]) {
    for j in 0..4 {
        out[r * 4 + j] = (0..8).fold(0, |byte, g| byte | value(4 * g + j) << g);
    }
}

/// Reads the quantised values of k-groups g and g + 4 from the vectors of [`pack_nibbles`].
///
/// # Safety
/// `p` points at 256 readable bytes.
#[inline(always)]
unsafe fn nibbles<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
    // SAFETY: one of the caller's four vectors.
    let v = unsafe { d.load(p.add(g * 64)) };
    (d.and(v, 15), d.and(d.shr::<4>(v), 15))
}

/// Reads the two-bit quantised values of k-groups g and g + 4 from the vectors of [`pack_crumbs`].
///
/// # Safety
/// `p` points at 128 readable bytes.
#[inline(always)]
unsafe fn crumbs<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
    // SAFETY: one of the caller's two vectors.
    let v = unsafe { d.load(p.add(g / 2 * 64)) };
    if g.is_multiple_of(2) {
        (d.and(v, 3), d.and(d.shr::<2>(v), 3))
    } else {
        (d.and(d.shr::<4>(v), 3), d.and(d.shr::<6>(v), 3))
    }
}

/// Reads the bits of k-groups g and g + 4 from the vector of [`pack_bits`], as the value `1 << AT`, for AT of 2 or 4.
///
/// # Safety
/// `p` points at 64 readable bytes.
#[inline(always)]
unsafe fn bits<D: IntSimd, const AT: u32>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
    // SAFETY: the caller's vector.
    let v = unsafe { d.load(p) };
    let (low, high) = match (AT, g) {
        (4, 0) => (d.shl::<4>(v), v),
        (4, 1) => (d.shl::<3>(v), d.shr::<1>(v)),
        (4, 2) => (d.shl::<2>(v), d.shr::<2>(v)),
        (4, _) => (d.shl::<1>(v), d.shr::<3>(v)),
        (_, 0) => (d.shl::<2>(v), d.shr::<2>(v)),
        (_, 1) => (d.shl::<1>(v), d.shr::<3>(v)),
        (_, 2) => (v, d.shr::<4>(v)),
        (_, _) => (d.shr::<1>(v), d.shr::<5>(v)),
    };
    (d.and(low, 1 << AT), d.and(high, 1 << AT))
}
