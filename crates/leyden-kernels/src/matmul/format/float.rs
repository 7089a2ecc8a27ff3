//! F32, F16 and, where exactness is asked for, BF16: panels `[k][16]` of the file's own values; activations stay f32.
//!
//! Row r of column c is the sum of four chains `fma(w[k][r], x[k][c], chain)`, k ascending, from zero; k belongs to
//! chain `k / 64 % 4`, and chains are added as (0 + 1) + (2 + 3).

use super::{Format, ROWS, TileFn};
use crate::activations::{Grid, Tile};
use crate::isa::dot::Dot;
use crate::matmul::expanded::Read;
use crate::matmul::family::{family_many, family_tiles};
use crate::matmul::floats::{CHAIN, CHAINS, Steps};
use leyden_tensor::DType;
use leyden_tensor::quant::{bf16_to_f32, f16_to_f32};

pub(crate) const F32: Format = Format {
    dtype: DType::F32,
    grid: Grid::F32,
    panel_bytes: |k| k.checked_mul(ROWS * 4),
    pack: pack::<4>,
    tiles: family_tiles!(scalar_f32, floats F32Row),
    many: family_many!(avx512 floats F32Row),
};

pub(crate) const F16: Format = Format {
    dtype: DType::F16,
    grid: Grid::F32,
    panel_bytes: |k| k.checked_mul(ROWS * 2),
    pack: pack::<2>,
    tiles: family_tiles!(scalar_f16, floats F16Row),
    many: family_many!(avx512 floats F16Row, apart F32Row),
};

pub(crate) const BF16: Format = Format {
    dtype: DType::BF16,
    grid: Grid::F32,
    panel_bytes: |k| k.checked_mul(ROWS * 2),
    pack: pack::<2>,
    tiles: family_tiles!(scalar_bf16, floats Bf16Row),
    many: family_many!(avx512 floats Bf16Row, apart F32Row),
};

/// Declares how a float format's weights are read.
macro_rules! rows {
    ($($name:ident $size:literal $read:ident $(::<$counted:literal>)?,)*) => {
        $(#[derive(Clone, Copy)]
        struct $name;

        impl<D: Dot> Steps<D> for $name {
            const SIZE: usize = $size;

            #[inline(always)]
            unsafe fn step<const WHOLE: bool, const C: usize>(
                self,
                d: D,
                w: *const u8,
                x: *const f32,
                y: &mut [D::Floats; C],
            ) {
                // SAFETY: the caller gives 16 weights, and a number of each column.
                unsafe { d.fma_columns(self.read(d, w), x, y) };
            }
        }

        impl Read for $name {
            #[inline(always)]
            unsafe fn read<D: Dot>(self, d: D, p: *const u8) -> D::Floats {
                // SAFETY: the caller's promise.
                unsafe { d.$read$(::<$counted>)?(p) }
            }
        })*
    };
}

rows! {
    F32Row 4 load_floats,
    F16Row 2 halves,
    Bf16Row 2 brain_floats::<false>,
}

fn pack<const SIZE: usize>(rows: &[&[u8]], _k: usize, panel: &mut [u8]) {
    for (r, row) in rows.iter().enumerate() {
        for (k, value) in row.as_chunks::<SIZE>().0.iter().enumerate() {
            let at = (k * ROWS + r) * SIZE;
            panel[at..at + SIZE].copy_from_slice(value);
        }
    }
}

#[inline(always)]
fn scalar<const SIZE: usize>(
    panel: &[u8],
    tile: &Tile<'_>,
    out: &mut [f32],
    read: impl Fn(&[u8; SIZE]) -> f32,
) {
    let rows = panel.as_chunks::<SIZE>().0;
    for r in 0..ROWS {
        for col in 0..tile.c {
            let mut y = [0.0_f32; CHAINS];
            for (k, row) in rows.chunks_exact(ROWS).enumerate() {
                let y = &mut y[k / CHAIN % CHAINS];
                *y = read(&row[r]).mul_add(tile.values[k * tile.c + col], *y);
            }
            out[col * ROWS + r] = (y[0] + y[1]) + (y[2] + y[3]);
        }
    }
}

fn scalar_f32(panel: &[u8], _k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    scalar::<4>(panel, tile, out, |b| f32::from_le_bytes(*b));
}

fn scalar_f16(panel: &[u8], _k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    scalar::<2>(panel, tile, out, |b| f16_to_f32(u16::from_le_bytes(*b)));
}

fn scalar_bf16(panel: &[u8], _k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    scalar::<2>(panel, tile, out, |b| bf16_to_f32(u16::from_le_bytes(*b)));
}
