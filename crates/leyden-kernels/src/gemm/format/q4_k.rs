//! Q4_K: 256 values in eight blocks of 32, each block with a 6-bit scale and a 6-bit minimum, and two
//! half-precision factors for all of them: `x = d * scale * code - dmin * min`.
//!
//! Panel, per 256: `[16]` d, `[16]` dmin, the twelve bytes of packed scales and minima as `[12][16]`, then per
//! block four vectors of nibbles.

use crate::gemm::format::scalar::{self, SuperPanel, nibble};
use crate::gemm::format::traits::{QuantFormat, Superblock, SuperblockScales, uninit_scales};
use crate::gemm::format::{Format, half_at, nibbles};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;

/// Bytes of 256 values of 16 rows; the next constants are the offsets of their parts. The head is the same in Q5_K.
const BYTES: usize = 144 * PANEL_ROWS;
pub(super) const DMIN: usize = 2 * PANEL_ROWS;
pub(super) const SCALES: usize = 4 * PANEL_ROWS;
pub(super) const CODES: usize = 16 * PANEL_ROWS;

/// Largest |S|: four blocks of 32 quantised values up to 15, activations up to 127, scales up to 63.
const LARGEST: u32 = 4 * 32 * 15 * 127 * 63;
const _: () = assert!(LARGEST < 1 << 24, "the scaled sum must be exact in f32");

pub(crate) const FORMAT: Format =
    Format { dtype: DType::Q4K, act_format: ActFormat::Q8Block128, panel_bytes: Q4K::panel_bytes, pack };

pub(crate) struct Q4K;

impl QuantFormat for Q4K {
    const MAX: i32 = 15;
    const BYTES: usize = 16 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives 256 bytes.
        unsafe { nibbles(d, p, g) }
    }
}

impl Superblock for Q4K {
    const PARTS: usize = 1;
    const MAX_SCALE: i32 = 63;
    const MINIMUM: bool = true;
    const EXACT: bool = true;

    fn panel_bytes(k: usize) -> Option<usize> {
        (k / 256).checked_mul(BYTES)
    }

    #[inline(always)]
    unsafe fn factors<D: IntSimd>(d: D, panel: *const u8, _k: usize, sb: usize) -> SuperblockScales<D> {
        // SAFETY: the caller passes a whole panel, and this is its superblock sb.
        unsafe { head(d, panel.add(sb * BYTES)) }
    }
}

/// Reads the factors, scales and minima of the 256 values at `p`.
///
/// # Safety
/// `p` points at a superblock of Q4_K or Q5_K.
#[inline(always)]
pub(super) unsafe fn head<D: IntSimd>(d: D, p: *const u8) -> SuperblockScales<D> {
    // SAFETY: the caller's superblock begins with 256 bytes of factors.
    unsafe {
        let q = |i: usize| d.bytes(p.add(SCALES + i * PANEL_ROWS));
        let (mut scales, mut minima) = (uninit_scales::<D>(), uninit_scales::<D>());
        for b in 0..4 {
            let (s, m, rest) = (q(b), q(b + 4), q(b + 8));
            scales[b].write(d.byte_and(s, 63));
            minima[b].write(d.byte_and(m, 63));
            scales[b + 4].write(d.byte_or(d.byte_and(rest, 15), d.byte_and(d.byte_shr::<2>(s), 0x30)));
            let minimum =
                d.byte_or(d.byte_and(d.byte_shr::<4>(rest), 15), d.byte_and(d.byte_shr::<2>(m), 0x30));
            minima[b + 4].write(minimum);
        }
        SuperblockScales { d: d.halves(p), dmin: d.halves(p.add(DMIN)), scales, minima, quants: p.add(CODES) }
    }
}

/// Packs the sixteen bytes of factors, scales and minima at the start of a block of Q4_K or Q5_K.
pub(super) fn pack_head(block: &[u8], r: usize, out: &mut [u8]) {
    out[r * 2..][..2].copy_from_slice(&block[..2]);
    out[DMIN + r * 2..][..2].copy_from_slice(&block[2..4]);
    for i in 0..12 {
        out[SCALES + i * PANEL_ROWS + r] = block[4 + i];
    }
}

/// Packs 32 nibbles of a block that shares its bytes with a neighbour: low nibbles for the even block, high ones for
/// the odd block.
pub(super) fn pack_half_bytes(bytes: &[u8], odd: bool, r: usize, out: &mut [u8]) {
    for i in 0..16 {
        let (low, high) = (bytes[i], bytes[16 + i]);
        out[(i / 4) * 64 + r * 4 + i % 4] = if odd { low >> 4 | high & 0xf0 } else { low & 15 | high << 4 };
    }
}

fn pack(rows: &[&[u8]], _k: usize, panel: &mut [u8]) {
    for (r, row) in rows.iter().enumerate() {
        for (block, out) in row.as_chunks::<144>().0.iter().zip(panel.chunks_exact_mut(BYTES)) {
            pack_head(block, r, out);
            for b in 0..8 {
                let bytes = &block[16 + (b / 2) * 32..][..32];
                pack_half_bytes(bytes, b % 2 == 1, r, &mut out[CODES + b * Q4K::BYTES..]);
            }
        }
    }
}

/// Reads scale and minimum of block `b` of row `r` from a superblock.
pub(super) fn scale_min(block: &[u8], b: usize, r: usize) -> (i32, i32) {
    let q = |i: usize| i32::from(block[SCALES + i * PANEL_ROWS + r]);
    if b < 4 {
        (q(b) & 63, q(b + 4) & 63)
    } else {
        (q(b + 4) & 15 | (q(b - 4) >> 6) << 4, q(b + 4) >> 4 | (q(b) >> 6) << 4)
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
        i32::from(nibble(&self.0[sb * BYTES + CODES + i / 32 * Q4K::BYTES..], i % 32, r))
    }
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    scalar::superblocks(&Panel(panel), k, tile, out, true);
}
