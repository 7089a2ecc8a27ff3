//! IQ4_NL: blocks of 32 with one half-precision scale; codes name sixteen unevenly spaced values.
//!
//! Panel as in Q4_0. The values need all eight bits with their sign, so codes become signed bytes.

use super::scalar::{self, nibble};
use super::{Format, ROWS, TileFn, half_at, nibbles, pack_nibbles, scales_bytes};
use crate::activations::{Grid, Tile};
use crate::isa::dot::Dot;
use crate::matmul::family::{Codes, Simple, family_many, family_tiles};
use leyden_tensor::DType;
use leyden_tensor::quant::IQ4_VALUES;

pub(crate) const FORMAT: Format = Format {
    dtype: DType::IQ4NL,
    grid: Grid::A32,
    panel_bytes: |k| scales_bytes(k / 32)?.checked_add((k / 32).checked_mul(Iq4Nl::BYTES)?),
    pack,
    tiles: family_tiles!(scalar, simple Iq4Nl),
    many: family_many!([amx avx512 avxvnni words] simple Iq4Nl),
};

/// The values that the codes stand for, as bytes.
pub(super) const TABLE: [u8; 16] = {
    let mut t = [0; 16];
    let mut i = 0;
    while i < 16 {
        t[i] = IQ4_VALUES[i] as u8;
        i += 1;
    }
    t
};

struct Iq4Nl;

impl Codes for Iq4Nl {
    const MAX: i32 = 127;
    const SIGNED: bool = true;
    const BYTES: usize = 16 * ROWS;

    #[inline(always)]
    unsafe fn pair<D: Dot>(d: D, p: *const u8, g: usize) -> (D::Codes, D::Codes) {
        // SAFETY: the caller gives 256 bytes.
        let (low, high) = unsafe { nibbles(d, p, g) };
        (d.look_up(low, &TABLE), d.look_up(high, &TABLE))
    }
}

impl Simple for Iq4Nl {}

fn pack(rows: &[&[u8]], k: usize, panel: &mut [u8]) {
    let (scales, codes) = panel.split_at_mut(Iq4Nl::scale_bytes(k).0);
    for (r, row) in rows.iter().enumerate() {
        for (b, block) in row.as_chunks::<18>().0.iter().enumerate() {
            let out = &mut codes[b * Iq4Nl::BYTES..];
            scales[(b * ROWS + r) * 2..][..2].copy_from_slice(&block[..2]);
            pack_nibbles(&block[2..], r, out);
        }
    }
}

fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let (scales, codes) = panel.split_at(Iq4Nl::scale_bytes(k).0);
    let factors = |b: usize, r: usize| (half_at(scales, (b * ROWS + r) * 2), 0.0);
    let value = |b: usize, i: usize, r: usize| {
        let group = &codes[b * Iq4Nl::BYTES..];
        i32::from(IQ4_VALUES[usize::from(nibble(group, i, r))])
    };
    scalar::simple(k, tile, out, false, factors, value);
}
