//! Q5_0: blocks of 32 with one half-precision scale, codes 0..31 standing for -16..15.
//!
//! Panel: scales as in Q4_0, then per block four vectors of low nibbles and one of high bits.

use super::scalar::{self, bit, nibble};
use super::{Format, ROWS, TileFn, bits, half_at, nibbles, pack_bits, pack_nibbles, scales_bytes};
use crate::activations::{Grid, Tile};
use crate::isa::dot::Dot;
use crate::matmul::family::{Codes, Simple, family_many, family_tiles};
use leyden_tensor::DType;

pub(crate) const FORMAT: Format = Format {
    dtype: DType::Q5_0,
    grid: Grid::A32,
    panel_bytes: |k| scales_bytes(k / 32)?.checked_add((k / 32).checked_mul(Q5_0::BYTES)?),
    pack,
    tiles: family_tiles!(scalar, simple Q5_0),
    many: family_many!(simple Q5_0),
};

struct Q5_0;

impl Codes for Q5_0 {
    const MAX: i32 = 31;
    const ZERO: i32 = 16;
    const BYTES: usize = 20 * ROWS;

    #[inline(always)]
    unsafe fn pair<D: Dot>(d: D, p: *const u8, g: usize) -> (D::Codes, D::Codes) {
        // SAFETY: the caller gives four vectors of nibbles and one of bits.
        let (codes, high) = unsafe { (nibbles(d, p, g), bits::<D, 4>(d, p.add(256), g)) };
        (d.or(codes.0, high.0), d.or(codes.1, high.1))
    }
}

impl Simple for Q5_0 {}

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let (scales, codes) = panel.split_at_mut(Q5_0::scale_bytes(k).0);
    for (r, row) in rows.iter().enumerate() {
        for (b, block) in row.as_chunks::<22>().0.iter().enumerate() {
            let out = &mut codes[b * Q5_0::BYTES..];
            scales[(b * ROWS + r) * 2..][..2].copy_from_slice(&block[..2]);
            pack_nibbles(&block[6..], r, out);
            pack_bits(|i| block[2 + i / 8] >> (i % 8) & 1, r, &mut out[256..]);
        }
    }
}

fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let (scales, codes) = panel.split_at(Q5_0::scale_bytes(k).0);
    let factors = |b: usize, r: usize| (half_at(scales, (b * ROWS + r) * 2), 0.0);
    let value = |b: usize, i: usize, r: usize| {
        let group = &codes[b * Q5_0::BYTES..];
        i32::from(nibble(group, i, r) | bit(&group[256..], i, r) << 4) - 16
    };
    scalar::simple(k, tile, out, false, factors, value);
}
