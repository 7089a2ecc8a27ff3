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
use crate::isa::Level;
use leyden_tensor::DType;

pub(crate) mod float;
pub(crate) mod q4_0;
pub(crate) mod q4_k;
pub(crate) mod q6_k;
pub(crate) mod q8_0;

/// Rows per panel.
pub(crate) const ROWS: usize = 16;

/// Multiplies one panel with one tile: `out[c][16]`, overwritten.
///
/// # Safety
/// The processor supports the tier the function belongs to; `panel` is a whole panel of depth `k` in the
/// format the function belongs to; `tile` has the format's grid, depth `k`, and the number of columns the
/// function was made for; `out` has room for 16 values per column.
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
    /// The tiles of a level, by number of columns less one.
    pub(crate) tiles: fn(Level) -> &'static [TileFn],
}

/// Every weight format. A new one is a file here and a line there.
pub(crate) static FORMATS: &[Format] =
    &[float::F32, float::F16, float::BF16, q4_0::FORMAT, q8_0::FORMAT, q4_k::FORMAT, q6_k::FORMAT];

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
