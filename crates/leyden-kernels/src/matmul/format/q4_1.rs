//! Q4_1: blocks of 32 with a half-precision scale and minimum: `x = d * code + m`.
//!
//! Panel: per block `[16]` scales and `[16]` minima, then the codes as in Q4_0.

use super::scalar::{self, nibble};
use super::{Format, ROWS, TileFn, half_at, nibbles, pack_nibbles};
use crate::activations::{Grid, Tile};
use crate::isa::dot::Dot;
use crate::matmul::family::{Codes, Simple, family_many, family_tiles};
use leyden_tensor::DType;

pub(crate) const FORMAT: Format = Format {
    dtype: DType::Q4_1,
    grid: Grid::A32,
    panel_bytes: |k| (k / 32).checked_mul(4 * ROWS)?.checked_add((k / 32).checked_mul(Q4_1::BYTES)?),
    pack,
    tiles: family_tiles!(scalar, simple Q4_1),
    many: family_many!(simple Q4_1),
};

struct Q4_1;

impl Codes for Q4_1 {
    const MAX: i32 = 15;
    const BYTES: usize = 16 * ROWS;

    #[inline(always)]
    unsafe fn pair<D: Dot>(d: D, p: *const u8, g: usize) -> (D::Codes, D::Codes) {
        // SAFETY: the caller gives 256 bytes.
        unsafe { nibbles(d, p, g) }
    }
}

impl Simple for Q4_1 {
    const MINIMUM: bool = true;
}

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let (scales, codes) = panel.split_at_mut(Q4_1::scale_bytes(k).0);
    for (r, row) in rows.iter().enumerate() {
        for (b, block) in row.as_chunks::<20>().0.iter().enumerate() {
            let out = &mut codes[b * Q4_1::BYTES..];
            scales[b * 4 * ROWS + r * 2..][..2].copy_from_slice(&block[..2]);
            scales[b * 4 * ROWS + 2 * ROWS + r * 2..][..2].copy_from_slice(&block[2..4]);
            pack_nibbles(&block[4..], r, out);
        }
    }
}

fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let (scales, codes) = panel.split_at(Q4_1::scale_bytes(k).0);
    let factors = |b: usize, r: usize| {
        (half_at(scales, b * 4 * ROWS + r * 2), half_at(scales, b * 4 * ROWS + 2 * ROWS + r * 2))
    };
    let value = |b: usize, i: usize, r: usize| {
        let group = &codes[b * Q4_1::BYTES..];
        i32::from(nibble(group, i, r))
    };
    scalar::simple(k, tile, out, true, factors, value);
}
