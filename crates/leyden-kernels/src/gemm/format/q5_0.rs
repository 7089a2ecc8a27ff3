//! Q5_0: blocks of 32 with one half-precision scale, quantised values 0..31 standing for -16..15.
//!
//! Panel: scales as in Q4_0, then per block four vectors of low nibbles and one of high bits.

use crate::gemm::format::scalar::{self, bit, nibble};
use crate::gemm::format::traits::{Block32, QuantFormat};
use crate::gemm::format::{Format, bits, half_at, nibbles, pack_bits, pack_nibbles, scales_bytes};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;

pub(crate) const FORMAT: Format = Format {
    dtype: DType::Q5_0,
    act_format: ActFormat::Q8Block32,
    panel_bytes: |k| scales_bytes(k / 32)?.checked_add((k / 32).checked_mul(Q5_0::BYTES)?),
    pack,
};

pub(crate) struct Q5_0;

impl QuantFormat for Q5_0 {
    const MAX: i32 = 31;
    const ZERO: i32 = 16;
    const BYTES: usize = 20 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives four vectors of nibbles and one of bits.
        let (quants, high) = unsafe { (nibbles(d, p, g), bits::<D, 4>(d, p.add(256), g)) };
        (d.or(quants.0, high.0), d.or(quants.1, high.1))
    }
}

impl Block32 for Q5_0 {}

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let (scales, quants) = panel.split_at_mut(Q5_0::scale_bytes(k).0);
    for (r, row) in rows.iter().enumerate() {
        for (b, block) in row.as_chunks::<22>().0.iter().enumerate() {
            let out = &mut quants[b * Q5_0::BYTES..];
            scales[(b * PANEL_ROWS + r) * 2..][..2].copy_from_slice(&block[..2]);
            pack_nibbles(&block[6..], r, out);
            pack_bits(|i| block[2 + i / 8] >> (i % 8) & 1, r, &mut out[256..]);
        }
    }
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let (scales, quants) = panel.split_at(Q5_0::scale_bytes(k).0);
    let factors = |b: usize, r: usize| (half_at(scales, (b * PANEL_ROWS + r) * 2), 0.0);
    let value = |b: usize, i: usize, r: usize| {
        let group = &quants[b * Q5_0::BYTES..];
        i32::from(nibble(group, i, r) | bit(&group[256..], i, r) << 4) - 16
    };
    scalar::block32(k, tile, out, false, factors, value);
}
