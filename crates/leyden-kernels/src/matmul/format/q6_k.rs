//! Q6_K: 256 values in sixteen blocks of 16, each with a signed 8-bit scale, and one half-precision factor:
//! `x = d * scale * (code - 32)`.
//!
//! Panel: `[256-block][16]` d, then per 256 the scales `[16][16]` and per 32 values six 64-byte vectors: four
//! of low nibbles as in Q4_0, and two of high bits. Byte (row, j) of high vector h holds, from bit 0, the two
//! high bits of k = 8h + j, 16 + 8h + j, 4 + 8h + j and 20 + 8h + j.
//!
//! Per half of 128, with the exact integer `S = sum_b scale_b * sum((code - 32) * a)`: `y = fma(S * d, da, y)`.

use super::{Format, ROWS, TileFn, code, half_at, scales_bytes};
use crate::activations::{Grid, Tile};
use crate::isa::tiles;
use leyden_tensor::DType;

/// Bytes of 256 values of 16 rows without d, and of the 32-value groups in them.
pub(crate) const BYTES: usize = 208 * ROWS;
pub(crate) const CODES: usize = 16 * ROWS;
pub(crate) const GROUP: usize = 6 * 64;

pub(crate) const FORMAT: Format = Format {
    dtype: DType::Q6K,
    grid: Grid::A128,
    panel_bytes: |k| scales_bytes(k / 256)?.checked_add((k / 256).checked_mul(BYTES)?),
    pack,
    tiles: tiles!(scalar, Q6_K),
};

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let (factors, codes) = panel.split_at_mut(scales_bytes(k / 256).unwrap_or(0));
    for (r, row) in rows.iter().enumerate() {
        for (sb, (block, out)) in
            row.as_chunks::<210>().0.iter().zip(codes.chunks_exact_mut(BYTES)).enumerate()
        {
            factors[(sb * ROWS + r) * 2..][..2].copy_from_slice(&block[208..]);
            for i in 0..16 {
                out[i * ROWS + r] = block[192 + i];
            }
            for b in 0..8 {
                // The file's half of 128: 64 bytes of nibbles, 32 bytes of high bits, four blocks of 32.
                let (half, q) = (b / 4, b % 4);
                let nibbles = &block[half * 64 + (q % 2) * 32..][..32];
                let bits = &block[128 + half * 32..][..32];
                let high = |i: usize| bits[i] >> (2 * q) & 3;
                let at = CODES + b * GROUP + r * 4;
                for i in 0..16 {
                    let (low, top) = (nibbles[i], nibbles[16 + i]);
                    out[at + (i / 4) * 64 + i % 4] =
                        if q < 2 { low & 15 | top << 4 } else { low >> 4 | top & 0xf0 };
                }
                for h in 0..2 {
                    for j in 0..4 {
                        let i = 8 * h + j;
                        out[at + (4 + h) * 64 + j] =
                            high(i) | high(16 + i) << 2 | high(4 + i) << 4 | high(20 + i) << 6;
                    }
                }
            }
        }
    }
}

/// Code (0..63) of value `i` of a 32-value group, from that group's bytes.
#[inline(always)]
fn value(group: &[u8], i: usize, r: usize) -> i32 {
    let (g, j) = (i % 16 / 4, i % 4);
    let nibble = group[g * 64 + r * 4 + j] >> (if i < 16 { 0 } else { 4 }) & 15;
    let shift = 4 * (g % 2) + 2 * (i / 16);
    let high = group[(4 + g / 2) * 64 + r * 4 + j] >> shift & 3;
    i32::from(nibble | high << 4)
}

fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let c = tile.c;
    let (factors, codes) = panel.split_at(scales_bytes(k / 256).unwrap_or(0));
    out[..c * ROWS].fill(0.0);
    for (sb, block) in codes.chunks_exact(BYTES).take(k / 256).enumerate() {
        for r in 0..ROWS {
            let d = half_at(factors, (sb * ROWS + r) * 2);
            for col in 0..c {
                for half in 0..2 {
                    let mut s = 0;
                    for b in half * 4..half * 4 + 4 {
                        let group = &block[CODES + b * GROUP..];
                        for part in 0..2 {
                            let scale = i32::from(block[(b * 2 + part) * ROWS + r] as i8);
                            let dot: i32 = (part * 16..part * 16 + 16)
                                .map(|i| (value(group, i, r) - 32) * code(tile, sb * 256 + b * 32 + i, col))
                                .sum();
                            s += scale * dot;
                        }
                    }
                    let y = &mut out[col * ROWS + r];
                    *y = (s as f32 * d).mul_add(tile.scales[(sb * 2 + half) * c + col], *y);
                }
            }
        }
    }
}
