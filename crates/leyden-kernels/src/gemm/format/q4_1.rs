//! Q4_1: blocks of 32 with a half-precision scale and minimum: `x = d * code + m`.
//!
//! Panel: per block `[16]` scales and `[16]` minima, then the quantised values as in Q4_0.

use crate::gemm::format::scalar::{self, nibble};
use crate::gemm::format::traits::{Block32, QuantFormat};
use crate::gemm::format::{Format, half_at, nibbles, pack_nibbles};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;

pub(crate) const FORMAT: Format = Format {
    dtype: DType::Q4_1,
    act_format: ActFormat::Q8Block32,
    panel_bytes: |k| (k / 32).checked_mul(4 * PANEL_ROWS)?.checked_add((k / 32).checked_mul(Q4_1::BYTES)?),
    pack,
};

pub(crate) struct Q4_1;

impl QuantFormat for Q4_1 {
    const MAX: i32 = 15;
    const BYTES: usize = 16 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives 256 bytes.
        unsafe { nibbles(d, p, g) }
    }
}

impl Block32 for Q4_1 {
    const MINIMUM: bool = true;
}

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let (scales, quants) = panel.split_at_mut(Q4_1::scale_bytes(k).0);
    for (r, row) in rows.iter().enumerate() {
        for (b, block) in row.as_chunks::<20>().0.iter().enumerate() {
            let out = &mut quants[b * Q4_1::BYTES..];
            scales[b * 4 * PANEL_ROWS + r * 2..][..2].copy_from_slice(&block[..2]);
            scales[b * 4 * PANEL_ROWS + 2 * PANEL_ROWS + r * 2..][..2].copy_from_slice(&block[2..4]);
            pack_nibbles(&block[4..], r, out);
        }
    }
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let (scales, quants) = panel.split_at(Q4_1::scale_bytes(k).0);
    let factors = |b: usize, r: usize| {
        (
            half_at(scales, b * 4 * PANEL_ROWS + r * 2),
            half_at(scales, b * 4 * PANEL_ROWS + 2 * PANEL_ROWS + r * 2),
        )
    };
    let value = |b: usize, i: usize, r: usize| {
        let group = &quants[b * Q4_1::BYTES..];
        i32::from(nibble(group, i, r))
    };
    scalar::block32(k, tile, out, true, factors, value);
}
