//! Q2_K: 256 values in sixteen blocks of 16, each with a 4-bit scale and a 4-bit minimum, and two half-precision
//! factors: `x = d * scale * code - dmin * min`.
//!
//! Panel, per 256: `[16]` d, `[16]` dmin, `[16][16]` scales (low nibble) and minima (high), then per 32 values two
//! vectors of bit pairs.
//!
//! TQ1_0 and TQ2_0 are packed as such panels: levels 0 to 2 with scales and minima of 1, and the block's factor as both
//! d and dmin.

use crate::gemm::format::scalar::{self, SuperPanel, crumb};
use crate::gemm::format::traits::{QuantFormat, Superblock, SuperblockScales, uninit_scales};
use crate::gemm::format::{Format, crumbs, half_at, pack_crumbs};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;
use leyden_tensor::quant::{self, Block};

/// Bytes of 256 values of 16 rows; the next constants are the offsets of their parts.
const BYTES: usize = 84 * PANEL_ROWS;
const DMIN: usize = 2 * PANEL_ROWS;
const SCALES: usize = 4 * PANEL_ROWS;
const CODES: usize = 20 * PANEL_ROWS;

/// Largest |S|: 128 quantised values up to 3, activations up to 127, scales up to 15.
const LARGEST: u32 = 128 * 3 * 127 * 15;
const _: () = assert!(LARGEST < 1 << 24, "the scaled sum must be exact in f32");

pub(crate) const FORMAT: Format =
    Format { dtype: DType::Q2K, act_format: ActFormat::Q8Block128, panel_bytes: Q2K::panel_bytes, pack };

pub(crate) const TQ1_0: Format =
    Format { dtype: DType::TQ1_0, pack: |rows, k, panel| pack_ternary(rows, tq1_0, k, panel), ..FORMAT };

pub(crate) const TQ2_0: Format =
    Format { dtype: DType::TQ2_0, pack: |rows, k, panel| pack_ternary(rows, tq2_0, k, panel), ..FORMAT };

pub(crate) struct Q2K;

impl QuantFormat for Q2K {
    const MAX: i32 = 3;
    const BYTES: usize = 8 * PANEL_ROWS;

    #[inline(always)]
    unsafe fn pair<D: IntSimd>(d: D, p: *const u8, g: usize) -> (D::Quants, D::Quants) {
        // SAFETY: the caller gives two vectors.
        unsafe { crumbs(d, p, g) }
    }
}

impl Superblock for Q2K {
    const PARTS: usize = 2;
    const MAX_SCALE: i32 = 15;
    const MINIMUM: bool = true;
    const EXACT: bool = true;

    fn panel_bytes(k: usize) -> Option<usize> {
        (k / 256).checked_mul(BYTES)
    }

    #[inline(always)]
    unsafe fn factors<D: IntSimd>(d: D, panel: *const u8, _k: usize, sb: usize) -> SuperblockScales<D> {
        // SAFETY: the caller passes a whole panel, and this is its superblock sb.
        unsafe {
            let p = panel.add(sb * BYTES);
            let (scales, minima) = (uninit_scales::<D>(), uninit_scales::<D>());
            SuperblockScales {
                d: d.halves(p),
                dmin: d.halves(p.add(DMIN)),
                scales,
                minima,
                quants: p.add(CODES),
            }
        }
    }

    #[inline(always)]
    unsafe fn scale<D: IntSimd>(d: D, f: &SuperblockScales<D>, i: usize) -> D::Bytes {
        // SAFETY: the factors' quantised values follow the bytes of sixteen blocks.
        unsafe { d.byte_and(d.bytes(f.quants.sub(CODES - SCALES).add(i * PANEL_ROWS)), 15) }
    }

    #[inline(always)]
    unsafe fn minimum<D: IntSimd>(d: D, f: &SuperblockScales<D>, i: usize) -> D::Bytes {
        // SAFETY: as above.
        unsafe { d.byte_and(d.byte_shr::<4>(d.bytes(f.quants.sub(CODES - SCALES).add(i * PANEL_ROWS))), 15) }
    }
}

fn pack(rows: &[&[u8]], _k: usize, panel: &mut [u8]) {
    for (r, row) in rows.iter().enumerate() {
        for (block, out) in row.as_chunks::<84>().0.iter().zip(panel.chunks_exact_mut(BYTES)) {
            out[r * 2..][..2].copy_from_slice(&block[80..82]);
            out[DMIN + r * 2..][..2].copy_from_slice(&block[82..84]);
            for i in 0..16 {
                out[SCALES + i * PANEL_ROWS + r] = block[i];
            }
            for b in 0..8 {
                // The file stores four blocks of 32 in the bit pairs of 32 bytes.
                let code = |i: usize| block[16 + b / 4 * 32 + i] >> (2 * (b % 4)) & 3;
                pack_crumbs(code, r, &mut out[CODES + b * Q2K::BYTES..]);
            }
        }
    }
}

/// Factor and levels of a ternary block.
type Ternary = (u16, [u8; 256]);

fn tq1_0(block: &[u8; 54]) -> Ternary {
    let block = quant::TQ1_0(*block);
    (block.factor(), block.levels())
}

fn tq2_0(block: &[u8; 66]) -> Ternary {
    let block = quant::TQ2_0(*block);
    (block.factor(), block.levels())
}

/// Packs rows of ternary blocks as rows of Q2_K with the same values.
fn pack_ternary<const N: usize>(rows: &[&[u8]], read: fn(&[u8; N]) -> Ternary, k: usize, panel: &mut [u8]) {
    let block = |block: &[u8; N]| {
        let (factor, levels) = read(block);
        let mut qs = [0; 64];
        for (i, level) in levels.iter().enumerate() {
            qs[i / 128 * 32 + i % 32] |= level << (i / 32 % 4 * 2);
        }
        let mut bytes = [0; 84];
        quant::Q2K { scales: [0x11; 16], qs, d: factor, dmin: factor }.write(&mut bytes);
        bytes
    };
    let row = |row: &&[u8]| row.as_chunks::<N>().0.iter().flat_map(block).collect::<Vec<u8>>();
    let rows: Vec<Vec<u8>> = rows.iter().map(row).collect();
    pack(&rows.iter().map(|row| &row[..]).collect::<Vec<_>>(), k, panel);
}

struct Panel<'a>(&'a [u8]);

impl SuperPanel for Panel<'_> {
    const BLOCK: usize = 16;

    fn factors(&self, sb: usize, r: usize) -> (f32, f32) {
        (half_at(self.0, sb * BYTES + r * 2), half_at(self.0, sb * BYTES + DMIN + r * 2))
    }

    fn scale(&self, sb: usize, block: usize, r: usize) -> (i32, i32) {
        let both = self.0[sb * BYTES + SCALES + block * PANEL_ROWS + r];
        (i32::from(both & 15), i32::from(both >> 4))
    }

    fn value(&self, sb: usize, i: usize, r: usize) -> i32 {
        i32::from(crumb(&self.0[sb * BYTES + CODES + i / 32 * Q2K::BYTES..], i % 32, r))
    }
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    scalar::superblocks(&Panel(panel), k, tile, out, true);
}
