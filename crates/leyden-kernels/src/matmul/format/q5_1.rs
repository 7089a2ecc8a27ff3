//! Q5_1: blocks of 32 with a half-precision scale and minimum and 5-bit codes: `x = d * code + m`.
//!
//! Panel: scales and minima as in Q4_1, codes as in Q5_0.

use super::scalar::{self, bit, nibble};
use super::{Format, ROWS, TileFn, bits, half_at, nibbles, pack_bits, pack_nibbles};
use crate::activations::{Grid, Tile};
use crate::isa::dot::Dot;
use crate::matmul::family::{Codes, Simple, family_many, family_tiles};
use leyden_tensor::DType;

pub(crate) const FORMAT: Format = Format {
    dtype: DType::Q5_1,
    grid: Grid::A32,
    panel_bytes: |k| (k / 32).checked_mul(4 * ROWS)?.checked_add((k / 32).checked_mul(Q5_1::BYTES)?),
    pack,
    tiles: family_tiles!(scalar, simple Q5_1),
    many: family_many!(simple Q5_1),
};

struct Q5_1;

impl Codes for Q5_1 {
    const MAX: i32 = 31;
    const BYTES: usize = 20 * ROWS;

    #[inline(always)]
    unsafe fn pair<D: Dot>(d: D, p: *const u8, g: usize) -> (D::Codes, D::Codes) {
        // SAFETY: the caller gives four vectors of nibbles and one of bits.
        let (codes, high) = unsafe { (nibbles(d, p, g), bits::<D, 4>(d, p.add(256), g)) };
        (d.or(codes.0, high.0), d.or(codes.1, high.1))
    }
}

impl Simple for Q5_1 {
    const MINIMUM: bool = true;
}

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let (scales, codes) = panel.split_at_mut(Q5_1::scale_bytes(k).0);
    for (r, row) in rows.iter().enumerate() {
        for (b, block) in row.as_chunks::<24>().0.iter().enumerate() {
            let out = &mut codes[b * Q5_1::BYTES..];
            scales[b * 4 * ROWS + r * 2..][..2].copy_from_slice(&block[..2]);
            scales[b * 4 * ROWS + 2 * ROWS + r * 2..][..2].copy_from_slice(&block[2..4]);
            pack_nibbles(&block[8..], r, out);
            pack_bits(|i| block[4 + i / 8] >> (i % 8) & 1, r, &mut out[256..]);
        }
    }
}

fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let (scales, codes) = panel.split_at(Q5_1::scale_bytes(k).0);
    let factors = |b: usize, r: usize| {
        (half_at(scales, b * 4 * ROWS + r * 2), half_at(scales, b * 4 * ROWS + 2 * ROWS + r * 2))
    };
    let value = |b: usize, i: usize, r: usize| {
        let group = &codes[b * Q5_1::BYTES..];
        i32::from(nibble(group, i, r) | bit(&group[256..], i, r) << 4)
    };
    scalar::simple(k, tile, out, true, factors, value);
}
