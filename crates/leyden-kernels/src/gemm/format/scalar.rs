//! Definition of a product in plain Rust: every instruction set must give the same bits.
//!
//! A format says how to read its panel; the arithmetic is here once per family. Integer sums are exact. Each row of
//! each column is one chain of fused multiply-adds over k.

use crate::gemm::format::code;
use crate::quant::packed_a::Tile;
use crate::types::PANEL_ROWS;

/// Computes a tile of a Block32 format: a block of 32 values has a scale `d` and perhaps a minimum `m`.
///
/// `factors(b, r)` returns (d, m) of block b of row r, and `value(b, i, r)` its i-th value as an integer. With
/// `s = sum(value * a)`: `u = fma(m, sum(a), s * d)`, then `y = fma(u, da, y)`.
pub(super) fn block32(
    k: usize,
    tile: &Tile<'_>,
    out: &mut [f32],
    minimum: bool,
    factors: impl Fn(usize, usize) -> (f32, f32),
    value: impl Fn(usize, usize, usize) -> i32,
) {
    let c = tile.c;
    out[..c * PANEL_ROWS].fill(0.0);
    for b in 0..k / 32 {
        for r in 0..PANEL_ROWS {
            let (d, m) = factors(b, r);
            for col in 0..c {
                let s: i32 = (0..32).map(|i| value(b, i, r) * code(tile, b * 32 + i, col)).sum();
                let mut u = s as f32 * d;
                if minimum {
                    u = m.mul_add(tile.sums[b * c + col] as f32, u);
                }
                let y = &mut out[col * PANEL_ROWS + r];
                *y = u.mul_add(tile.scales[b * c + col], *y);
            }
        }
    }
}

/// Accessors of a superblock format's panel. Indices are the superblock of 256 values, the value in it, and the row.
pub(super) trait SuperPanel {
    /// Number of values that share an integer scale.
    const BLOCK: usize;
    /// Returns the factor of the scales, and that of the minima.
    fn factors(&self, sb: usize, r: usize) -> (f32, f32);
    /// Returns the integer scale and minimum of block `block` of the superblock.
    fn scale(&self, sb: usize, block: usize, r: usize) -> (i32, i32);
    /// Returns the `i`-th value as an integer.
    fn value(&self, sb: usize, i: usize, r: usize) -> i32;
}

/// Computes a tile of a superblock format. Per half of 128 values, with `S = sum(scale * sum(value * a))` and
/// `M = sum(min * sum(a))` over its blocks: `u = fma(-M, dmin, S * d)`, then `y = fma(u, da, y)`.
pub(super) fn superblocks<P: SuperPanel>(
    panel: &P,
    k: usize,
    tile: &Tile<'_>,
    out: &mut [f32],
    minimum: bool,
) {
    let c = tile.c;
    out[..c * PANEL_ROWS].fill(0.0);
    for sb in 0..k / 256 {
        for r in 0..PANEL_ROWS {
            let (d, dmin) = panel.factors(sb, r);
            for col in 0..c {
                for half in 0..2 {
                    let (mut s, mut m) = (0, 0);
                    for block in half * (128 / P::BLOCK)..(half + 1) * (128 / P::BLOCK) {
                        let (scale, min) = panel.scale(sb, block, r);
                        for i in block * P::BLOCK..(block + 1) * P::BLOCK {
                            let a = code(tile, sb * 256 + i, col);
                            s += scale * panel.value(sb, i, r) * a;
                            m += min * a;
                        }
                    }
                    let mut u = s as f32 * d;
                    if minimum {
                        u = (-(m as f32)).mul_add(dmin, u);
                    }
                    let y = &mut out[col * PANEL_ROWS + r];
                    *y = u.mul_add(tile.scales[(sb * 2 + half) * c + col], *y);
                }
            }
        }
    }
}

/// Reads the nibble of value `i` (0 to 31) of row `r` from four vectors: k-group g low, k-group g + 4 high.
#[inline(always)]
pub(super) fn nibble(vectors: &[u8], i: usize, r: usize) -> u8 {
    let byte = vectors[(i % 16 / 4) * 64 + r * 4 + i % 4];
    if i < 16 { byte & 15 } else { byte >> 4 }
}

/// Reads the two bits of value `i` from two vectors: see [`crate::gemm::format::pack_crumbs`].
#[inline(always)]
pub(super) fn crumb(vectors: &[u8], i: usize, r: usize) -> u8 {
    let g = i % 16 / 4;
    vectors[(g / 2) * 64 + r * 4 + i % 4] >> (4 * (g % 2) + 2 * (i / 16)) & 3
}

/// Reads the bit of value `i` from one vector: bit g of byte (row, j) belongs to k = 4g + j.
#[inline(always)]
pub(super) fn bit(vector: &[u8], i: usize, r: usize) -> u8 {
    vector[r * 4 + i % 4] >> (i / 4) & 1
}
