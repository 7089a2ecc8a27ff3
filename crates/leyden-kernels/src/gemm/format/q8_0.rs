//! Q8_0: blocks of 32 signed bytes with one half-precision scale.
//!
//! Panel: `[block][16]` scales, then per block eight 64-byte vectors, vector g holding k = 4g..4g+3 of the 16
//! rows.

use crate::gemm::format::traits::{Block32, QuantFormat};
use crate::gemm::format::{Format, half_at, scalar, scales_bytes};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;

pub(crate) const FORMAT: Format = Format {
    dtype: DType::Q8_0,
    act_format: ActFormat::Q8Block32,
    panel_bytes: |k| scales_bytes(k / 32)?.checked_add((k / 32).checked_mul(Q8_0::BYTES)?),
    pack,
};

/// Blocks of Q8_0; `FOLLOWED` as in [`QuantFormat`].
pub(crate) struct Blocks<const FOLLOWED: bool>;
pub(crate) type Q8_0 = Blocks<true>;
pub(crate) type Keys = Blocks<false>;

impl<const FOLLOWED: bool> QuantFormat for Blocks<FOLLOWED> {
    const FOLLOWED: bool = FOLLOWED;
    const MAX: i32 = 127;
    const SIGNED: bool = true;
    const BYTES: usize = 32 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives eight vectors.
        unsafe { (d.load(p.add(g * 64)), d.load(p.add((g + 4) * 64))) }
    }
}

impl<const FOLLOWED: bool> Block32 for Blocks<FOLLOWED> {}

/// Returns the bytes of a panel of depth `k`, a head dimension: no overflow.
pub(crate) fn panel_bytes(k: usize) -> usize {
    Q8_0::scale_bytes(k).0 + k / 32 * Q8_0::BYTES
}

/// Writes block `b` of row `r` into a panel of depth `k`.
#[inline(always)]
pub(crate) fn pack_block(panel: &mut [u8], k: usize, b: usize, r: usize, scale: [u8; 2], values: &[i8; 32]) {
    let (scales, quants) = panel.split_at_mut(Q8_0::scale_bytes(k).0);
    let out = &mut quants[b * Q8_0::BYTES..][..Q8_0::BYTES];
    scales[(b * PANEL_ROWS + r) * 2..][..2].copy_from_slice(&scale);
    for (g, four) in values.as_chunks::<4>().0.iter().enumerate() {
        out[g * 64 + r * 4..][..4].copy_from_slice(&four.map(|v| v as u8));
    }
}

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    for (r, row) in rows.iter().enumerate() {
        for (b, block) in row.as_chunks::<34>().0.iter().enumerate() {
            let mut values = [0; 32];
            for (v, byte) in values.iter_mut().zip(&block[2..]) {
                *v = *byte as i8;
            }
            pack_block(panel, k, b, r, [block[0], block[1]], &values);
        }
    }
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let (scales, quants) = panel.split_at(Q8_0::scale_bytes(k).0);
    let factors = |b: usize, r: usize| (half_at(scales, (b * PANEL_ROWS + r) * 2), 0.0);
    let value = |b: usize, i: usize, r: usize| {
        let group = &quants[b * Q8_0::BYTES..];
        i32::from(group[(i / 4) * 64 + r * 4 + i % 4] as i8)
    };
    scalar::block32(k, tile, out, false, factors, value);
}
