//! Q8_0: blocks of 32 signed bytes with one half-precision scale.
//!
//! Panel: `[block][16]` scales, then per block eight 64-byte vectors, vector g holding k = 4g..4g+3 of the 16
//! rows.
//!
//! Block sum `s = sum(code * a)`, then `y = fma(s * d, da, y)`.

use super::{Format, ROWS, TileFn, code, half_at, scales_bytes};
use crate::activations::{Grid, Tile};
use crate::isa::tiles;
use leyden_tensor::DType;

pub(crate) const FORMAT: Format = Format {
    dtype: DType::Q8_0,
    grid: Grid::A32,
    panel_bytes: |k| scales_bytes(k / 32)?.checked_add((k / 32).checked_mul(32 * ROWS)?),
    pack,
    tiles: tiles!(scalar, Q8_0),
};

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let (scales, codes) = panel.split_at_mut(scales_bytes(k / 32).unwrap_or(0));
    for (r, row) in rows.iter().enumerate() {
        for (b, block) in row.as_chunks::<34>().0.iter().enumerate() {
            scales[(b * ROWS + r) * 2..][..2].copy_from_slice(&block[..2]);
            for (g, four) in block[2..].as_chunks::<4>().0.iter().enumerate() {
                codes[(b * 8 + g) * 64 + r * 4..][..4].copy_from_slice(four);
            }
        }
    }
}

fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let codes = &panel[scales_bytes(k / 32).unwrap_or(0)..];
    out[..tile.c * ROWS].fill(0.0);
    for b in 0..k / 32 {
        for r in 0..ROWS {
            let d = half_at(panel, (b * ROWS + r) * 2);
            for col in 0..tile.c {
                let mut s = 0;
                for i in 0..32 {
                    let w = codes[(b * 8 + i / 4) * 64 + r * 4 + i % 4] as i8;
                    s += i32::from(w) * code(tile, b * 32 + i, col);
                }
                let y = &mut out[col * ROWS + r];
                *y = (s as f32 * d).mul_add(tile.scales[b * tile.c + col], *y);
            }
        }
    }
}
