//! Q5_K: as Q4_K, with 5-bit codes.
//!
//! Panel, per 256: factors, scales and minima as in Q4_K, then per block of 32 four vectors of low nibbles and one
//! of high bits.

use super::q4_k::{CODES, DMIN, head, pack_half_bytes, pack_head, scale_min};
use super::scalar::{self, SuperPanel, bit, nibble};
use super::{Format, ROWS, TileFn, bits, half_at, nibbles, pack_bits};
use crate::activations::{Grid, Tile};
use crate::isa::dot::Dot;
use crate::matmul::family::{Codes, Factors, Super, family_many, family_tiles};
use leyden_tensor::DType;

/// Bytes of 256 values of 16 rows.
const BYTES: usize = 176 * ROWS;

/// The largest scaled sum of 64 values: codes up to 31, activations up to 127, scales up to 63.
const LARGEST_64: u32 = 64 * 31 * 127 * 63;
const _: () = assert!(LARGEST_64 < 1 << 24, "the scaled sum of 64 values must be exact in f32");

pub(crate) const FORMAT: Format = Format {
    dtype: DType::Q5K,
    grid: Grid::A128,
    panel_bytes: Q5K::panel_bytes,
    pack,
    tiles: family_tiles!(scalar, superblocks Q5K),
    many: family_many!(superblocks Q5K),
};

struct Q5K;

impl Codes for Q5K {
    const MAX: i32 = 31;
    const BYTES: usize = 20 * ROWS;

    #[inline(always)]
    unsafe fn pair<D: Dot>(d: D, p: *const u8, g: usize) -> (D::Codes, D::Codes) {
        // SAFETY: the caller gives four vectors of nibbles and one of bits.
        let (codes, high) = unsafe { (nibbles(d, p, g), bits::<D, 4>(d, p.add(256), g)) };
        (d.or(codes.0, high.0), d.or(codes.1, high.1))
    }
}

impl Super for Q5K {
    const PARTS: usize = 1;
    const MAX_SCALE: i32 = 63;
    const MINIMUM: bool = true;
    const EXACT: bool = false;
    const EXACT_64: bool = true;

    fn panel_bytes(k: usize) -> Option<usize> {
        (k / 256).checked_mul(BYTES)
    }

    #[inline(always)]
    unsafe fn factors<D: Dot>(d: D, panel: *const u8, _k: usize, sb: usize) -> Factors<D> {
        // SAFETY: the caller gives a whole panel, of which this is superblock sb.
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

fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    scalar::superblocks(&Panel(panel), k, tile, out, true);
}
