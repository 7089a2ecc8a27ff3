//! Q5_1: blocks of 32 with a half-precision scale and minimum and 5-bit quantised values: `x = d * code + m`.
//!
//! Panel: scales and minima as in Q4_1, quantised values as in Q5_0.

use crate::gemm::format::scalar::{self, bit, nibble};
use crate::gemm::format::traits::{Block32, QuantFormat};
use crate::gemm::format::{Format, bits, half_at, nibbles, pack_bits, pack_nibbles};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;

pub(crate) const FORMAT: Format = Format {
    dtype: DType::Q5_1,
    act_format: ActFormat::Q8Block32,
    panel_bytes: |k| (k / 32).checked_mul(4 * PANEL_ROWS)?.checked_add((k / 32).checked_mul(Q5_1::BYTES)?),
    pack,
};

pub(crate) struct Q5_1;

impl QuantFormat for Q5_1 {
    const MAX: i32 = 31;
    const BYTES: usize = 20 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives four vectors of nibbles and one of bits.
        let (quants, high) = unsafe { (nibbles(d, p, g), bits::<D, 4>(d, p.add(256), g)) };
        (d.or(quants.0, high.0), d.or(quants.1, high.1))
    }
}

impl Block32 for Q5_1 {
    const MINIMUM: bool = true;
}

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let (scales, quants) = panel.split_at_mut(Q5_1::scale_bytes(k).0);
    for (r, row) in rows.iter().enumerate() {
        for (b, block) in row.as_chunks::<24>().0.iter().enumerate() {
            let out = &mut quants[b * Q5_1::BYTES..];
            scales[b * 4 * PANEL_ROWS + r * 2..][..2].copy_from_slice(&block[..2]);
            scales[b * 4 * PANEL_ROWS + 2 * PANEL_ROWS + r * 2..][..2].copy_from_slice(&block[2..4]);
            pack_nibbles(&block[8..], r, out);
            pack_bits(|i| block[4 + i / 8] >> (i % 8) & 1, r, &mut out[256..]);
        }
    }
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let (scales, quants) = panel.split_at(Q5_1::scale_bytes(k).0);
    let factors = |b: usize, r: usize| {
        (
            half_at(scales, b * 4 * PANEL_ROWS + r * 2),
            half_at(scales, b * 4 * PANEL_ROWS + 2 * PANEL_ROWS + r * 2),
        )
    };
    let value = |b: usize, i: usize, r: usize| {
        let group = &quants[b * Q5_1::BYTES..];
        i32::from(nibble(group, i, r) | bit(&group[256..], i, r) << 4)
    };
    scalar::block32(k, tile, out, true, factors, value);
}
