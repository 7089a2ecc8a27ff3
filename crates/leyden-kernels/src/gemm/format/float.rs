//! F32, F16 and, if exact products are requested, BF16: panels `[k][16]` of the file's own values; activations stay
//! f32.
//!
//! Row r of column c is the sum of four chains `fma(w[k][r], x[k][c], chain)`, k ascending, from zero; k belongs to
//! chain `k / 64 % 4`, and chains are added as (0 + 1) + (2 + 3).

use crate::gemm::format::Format;
use crate::gemm::format::traits::{CHAIN, CHAINS, FloatFormat, ReadFloats};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS};
use leyden_tensor::DType;
use leyden_tensor::quant::{bf16_to_f32, f16_to_f32};

pub(crate) const F32: Format = Format {
    dtype: DType::F32,
    act_format: ActFormat::F32,
    panel_bytes: |k| k.checked_mul(PANEL_ROWS * 4),
    pack: pack::<4>,
};

pub(crate) const F16: Format = Format {
    dtype: DType::F16,
    act_format: ActFormat::F32,
    panel_bytes: |k| k.checked_mul(PANEL_ROWS * 2),
    pack: pack::<2>,
};

pub(crate) const BF16: Format = Format {
    dtype: DType::BF16,
    act_format: ActFormat::F32,
    panel_bytes: |k| k.checked_mul(PANEL_ROWS * 2),
    pack: pack::<2>,
};

/// Declares a float format by the operation that reads its weights.
macro_rules! rows {
    ($($name:ident $size:literal $read:ident $(::<$flush_small_bf16:literal>)?,)*) => {
        $(#[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl<D: IntSimd> FloatFormat<D> for $name {
            const SIZE: usize = $size;

            #[inline(always)]
            unsafe fn step<const WHOLE: bool, const C: usize>(
                self,
                d: D,
                w: *const u8,
                x: *const f32,
                y: &mut [D::Floats; C],
            ) {
                // SAFETY: the caller passes 16 weights, and one value of each column.
                unsafe { d.fma_columns(self.read(d, w), x, y) };
            }
        }

        impl ReadFloats for $name {
            #[inline(always)]
            unsafe fn read<D: IntSimd>(self, d: D, p: *const u8) -> D::Floats {
                // SAFETY: the trait method's `# Safety`.
                unsafe { d.$read$(::<$flush_small_bf16>)?(p) }
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
            let at = (k * PANEL_ROWS + r) * SIZE;
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
    for r in 0..PANEL_ROWS {
        for col in 0..tile.c {
            let mut y = [0.0_f32; CHAINS];
            for (k, row) in rows.chunks_exact(PANEL_ROWS).enumerate() {
                let y = &mut y[k / CHAIN % CHAINS];
                *y = read(&row[r]).mul_add(tile.values[k * tile.c + col], *y);
            }
            out[col * PANEL_ROWS + r] = (y[0] + y[1]) + (y[2] + y[3]);
        }
    }
}

pub(crate) fn scalar_f32(panel: &[u8], _k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    scalar::<4>(panel, tile, out, |b| f32::from_le_bytes(*b));
}

pub(crate) fn scalar_f16(panel: &[u8], _k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    scalar::<2>(panel, tile, out, |b| f16_to_f32(u16::from_le_bytes(*b)));
}

pub(crate) fn scalar_bf16(panel: &[u8], _k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    scalar::<2>(panel, tile, out, |b| bf16_to_f32(u16::from_le_bytes(*b)));
}
