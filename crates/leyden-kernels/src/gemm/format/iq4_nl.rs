//! IQ4_NL: blocks of 32 with one half-precision scale; quantised values are indices of 16 unevenly spaced values.
//!
//! Panel as in Q4_0. The table's values need all eight bits with their sign, so kernels look up signed bytes.

use crate::gemm::format::scalar::{self, nibble};
use crate::gemm::format::traits::{Block32, QuantFormat};
use crate::gemm::format::{Format, half_at, nibbles, pack_nibbles, scales_bytes};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;
use leyden_tensor::quant::IQ4_VALUES;

pub(crate) const FORMAT: Format = Format {
    dtype: DType::IQ4NL,
    act_format: ActFormat::Q8Block32,
    panel_bytes: |k| scales_bytes(k / 32)?.checked_add((k / 32).checked_mul(Iq4Nl::BYTES)?),
    pack,
};

/// Table of the values that quantised values index, as bytes.
pub(super) const TABLE: [u8; 16] = {
    let mut t = [0; 16];
    let mut i = 0;
    while i < 16 {
        t[i] = IQ4_VALUES[i] as u8;
        i += 1;
    }
    t
};

pub(crate) struct Iq4Nl;

impl QuantFormat for Iq4Nl {
    const MAX: i32 = 127;
    const SIGNED: bool = true;
    const BYTES: usize = 16 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives 256 bytes.
        let (low, high) = unsafe { nibbles(d, p, g) };
        (d.look_up(low, &TABLE), d.look_up(high, &TABLE))
    }
}

impl Block32 for Iq4Nl {}

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let (scales, quants) = panel.split_at_mut(Iq4Nl::scale_bytes(k).0);
    for (r, row) in rows.iter().enumerate() {
        for (b, block) in row.as_chunks::<18>().0.iter().enumerate() {
            let out = &mut quants[b * Iq4Nl::BYTES..];
            scales[(b * PANEL_ROWS + r) * 2..][..2].copy_from_slice(&block[..2]);
            pack_nibbles(&block[2..], r, out);
        }
    }
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let (scales, quants) = panel.split_at(Iq4Nl::scale_bytes(k).0);
    let factors = |b: usize, r: usize| (half_at(scales, (b * PANEL_ROWS + r) * 2), 0.0);
    let value = |b: usize, i: usize, r: usize| {
        let group = &quants[b * Iq4Nl::BYTES..];
        i32::from(IQ4_VALUES[usize::from(nibble(group, i, r))])
    };
    scalar::block32(k, tile, out, false, factors, value);
}
