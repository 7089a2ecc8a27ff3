//! Q3_K: 256 values in sixteen blocks of 16, each with a 6-bit scale (offset 32), and one half-precision factor:
//! `x = d * scale * (code - 4)`.
//!
//! Panel, per 256: `[16]` d, the twelve bytes of packed scales as `[12][16]`, then per 32 values two vectors of low
//! bit pairs and one of high bits. That is 27.5 cache lines, so every other superblock begins in the middle of one.

use crate::gemm::format::scalar::{self, SuperPanel, bit, crumb};
use crate::gemm::format::traits::{QuantFormat, Superblock, SuperblockScales, uninit_scales};
use crate::gemm::format::{Format, bits, crumbs, half_at, pack_bits, pack_crumbs};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;

/// Bytes of 256 values of 16 rows; the next constants are the offsets of their parts.
const BYTES: usize = 110 * PANEL_ROWS;
const SCALES: usize = 2 * PANEL_ROWS;
const CODES: usize = 14 * PANEL_ROWS;

pub(crate) const FORMAT: Format =
    Format { dtype: DType::Q3K, act_format: ActFormat::Q8Block128, panel_bytes: Q3K::panel_bytes, pack };

pub(crate) struct Q3K;

impl QuantFormat for Q3K {
    const MAX: i32 = 7;
    const ZERO: i32 = 4;
    const BYTES: usize = 12 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives two vectors of bit pairs and one of bits.
        let (quants, high) = unsafe { (crumbs(d, p, g), bits::<D, 2>(d, p.add(128), g)) };
        (d.or(quants.0, high.0), d.or(quants.1, high.1))
    }
}

impl Superblock for Q3K {
    const PARTS: usize = 2;
    const MAX_SCALE: i32 = 32;
    const SIGNED_SCALES: bool = true;
    const EXACT: bool = false;

    fn panel_bytes(k: usize) -> Option<usize> {
        (k / 256).checked_mul(BYTES)
    }

    #[inline(always)]
    unsafe fn factors<D: IntSimd>(d: D, panel: *const u8, _k: usize, sb: usize) -> SuperblockScales<D> {
        // SAFETY: the caller passes a whole panel, and this is its superblock sb.
        unsafe {
            let p = panel.add(sb * BYTES);
            let q = |i: usize| d.bytes(p.add(SCALES + i * PANEL_ROWS));
            let mut scales = uninit_scales::<D>();
            for i in 0..4 {
                // Byte 8 + i holds the two high bits of scales i, 4 + i, 8 + i and 12 + i.
                let (a, b, top) = (q(i), q(4 + i), q(8 + i));
                let high = [
                    d.byte_and(d.byte_shl::<4>(top), 0x30),
                    d.byte_and(d.byte_shl::<2>(top), 0x30),
                    d.byte_and(top, 0x30),
                    d.byte_and(d.byte_shr::<2>(top), 0x30),
                ];
                let low = [
                    d.byte_and(a, 15),
                    d.byte_and(b, 15),
                    d.byte_and(d.byte_shr::<4>(a), 15),
                    d.byte_and(d.byte_shr::<4>(b), 15),
                ];
                for j in 0..4 {
                    scales[4 * j + i].write(d.byte_sub(d.byte_or(low[j], high[j]), 32));
                }
            }
            SuperblockScales {
                d: d.halves(p),
                dmin: d.zeros(),
                scales,
                minima: uninit_scales::<D>(),
                quants: p.add(CODES),
            }
        }
    }
}

fn pack(rows: &[&[u8]], _k: usize, panel: &mut [u8]) {
    for (r, row) in rows.iter().enumerate() {
        for (block, out) in row.as_chunks::<110>().0.iter().zip(panel.chunks_exact_mut(BYTES)) {
            out[r * 2..][..2].copy_from_slice(&block[108..]);
            for i in 0..12 {
                out[SCALES + i * PANEL_ROWS + r] = block[96 + i];
            }
            for b in 0..8 {
                let out = &mut out[CODES + b * Q3K::BYTES..];
                // The file stores four blocks of 32 in the bit pairs of 32 bytes, and bit b of 32 bytes belongs to
                // block b.
                pack_crumbs(|i| block[32 + b / 4 * 32 + i] >> (2 * (b % 4)) & 3, r, out);
                pack_bits(|i| block[i] >> b & 1, r, &mut out[128..]);
            }
        }
    }
}

struct Panel<'a>(&'a [u8]);

impl SuperPanel for Panel<'_> {
    const BLOCK: usize = 16;

    fn factors(&self, sb: usize, r: usize) -> (f32, f32) {
        (half_at(self.0, sb * BYTES + r * 2), 0.0)
    }

    fn scale(&self, sb: usize, block: usize, r: usize) -> (i32, i32) {
        let q = |i: usize| i32::from(self.0[sb * BYTES + SCALES + i * PANEL_ROWS + r]);
        let low = if block < 8 { q(block) & 15 } else { q(block - 8) >> 4 };
        let high = q(8 + block % 4) >> (2 * (block / 4)) & 3;
        ((low | high << 4) - 32, 0)
    }

    fn value(&self, sb: usize, i: usize, r: usize) -> i32 {
        let group = &self.0[sb * BYTES + CODES + i / 32 * Q3K::BYTES..];
        i32::from(crumb(group, i % 32, r) | bit(&group[128..], i % 32, r) << 2) - 4
    }
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    scalar::superblocks(&Panel(panel), k, tile, out, false);
}
