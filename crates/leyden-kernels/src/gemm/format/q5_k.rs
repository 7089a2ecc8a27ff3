//! Q5_K: as Q4_K, with 5-bit quantised values.
//!
//! Panel, per 256: factors, scales and minima as in Q4_K, then per block of 32 four vectors of low nibbles and one
//! of high bits.

use crate::gemm::format::q4_k::{CODES, DMIN, head, pack_half_bytes, pack_head, scale_min};
use crate::gemm::format::scalar::{self, SuperPanel, bit, nibble};
use crate::gemm::format::traits::{QuantFormat, Superblock, SuperblockScales};
use crate::gemm::format::{Format, bits, half_at, nibbles, pack_bits};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;

/// Bytes of 256 values of 16 rows.
const BYTES: usize = 176 * PANEL_ROWS;

/// Largest scaled sum of 64 values: quantised values up to 31, activations up to 127, scales up to 63.
const LARGEST_64: u32 = 64 * 31 * 127 * 63;
const _: () = assert!(LARGEST_64 < 1 << 24, "the scaled sum of 64 values must be exact in f32");

pub(crate) const FORMAT: Format =
    Format { dtype: DType::Q5K, act_format: ActFormat::Q8Block128, panel_bytes: Q5K::panel_bytes, pack };

pub(crate) struct Q5K;

impl QuantFormat for Q5K {
    const MAX: i32 = 31;
    const BYTES: usize = 20 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives four vectors of nibbles and one of bits.
        let (quants, high) = unsafe { (nibbles(d, p, g), bits::<D, 4>(d, p.add(256), g)) };
        (d.or(quants.0, high.0), d.or(quants.1, high.1))
    }
}

impl Superblock for Q5K {
    const PARTS: usize = 1;
    const MAX_SCALE: i32 = 63;
    const MINIMUM: bool = true;
    const EXACT: bool = false;
    const EXACT_64: bool = true;

    fn panel_bytes(k: usize) -> Option<usize> {
        (k / 256).checked_mul(BYTES)
    }

    #[inline(always)]
    unsafe fn factors<D: IntSimd>(d: D, panel: *const u8, _k: usize, sb: usize) -> SuperblockScales<D> {
        // SAFETY: the caller passes a whole panel, and this is its superblock sb.
        unsafe { head(d, panel.add(sb * BYTES)) }
    }
}

fn pack(rows: &[&[u8]], _k: usize, panel: &mut [u8]) {
    for (r, row) in rows.iter().enumerate() {
        for (block, out) in row.as_chunks::<176>().0.iter().zip(panel.chunks_exact_mut(BYTES)) {
            pack_head(block, r, out);
            for b in 0..8 {
                let out = &mut out[CODES + b * Q5K::BYTES..];
                pack_half_bytes(&block[48 + (b / 2) * 32..][..32], b % 2 == 1, r, out);
                pack_bits(|i| block[16 + i] >> b & 1, r, &mut out[256..]);
            }
        }
    }
}

struct Panel<'a>(&'a [u8]);

impl SuperPanel for Panel<'_> {
    const BLOCK: usize = 32;

    fn factors(&self, sb: usize, r: usize) -> (f32, f32) {
        (half_at(self.0, sb * BYTES + r * 2), half_at(self.0, sb * BYTES + DMIN + r * 2))
    }

    fn scale(&self, sb: usize, block: usize, r: usize) -> (i32, i32) {
        scale_min(&self.0[sb * BYTES..], block, r)
    }

    fn value(&self, sb: usize, i: usize, r: usize) -> i32 {
        let group = &self.0[sb * BYTES + CODES + i / 32 * Q5K::BYTES..];
        i32::from(nibble(group, i % 32, r) | bit(&group[256..], i % 32, r) << 4)
    }
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    scalar::superblocks(&Panel(panel), k, tile, out, true);
}
