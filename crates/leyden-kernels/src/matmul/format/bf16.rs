//! BF16: panels `[k][16]` of the file's own values; activations are rounded to bfloat16, as the file's weights were.
//!
//! Row r of column c is the sum of four chains of `fma(w[k][r], x[k][c], chain)` from zero. Of each two k, from an even
//! one on, the second comes first; k belongs to chain `k / 64 % 4`, and chains are added as (0 + 1) + (2 + 3).
//! Weights and activations smaller in magnitude than [`LEAST`] count as zero.
//!
//! This is what `VDPBF16PS` does (Intel, Software Developer's Manual, volume 2: two multiply-adds, the upper halves' first,
//! each rounded to nearest even; Zen 5 does the same, as the tests show), but for its subnormal numbers,
//! which it takes for zero: with [`LEAST`] there are none. Products of two bfloat16 of eight significant bits each are
//! multiples of 2^-126, the least normal f32, and so are sums of such, rounded or not. Hence one definition, and the same
//! bits, with the instruction and without.

use super::{Format, ROWS, TileFn, float};
use crate::activations::{Grid, Tile};
use crate::isa::dot::Dot;
use crate::isa::{bf16_kernels, bf16_many};
use crate::matmul::expanded::Read;
use crate::matmul::family::{family_many, family_tiles};
use crate::matmul::floats::{CHAIN, CHAINS, Steps};
use leyden_tensor::quant::bf16_to_f32;

pub(crate) const FORMAT: Format = Format {
    grid: Grid::BF16,
    tiles: |tier| match bf16_kernels(tier.level()) {
        Some(kernels) => &kernels.tiles[usize::from(tier.near())],
        None => family_tiles!(scalar, floats Pairs)(tier),
    },
    many: |tier| match bf16_kernels(tier.level()) {
        Some(kernels) => Some(&kernels.many),
        None => bf16_many(tier.level()).or_else(|| family_many!(avx512 floats Pairs, apart FloatPairs)(tier)),
    },
    ..float::BF16
};

/// Magnitudes of bfloat16 below this, 2^-56, count as zero: by its bits, which order like the numbers.
pub(crate) const LEAST: u16 = (127 - 56) << 7;

/// A bfloat16, or zero if it is too small to count.
#[inline(always)]
pub(crate) const fn counted(bits: u16) -> u16 {
    if bits & 0x7fff < LEAST { 0 } else { bits }
}

/// Pairs of weights one by one, where no instruction takes two.
#[derive(Clone, Copy)]
struct Pairs;

impl<D: Dot> Steps<D> for Pairs {
    const SIZE: usize = 2;
    const DEPTH: usize = 2;

    #[inline(always)]
    unsafe fn step<const WHOLE: bool, const C: usize>(
        self,
        d: D,
        w: *const u8,
        x: *const f32,
        y: &mut [D::Floats; C],
    ) {
        // SAFETY: the caller's promise; there is a second k if the step is whole.
        unsafe {
            if WHOLE && D::BRAIN_PAIRS {
                let [first, second] = d.brain_float_pair(w);
                d.fma_columns(second, x.add(d.of::<C>()), y);
                d.fma_columns(first, x, y);
                return;
            }
            if WHOLE {
                d.fma_columns(self.read(d, w.add(ROWS * 2)), x.add(d.of::<C>()), y);
            }
            d.fma_columns(self.read(d, w), x, y);
        }
    }
}

impl Read for Pairs {
    #[inline(always)]
    unsafe fn read<D: Dot>(self, d: D, p: *const u8) -> D::Floats {
        // SAFETY: the caller's promise.
        unsafe { d.brain_floats::<true>(p) }
    }
}

/// [`Pairs`] of weights that were made floats.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
#[derive(Clone, Copy)]
struct FloatPairs;

impl<D: Dot> Steps<D> for FloatPairs {
    const SIZE: usize = 4;
    const DEPTH: usize = 2;

    #[inline(always)]
    unsafe fn step<const WHOLE: bool, const C: usize>(
        self,
        d: D,
        w: *const u8,
        x: *const f32,
        y: &mut [D::Floats; C],
    ) {
        // SAFETY: the caller's promise; there is a second k if the step is whole.
        unsafe {
            if WHOLE {
                d.fma_columns(d.load_floats(w.add(ROWS * 4)), x.add(d.of::<C>()), y);
            }
            d.fma_columns(d.load_floats(w), x, y);
        }
    }
}

fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let rows = panel.as_chunks::<2>().0;
    for r in 0..ROWS {
        for col in 0..tile.c {
            let mut y = [0.0_f32; CHAINS];
            for i in 0..k.div_ceil(2) {
                let y = &mut y[2 * i / CHAIN % CHAINS];
                for k in (2 * i..k.min(2 * i + 2)).rev() {
                    let w = counted(u16::from_le_bytes(rows[k * ROWS + r]));
                    *y = bf16_to_f32(w).mul_add(tile.values[k * tile.c + col], *y);
                }
            }
            out[col * ROWS + r] = (y[0] + y[1]) + (y[2] + y[3]);
        }
    }
}
