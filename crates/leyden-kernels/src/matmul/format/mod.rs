//! Packed weight formats, one file each: the panel layout, the packing, and the scalar tile that defines the
//! result.
//!
//! A panel holds 16 rows of one matrix over its whole depth. Packing moves bits and changes none. Four
//! consecutive k of a row stay together (`k-group`, one 32-bit lane of the integer dot product), and the 16
//! rows of a k-group are adjacent, so that one vector lane belongs to one row and no kernel needs a
//! horizontal sum. Rows beyond the matrix are zero.
//!
//! The scalar tile is the oracle: every other tier must give its bits. A result is one fused multiply-add
//! chain over k per row; integer sums inside a block are exact.

use crate::activations::{Grid, Tile};
use crate::isa::Tier;
use crate::isa::dot::Dot;
use crate::matmul::many::Many;
use leyden_tensor::DType;

pub(crate) mod bf16;
mod float;
mod iq4_nl;
mod iq4_xs;
mod mxfp4;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
pub(crate) mod q8_0;
mod scalar;

/// Rows per panel.
pub(crate) const ROWS: usize = 16;

/// Multiplies one panel with one tile: `out[c][16]`, overwritten. Functions for many columns may take several panels, one
/// behind the other and perhaps taken apart: `out[panel][c][16]` (`matmul::many`).
///
/// # Safety
/// The processor supports the tier the function belongs to; `panel` is a whole panel of depth `k` in the
/// format the function belongs to, or as many as it takes; `tile` has the format's grid, depth `k`, and the number of
/// columns the function was made for; `out` has room for 16 values per column and panel.
pub(crate) type TileFn = unsafe fn(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]);

/// One weight format.
#[derive(Debug)]
pub(crate) struct Format {
    pub(crate) dtype: DType,
    pub(crate) grid: Grid,
    /// Bytes of a panel of depth `k` (a whole number of blocks); None on overflow.
    pub(crate) panel_bytes: fn(k: usize) -> Option<usize>,
    /// Packs up to 16 rows of file bytes into one zeroed panel.
    pub(crate) pack: fn(rows: &[&[u8]], k: usize, panel: &mut [u8]),
    /// The tiles of a tier, by number of columns less one.
    pub(crate) tiles: fn(Tier) -> &'static [TileFn],
    /// The kernels of a tier for many columns, if it has such.
    pub(crate) many: fn(Tier) -> Option<&'static Many>,
}

/// Every weight format. A new one is a file here and a line there.
pub(crate) static FORMATS: &[Format] = &[
    float::F32,
    float::F16,
    bf16::FORMAT,
    q4_0::FORMAT,
    q4_1::FORMAT,
    q5_0::FORMAT,
    q5_1::FORMAT,
    q8_0::FORMAT,
    iq4_nl::FORMAT,
    mxfp4::FORMAT,
    q2_k::FORMAT,
    q3_k::FORMAT,
    q4_k::FORMAT,
    q5_k::FORMAT,
    q6_k::FORMAT,
    iq4_xs::FORMAT,
];

/// The formats that are used instead where exactness is asked for: those of types whose activations would be rounded though
/// weights are no codes. The panels are the same.
pub(crate) static EXACT: &[Format] = &[float::BF16];

/// Reads one little-endian half at a byte offset.
#[inline(always)]
pub(crate) fn half_at(bytes: &[u8], at: usize) -> f32 {
    leyden_tensor::quant::f16_to_f32(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// Bytes of `n` rows of 16 halves, rounded up to a cache line so that what follows stays aligned.
pub(crate) fn scales_bytes(n: usize) -> Option<usize> {
    n.checked_mul(2 * ROWS)?.checked_next_multiple_of(64)
}

/// Code of activation `k` of column `col` in a tile of `c` columns.
#[inline(always)]
pub(crate) fn code(tile: &Tile<'_>, k: usize, col: usize) -> i32 {
    i32::from(tile.codes[((k / 4) * tile.c + col) * 4 + k % 4])
}

/// The nibbles of 32 values, 16 low ones then 16 high ones in a nibble each, into `[4][16 rows][4]`.
#[inline(always)]
fn pack_nibbles(bytes: &[u8], r: usize, out: &mut [u8]) {
    for (g, four) in bytes[..16].as_chunks::<4>().0.iter().enumerate() {
        out[g * 64 + r * 4..][..4].copy_from_slice(four);
    }
}

/// Two bits of each of 32 values into `[2][16 rows][4]`. Byte (row, j) of vector h holds, from bit 0, the bits of
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

/// One bit of each of 32 values into `[16 rows][4]`: bit g of byte (row, j) belongs to k = 4g + j.
#[inline(always)]
fn pack_bits(value: impl Fn(usize) -> u8, r: usize, out: &mut [u8]) {
    for j in 0..4 {
        out[r * 4 + j] = (0..8).fold(0, |byte, g| byte | value(4 * g + j) << g);
    }
}

/// Codes of k-groups g and g + 4 from [`pack_nibbles`]' vectors.
///
/// # Safety
/// `p` points at 256 readable bytes.
#[inline(always)]
unsafe fn nibbles<D: Dot>(d: D, p: *const u8, g: usize) -> (D::Codes, D::Codes) {
    // SAFETY: one of the caller's four vectors.
    let v = unsafe { d.load(p.add(g * 64)) };
    (d.and(v, 15), d.and(d.shr::<4>(v), 15))
}

/// Two-bit codes of k-groups g and g + 4 from [`pack_crumbs`]' vectors.
///
/// # Safety
/// `p` points at 128 readable bytes.
#[inline(always)]
unsafe fn crumbs<D: Dot>(d: D, p: *const u8, g: usize) -> (D::Codes, D::Codes) {
    // SAFETY: one of the caller's two vectors.
    let v = unsafe { d.load(p.add(g / 2 * 64)) };
    if g.is_multiple_of(2) {
        (d.and(v, 3), d.and(d.shr::<2>(v), 3))
    } else {
        (d.and(d.shr::<4>(v), 3), d.and(d.shr::<6>(v), 3))
    }
}

/// Bits of k-groups g and g + 4 from [`pack_bits`]' vector, as the value `1 << AT`, for AT of 2 or 4.
///
/// # Safety
/// `p` points at 64 readable bytes.
#[inline(always)]
unsafe fn bits<D: Dot, const AT: u32>(d: D, p: *const u8, g: usize) -> (D::Codes, D::Codes) {
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
