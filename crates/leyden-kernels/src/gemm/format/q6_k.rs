//! Q6_K: 256 values in sixteen blocks of 16, each with a signed 8-bit scale, and one half-precision factor:
//! `x = d * scale * (code - 32)`.
//!
//! Panel: `[256-block][16]` d, then per 256 the scales `[16][16]` and per 32 values four vectors of low nibbles and
//! two of high bit pairs.

use crate::gemm::format::q4_k::pack_half_bytes;
use crate::gemm::format::scalar::{self, SuperPanel, crumb, nibble};
use crate::gemm::format::traits::{QuantFormat, Superblock, SuperblockScales, uninit_scales};
use crate::gemm::format::{Format, half_at, pack_crumbs, scales_bytes};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;

/// Bytes of 256 values of 16 rows without d; the next constant is the offset of the quantised values.
const BYTES: usize = 208 * PANEL_ROWS;
const CODES: usize = 16 * PANEL_ROWS;

pub(crate) const FORMAT: Format =
    Format { dtype: DType::Q6K, act_format: ActFormat::Q8Block128, panel_bytes: Q6K::panel_bytes, pack };

pub(crate) struct Q6K;

impl QuantFormat for Q6K {
    const MAX: i32 = 63;
    const ZERO: i32 = 32;
    const BYTES: usize = 24 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives six vectors.
        let (v, bits) = unsafe { (d.load(p.add(g * 64)), d.load(p.add((4 + g / 2) * 64))) };
        let (low, high) =
            if g.is_multiple_of(2) { (d.shl::<4>(bits), d.shl::<2>(bits)) } else { (bits, d.shr::<2>(bits)) };
        (d.or(d.and(v, 15), d.and(low, 0x30)), d.or(d.and(d.shr::<4>(v), 15), d.and(high, 0x30)))
    }
}

impl Superblock for Q6K {
    const PARTS: usize = 2;
    const MAX_SCALE: i32 = 128;
    const SIGNED_SCALES: bool = true;
    const EXACT: bool = false;

    fn panel_bytes(k: usize) -> Option<usize> {
        scales_bytes(k / 256)?.checked_add((k / 256).checked_mul(BYTES)?)
    }

    #[inline(always)]
    unsafe fn factors<D: IntSimd>(d: D, panel: *const u8, k: usize, sb: usize) -> SuperblockScales<D> {
        // SAFETY: the caller passes a whole panel, and this is its superblock sb.
        unsafe {
            let p = panel.add(scales_bytes(k / 256).unwrap_or(0) + sb * BYTES);
            let factor = d.halves(panel.add(sb * 2 * PANEL_ROWS));
            let (scales, minima) = (uninit_scales::<D>(), uninit_scales::<D>());
            SuperblockScales { d: factor, dmin: d.zeros(), scales, minima, quants: p.add(CODES) }
        }
    }

    #[inline(always)]
    unsafe fn scale<D: IntSimd>(d: D, f: &SuperblockScales<D>, i: usize) -> D::Bytes {
        // SAFETY: the factors' quantised values follow the scales of sixteen blocks.
        unsafe { d.bytes(f.quants.sub(CODES).add(i * PANEL_ROWS)) }
    }
}

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let (factors, quants) = panel.split_at_mut(scales_bytes(k / 256).unwrap_or(0));
    for (r, row) in rows.iter().enumerate() {
        for (sb, (block, out)) in
            row.as_chunks::<210>().0.iter().zip(quants.chunks_exact_mut(BYTES)).enumerate()
        {
            factors[(sb * PANEL_ROWS + r) * 2..][..2].copy_from_slice(&block[208..]);
            for i in 0..16 {
                out[i * PANEL_ROWS + r] = block[192 + i];
            }
            for b in 0..8 {
                // The file's half of 128: 64 bytes of nibbles, 32 bytes of high bits, four blocks of 32.
                let (half, q) = (b / 4, b % 4);
                let out = &mut out[CODES + b * Q6K::BYTES..];
                pack_half_bytes(&block[half * 64 + (q % 2) * 32..][..32], q >= 2, r, out);
                pack_crumbs(|i| block[128 + half * 32 + i] >> (2 * q) & 3, r, &mut out[256..]);
            }
        }
    }
}

struct Panel<'a> {
    factors: &'a [u8],
    blocks: &'a [u8],
}

impl SuperPanel for Panel<'_> {
    const BLOCK: usize = 16;

    fn factors(&self, sb: usize, r: usize) -> (f32, f32) {
        (half_at(self.factors, (sb * PANEL_ROWS + r) * 2), 0.0)
    }

    fn scale(&self, sb: usize, block: usize, r: usize) -> (i32, i32) {
        (i32::from(self.blocks[sb * BYTES + block * PANEL_ROWS + r] as i8), 0)
    }

    fn value(&self, sb: usize, i: usize, r: usize) -> i32 {
        let group = &self.blocks[sb * BYTES + CODES + i / 32 * Q6K::BYTES..];
        i32::from(nibble(group, i % 32, r) | crumb(&group[256..], i % 32, r) << 4) - 32
    }
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let (factors, blocks) = panel.split_at(scales_bytes(k / 256).unwrap_or(0));
    scalar::superblocks(&Panel { factors, blocks }, k, tile, out, false);
}
