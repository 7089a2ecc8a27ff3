//! Q4_K: 256 values in eight blocks of 32, each block with a 6-bit scale and a 6-bit minimum, and two
//! half-precision factors for all of them: `x = d * scale * code - dmin * min`.
//!
//! Panel, per 256: `[16]` d, `[16]` dmin, the twelve bytes of packed scales and minima as `[12][16]`, then per
//! block four 64-byte vectors as in Q4_0.
//!
//! Per half of 128, with exact integers `S = sum_b scale_b * sum(code * a)` and `M = sum_b min_b * sum(a)`:
//! `u = fma(-M, dmin, S * d)`, then `y = fma(u, da, y)`. |S| stays below 2^24, so a kernel may keep it in f32.

use super::{Format, ROWS, TileFn, code, half_at};
use crate::activations::{Grid, Tile};
use crate::isa::tiles;
use leyden_tensor::DType;

/// Bytes of 256 values of 16 rows, and where their parts begin.
pub(crate) const BYTES: usize = 144 * ROWS;
pub(crate) const DMIN: usize = 2 * ROWS;
pub(crate) const SCALES: usize = 4 * ROWS;
pub(crate) const CODES: usize = 16 * ROWS;

/// The largest |S|: four blocks of 32 codes up to 15, activations up to 127, scales up to 63.
const LARGEST: u32 = 4 * 32 * 15 * 127 * 63;
const _: () = assert!(LARGEST < 1 << 24, "the scaled sum must be exact in f32");

pub(crate) const FORMAT: Format = Format {
    dtype: DType::Q4K,
    grid: Grid::A128,
    panel_bytes: |k| (k / 256).checked_mul(BYTES),
    pack,
    tiles: tiles!(scalar, Q4_K),
};

fn pack(rows: &[&[u8]], _k: usize, panel: &mut [u8]) {
    for (r, row) in rows.iter().enumerate() {
        for (block, out) in row.as_chunks::<144>().0.iter().zip(panel.chunks_exact_mut(BYTES)) {
            out[r * 2..][..2].copy_from_slice(&block[..2]);
            out[DMIN + r * 2..][..2].copy_from_slice(&block[2..4]);
            for i in 0..12 {
                out[SCALES + i * ROWS + r] = block[4 + i];
            }
            // The file keeps two blocks in 32 bytes: the even one in the low nibbles, the odd one in the high.
            for (b, bytes) in (0..8).map(|b| (b, &block[16 + (b / 2) * 32..][..32])) {
                for g in 0..4 {
                    let (low, high) = (&bytes[4 * g..4 * g + 4], &bytes[16 + 4 * g..20 + 4 * g]);
                    let at = CODES + (b * 4 + g) * 64 + r * 4;
                    for j in 0..4 {
                        out[at + j] = if b % 2 == 0 {
                            low[j] & 15 | high[j] << 4
                        } else {
                            low[j] >> 4 | high[j] & 0xf0
                        };
                    }
                }
            }
        }
    }
}

/// Scale and minimum of block `b` of row `r`.
#[inline(always)]
fn scale_min(panel: &[u8], b: usize, r: usize) -> (i32, i32) {
    let q = |i: usize| i32::from(panel[SCALES + i * ROWS + r]);
    if b < 4 {
        (q(b) & 63, q(b + 4) & 63)
    } else {
        (q(b + 4) & 15 | (q(b - 4) >> 6) << 4, q(b + 4) >> 4 | (q(b) >> 6) << 4)
    }
}

fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let c = tile.c;
    out[..c * ROWS].fill(0.0);
    for (sb, panel) in panel.chunks_exact(BYTES).take(k / 256).enumerate() {
        for r in 0..ROWS {
            let (d, dmin) = (half_at(panel, r * 2), half_at(panel, DMIN + r * 2));
            for col in 0..c {
                for half in 0..2 {
                    let (mut s, mut m) = (0, 0);
                    for b in half * 4..half * 4 + 4 {
                        let (scale, min) = scale_min(panel, b, r);
                        let (mut dot, mut sum) = (0, 0);
                        for i in 0..16 {
                            let byte = panel[CODES + (b * 4 + i / 4) * 64 + r * 4 + i % 4];
                            let (low, high) = (
                                code(tile, sb * 256 + b * 32 + i, col),
                                code(tile, sb * 256 + b * 32 + 16 + i, col),
                            );
                            dot += i32::from(byte & 15) * low + i32::from(byte >> 4) * high;
                            sum += low + high;
                        }
                        s += scale * dot;
                        m += min * sum;
                    }
                    let u = (-(m as f32)).mul_add(dmin, s as f32 * d);
                    let y = &mut out[col * ROWS + r];
                    *y = u.mul_add(tile.scales[(sb * 2 + half) * c + col], *y);
                }
            }
        }
    }
}
