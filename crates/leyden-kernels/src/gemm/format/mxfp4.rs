//! MXFP4 (OCP Microscaling formats): blocks of 32 four-bit floats with one power of two.
//!
//! Panel: `[block][16]` exponents, then the quantised values as in Q4_0. The four-bit floats are multiples of 1/2, so
//! block sums are of doubled values and the scale is half the power of two.

use crate::gemm::format::scalar::{self, nibble};
use crate::gemm::format::traits::{Block32, QuantFormat};
use crate::gemm::format::{Format, nibbles, pack_nibbles};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;

pub(crate) const FORMAT: Format = Format {
    dtype: DType::MXFP4,
    act_format: ActFormat::Q8Block32,
    panel_bytes: |k| {
        (k / 32)
            .checked_mul(PANEL_ROWS)?
            .checked_next_multiple_of(64)?
            .checked_add((k / 32).checked_mul(Mxfp4::BYTES)?)
    },
    pack,
};

/// Table of twice the values of the four-bit floats (0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives), plus [`ZERO`].
const TABLE: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];
/// Table entry of the value 0.
const ZERO: u8 = 12;

/// Returns `2^(e - 128)`, exactly, subnormal numbers included.
fn half_power(e: u8) -> f32 {
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { u32::from(e - 1) << 23 })
}

pub(crate) struct Mxfp4;

impl QuantFormat for Mxfp4 {
    const MAX: i32 = 24;
    const ZERO: i32 = 12;
    const BYTES: usize = 16 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives 256 bytes.
        let (low, high) = unsafe { nibbles(d, p, g) };
        (d.look_up(low, &TABLE), d.look_up(high, &TABLE))
    }
}

impl Block32 for Mxfp4 {
    const HALVES: bool = false;

    fn scale_bytes(k: usize) -> (usize, usize) {
        ((k / 32 * PANEL_ROWS).next_multiple_of(64), PANEL_ROWS)
    }

    #[inline(always)]
    unsafe fn scale<D: IntSimd>(d: D, p: *const u8) -> (D::Floats, D::Floats) {
        // SAFETY: the caller gives one block's scales.
        unsafe { (d.half_powers(d.bytes(p)), d.zeros()) }
    }
}

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let (scales, quants) = panel.split_at_mut(Mxfp4::scale_bytes(k).0);
    for (r, row) in rows.iter().enumerate() {
        for (b, block) in row.as_chunks::<17>().0.iter().enumerate() {
            let out = &mut quants[b * Mxfp4::BYTES..];
            scales[b * PANEL_ROWS + r] = block[0];
            pack_nibbles(&block[1..], r, out);
        }
    }
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let (scales, quants) = panel.split_at(Mxfp4::scale_bytes(k).0);
    let factors = |b: usize, r: usize| (half_power(scales[b * PANEL_ROWS + r]), 0.0);
    let value = |b: usize, i: usize, r: usize| {
        let group = &quants[b * Mxfp4::BYTES..];
        i32::from(TABLE[usize::from(nibble(group, i, r))]) - i32::from(ZERO)
    };
    scalar::block32(k, tile, out, false, factors, value);
}
