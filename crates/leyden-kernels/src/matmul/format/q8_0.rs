//! Q8_0: blocks of 32 signed bytes with one half-precision scale.
//!
//! Panel: `[block][16]` scales, then per block eight 64-byte vectors, vector g holding k = 4g..4g+3 of the 16
//! rows.

use super::scalar::{self};
use super::{Format, ROWS, TileFn, half_at, scales_bytes};
use crate::activations::{Grid, Tile};
use crate::isa::Tier;
use crate::isa::dot::Dot;
use crate::matmul::family::{Codes, Simple, family_many, family_tiles};
use leyden_tensor::DType;

pub(crate) const FORMAT: Format = Format {
    dtype: DType::Q8_0,
    grid: Grid::A32,
    panel_bytes: |k| scales_bytes(k / 32)?.checked_add((k / 32).checked_mul(Q8_0::BYTES)?),
    pack,
    tiles: family_tiles!(scalar, simple Q8_0),
    many: family_many!([amx avx512 avxvnni words] simple Q8_0),
};

/// Tiles of attention's keys, 16 tokens for 16 rows: what lies behind them are the keys of other heads, and the next that a task reads
/// it asks for itself.
pub(crate) const KEY_TILES: fn(Tier) -> &'static [TileFn] = family_tiles!(scalar, simple Keys);

/// `FOLLOWED` as in [`Codes`].
struct Blocks<const FOLLOWED: bool>;
type Q8_0 = Blocks<true>;
type Keys = Blocks<false>;

impl<const FOLLOWED: bool> Codes for Blocks<FOLLOWED> {
    const FOLLOWED: bool = FOLLOWED;
    const MAX: i32 = 127;
    const SIGNED: bool = true;
    const BYTES: usize = 32 * ROWS;

    #[inline(always)]
    unsafe fn pair<D: Dot>(d: D, p: *const u8, g: usize) -> (D::Codes, D::Codes) {
        // SAFETY: the caller gives eight vectors.
        unsafe { (d.load(p.add(g * 64)), d.load(p.add((g + 4) * 64))) }
    }
}

impl<const FOLLOWED: bool> Simple for Blocks<FOLLOWED> {}

/// Bytes of a panel of depth `k`, which is a head's size: no overflow.
pub(crate) fn panel_bytes(k: usize) -> usize {
    Q8_0::scale_bytes(k).0 + k / 32 * Q8_0::BYTES
}

/// Writes block `b` of row `r` into a panel of depth `k`.
#[inline(always)]
pub(crate) fn pack_block(panel: &mut [u8], k: usize, b: usize, r: usize, scale: [u8; 2], values: &[i8; 32]) {
    let (scales, codes) = panel.split_at_mut(Q8_0::scale_bytes(k).0);
    let out = &mut codes[b * Q8_0::BYTES..][..Q8_0::BYTES];
    scales[(b * ROWS + r) * 2..][..2].copy_from_slice(&scale);
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

fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let (scales, codes) = panel.split_at(Q8_0::scale_bytes(k).0);
    let factors = |b: usize, r: usize| (half_at(scales, (b * ROWS + r) * 2), 0.0);
    let value = |b: usize, i: usize, r: usize| {
        let group = &codes[b * Q8_0::BYTES..];
        i32::from(group[(i / 4) * 64 + r * 4 + i % 4] as i8)
    };
    scalar::simple(k, tile, out, false, factors, value);
}
