//! Q4_0: blocks of 32 with one half-precision scale, quantised values 0..15 standing for -8..7.
//!
//! Panel: `[block][16]` scales, then per block four 64-byte vectors; byte (row, j) of vector g holds
//! k = 4g + j in its low and k = 16 + 4g + j in its high nibble, which is the file's own byte.
//!
//! Q1_0 is packed as such panels: 7 and 9 for the signs, and the scale of 128 values four times.

use crate::gemm::format::scalar::{self, nibble};
use crate::gemm::format::traits::{Block32, QuantFormat};
use crate::gemm::format::{Format, half_at, nibbles, pack_nibbles, scales_bytes};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;
use leyden_tensor::quant::{self, Block};

pub(crate) const FORMAT: Format = Format {
    dtype: DType::Q4_0,
    act_format: ActFormat::Q8Block32,
    panel_bytes: |k| scales_bytes(k / 32)?.checked_add((k / 32).checked_mul(Q4_0::BYTES)?),
    pack,
};

pub(crate) const Q1_0: Format = Format { dtype: DType::Q1_0, pack: pack_signs, ..FORMAT };

pub(crate) struct Q4_0;

impl QuantFormat for Q4_0 {
    const MAX: i32 = 15;
    const ZERO: i32 = 8;
    const BYTES: usize = 16 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives 256 bytes.
        unsafe { nibbles(d, p, g) }
    }
}

impl Block32 for Q4_0 {}

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let (scales, quants) = panel.split_at_mut(Q4_0::scale_bytes(k).0);
    for (r, row) in rows.iter().enumerate() {
        for (b, block) in row.as_chunks::<18>().0.iter().enumerate() {
            let out = &mut quants[b * Q4_0::BYTES..];
            scales[(b * PANEL_ROWS + r) * 2..][..2].copy_from_slice(&block[..2]);
            pack_nibbles(&block[2..], r, out);
        }
    }
}

/// Packs rows of Q1_0 as rows of Q4_0 with the same values.
fn pack_signs(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let block = |block: &[u8; 18], part: usize| {
        let code = |i: usize| 7 + 2 * (block[2 + part * 4 + i / 8] >> (i % 8) & 1);
        let qs = std::array::from_fn(|j| code(j) | code(j + 16) << 4);
        let mut bytes = [0; 18];
        quant::Q4_0 { d: u16::from_le_bytes([block[0], block[1]]), qs }.write(&mut bytes);
        bytes
    };
    let row = |row: &&[u8]| {
        let blocks = row.as_chunks::<18>().0.iter();
        blocks.flat_map(|b| (0..4).flat_map(move |part| block(b, part))).collect::<Vec<u8>>()
    };
    let rows: Vec<Vec<u8>> = rows.iter().map(row).collect();
    pack(&rows.iter().map(|row| &row[..]).collect::<Vec<_>>(), k, panel);
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let (scales, quants) = panel.split_at(Q4_0::scale_bytes(k).0);
    let factors = |b: usize, r: usize| (half_at(scales, (b * PANEL_ROWS + r) * 2), 0.0);
    let value = |b: usize, i: usize, r: usize| {
        let group = &quants[b * Q4_0::BYTES..];
        i32::from(nibble(group, i, r)) - 8
    };
    scalar::block32(k, tile, out, false, factors, value);
}
