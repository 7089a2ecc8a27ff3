//! BF16: panels `[k][16]` of the file's own values; activations are rounded to bfloat16, as the file's weights were.
//!
//! Row r of column c is the sum of four chains of `fma(w[k][r], x[k][c], chain)` from zero. Of each pair of k, from an
//! even k on, the second comes first; k belongs to chain `k / 64 % 4`, and chains are added as (0 + 1) + (2 + 3).
//! Weights and activations smaller in magnitude than [`SMALLEST_BF16`](crate::types::SMALLEST_BF16) count as zero.
//!
//! This is the result of `VDPBF16PS` (Intel, Software Developer's Manual, volume 2: two multiply-adds, the upper halves
//! first, each rounded to nearest even; Zen 5 does the same, as the tests show), except that the instruction takes
//! subnormal numbers for zero: with [`SMALLEST_BF16`](crate::types::SMALLEST_BF16) there are none. Products of two
//! bfloat16 of eight significant bits each are multiples of 2^-126, the smallest normal f32, and so are sums of such
//! products, rounded or not. Hence one definition, and the same bits, with the instruction and without.

use crate::gemm::format::traits::{CHAIN, CHAINS, FloatFormat, ReadFloats};
use crate::gemm::format::{Format, float};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::{ActFormat, PANEL_ROWS, flush_small_bf16};
use leyden_tensor::quant::bf16_to_f32;

pub(crate) const FORMAT: Format = Format { act_format: ActFormat::BF16, ..float::BF16 };

/// Reads pairs of weights one by one, for levels without an instruction that takes two.
#[derive(Clone, Copy)]
pub(crate) struct Pairs;

impl<D: IntSimd> FloatFormat<D> for Pairs {
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
        // SAFETY: the trait method's `# Safety`; there is a second k if the step is whole.
        unsafe {
            if WHOLE && D::BRAIN_PAIRS {
                let [first, second] = d.brain_float_pair(w);
                d.fma_columns(second, x.add(d.of::<C>()), y);
                d.fma_columns(first, x, y);
                return;
            }
            if WHOLE {
                d.fma_columns(self.read(d, w.add(PANEL_ROWS * 2)), x.add(d.of::<C>()), y);
            }
            d.fma_columns(self.read(d, w), x, y);
        }
    }
}

impl ReadFloats for Pairs {
    #[inline(always)]
    unsafe fn read<D: IntSimd>(self, d: D, p: *const u8) -> D::Floats {
        // SAFETY: the trait method's `# Safety`.
        unsafe { d.brain_floats::<true>(p) }
    }
}

/// [`Pairs`] of weights that were converted to floats.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
#[derive(Clone, Copy)]
pub(crate) struct FloatPairs;

impl<D: IntSimd> FloatFormat<D> for FloatPairs {
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
        // SAFETY: the trait method's `# Safety`; there is a second k if the step is whole.
        unsafe {
            if WHOLE {
                d.fma_columns(d.load_floats(w.add(PANEL_ROWS * 4)), x.add(d.of::<C>()), y);
            }
            d.fma_columns(d.load_floats(w), x, y);
        }
    }
}

pub(crate) fn scalar(panel: &[u8], k: usize, tile: &Tile<'_>, out: &mut [f32]) {
    let rows = panel.as_chunks::<2>().0;
    for r in 0..PANEL_ROWS {
        for col in 0..tile.c {
            let mut y = [0.0_f32; CHAINS];
            for i in 0..k.div_ceil(2) {
                let y = &mut y[2 * i / CHAIN % CHAINS];
                for k in (2 * i..k.min(2 * i + 2)).rev() {
                    let w = flush_small_bf16(u16::from_le_bytes(rows[k * PANEL_ROWS + r]));
                    *y = bf16_to_f32(w).mul_add(tile.values[k * tile.c + col], *y);
                }
            }
            out[col * PANEL_ROWS + r] = (y[0] + y[1]) + (y[2] + y[3]);
        }
    }
}
