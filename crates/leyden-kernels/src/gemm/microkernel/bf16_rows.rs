//! Products of rows of bfloat16 with panels of sixteen columns, where both are activations: attention's.
//!
//! The order is that of `TDPBF16PS` (Intel's Software Developer's Manual, volume 2), which fixes it: of each 32 values the products of the
//! first, third and so on are one chain of fused multiply-adds, those of the others a second; their sum is added to what was there.
//! Magnitudes below 2^-56 are zero, so that no product or sum is subnormal, which the instruction takes for zero.

#[cfg(target_arch = "x86_64")]
use crate::gemm::microkernel::x86_64::amx_bf16;
use crate::ops::Lanes;
use crate::quant::quantize::rounded_to_bf16;
use crate::types::PANEL_ROWS;

/// Rows that are multiplied together.
pub(crate) const BF16_ROWS_TOGETHER: usize = 32;

/// Values of one step.
pub(crate) const STEP: usize = 32;

#[cfg(target_arch = "x86_64")]
const _: () = assert!(BF16_ROWS_TOGETHER == amx_bf16::ROWS && STEP == amx_bf16::STEP);

/// How bfloat16 are kept and multiplied.
pub(crate) trait Bf16Product {
    /// One value.
    type Value: Copy + 'static;
    /// What must live while products are made.
    type Guard;

    /// To be called before products are made.
    fn begin() -> Self::Guard;
    /// Writes sixteen values times a factor, rounded to the nearest bfloat16.
    fn round(x: &Lanes, by: f32, to: &mut [Self::Value; PANEL_ROWS]);
    /// Writes sixteen values that are bfloat16.
    fn keep(x: &Lanes, to: &mut [Self::Value; PANEL_ROWS]);
    /// Nothing.
    const ZERO: Self::Value;
    /// Makes sixteen rows of `depth` values the columns of a panel.
    fn turn(rows: &[Self::Value], depth: usize, panel: &mut [Self::Value]);
    /// Two rows of sixteen values, rounded, as those `2 t` and `2 t + 1` of the columns of a panel: the 32 values from `32 t` on.
    fn pair(rows: [&Lanes; 2], panel: &mut [Self::Value]);
    /// Multiplies [`BF16_ROWS_TOGETHER`] rows of `depth` values with an even number of panels. Rows, panels and rows of results are given by
    /// where the first begins and how far the next is from it.
    ///
    /// # Safety
    /// [`begin`](Self::begin)'s guard lives; all of this is there, and the depth a multiple of [`STEP`].
    unsafe fn multiply(
        a: (*const Self::Value, usize),
        panels: (*const Self::Value, usize),
        count: usize,
        depth: usize,
        out: (*mut f32, usize),
    );
}

/// The definition, of values kept as floats, which every instruction set compiles.
pub(crate) struct Plain;

impl Bf16Product for Plain {
    type Value = f32;
    type Guard = ();

    #[inline(always)]
    fn begin() {}

    const ZERO: f32 = 0.0;

    #[inline(always)]
    fn round(x: &Lanes, by: f32, to: &mut Lanes) {
        for i in 0..PANEL_ROWS {
            to[i] = f32::from_bits(rounded_to_bf16(x[i] * by));
        }
    }

    #[inline(always)]
    fn keep(x: &Lanes, to: &mut Lanes) {
        *to = *x;
    }

    #[inline(always)]
    fn turn(rows: &[f32], depth: usize, panel: &mut [f32]) {
        for (n, row) in rows.chunks_exact(depth).enumerate() {
            for (x, to) in row.iter().zip(panel[n..].iter_mut().step_by(PANEL_ROWS)) {
                *to = *x;
            }
        }
    }

    #[inline(always)]
    fn pair(rows: [&Lanes; 2], panel: &mut [f32]) {
        for (row, to) in rows.into_iter().zip(panel.as_chunks_mut::<PANEL_ROWS>().0) {
            Plain::round(row, 1.0, to);
        }
    }

    #[inline(always)]
    unsafe fn multiply(
        (a, a_stride): (*const f32, usize),
        (panels, apart): (*const f32, usize),
        count: usize,
        depth: usize,
        (out, out_stride): (*mut f32, usize),
    ) {
        /// Rows whose chains stay in registers.
        const R: usize = 4;
        for p in 0..count {
            for first in (0..BF16_ROWS_TOGETHER).step_by(R) {
                let mut sums = [[0.0; PANEL_ROWS]; R];
                for step in (0..depth).step_by(STEP) {
                    let mut chains = [[[0.0_f32; PANEL_ROWS]; 2]; R];
                    for k in (step..step + STEP).step_by(2) {
                        // SAFETY: the panel has `depth` values of sixteen columns (`# Safety`).
                        let w = unsafe { &*panels.add(p * apart + k * PANEL_ROWS).cast::<[Lanes; 2]>() };
                        for r in 0..R {
                            // SAFETY: so has each row.
                            let x = unsafe { &*a.add((first + r) * a_stride + k).cast::<[f32; 2]>() };
                            for half in 0..2 {
                                for n in 0..PANEL_ROWS {
                                    chains[r][half][n] = w[half][n].mul_add(x[half], chains[r][half][n]);
                                }
                            }
                        }
                    }
                    for r in 0..R {
                        for n in 0..PANEL_ROWS {
                            sums[r][n] += chains[r][0][n] + chains[r][1][n];
                        }
                    }
                }
                for r in 0..R {
                    // SAFETY: the results are there.
                    unsafe { *out.add((first + r) * out_stride + p * PANEL_ROWS).cast::<Lanes>() = sums[r] };
                }
            }
        }
    }
}

/// AMX: of levels that have it, compiled with AVX-512.
pub(crate) struct Amx;

impl Bf16Product for Amx {
    type Value = u16;
    #[cfg(target_arch = "x86_64")]
    type Guard = amx_bf16::Guard;
    #[cfg(not(target_arch = "x86_64"))]
    type Guard = ();

    #[inline(always)]
    fn begin() -> Self::Guard {
        #[cfg(target_arch = "x86_64")]
        return amx_bf16::begin();
    }

    const ZERO: u16 = 0;

    #[inline(always)]
    fn round(x: &Lanes, by: f32, to: &mut [u16; PANEL_ROWS]) {
        #[cfg(target_arch = "x86_64")]
        amx_bf16::round(x, by, to);
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (x, by, to);
    }

    #[inline(always)]
    fn keep(x: &Lanes, to: &mut [u16; PANEL_ROWS]) {
        #[cfg(target_arch = "x86_64")]
        amx_bf16::keep(x, to);
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (x, to);
    }

    #[inline(always)]
    fn turn(rows: &[u16], depth: usize, panel: &mut [u16]) {
        #[cfg(target_arch = "x86_64")]
        amx_bf16::turn(rows, depth, panel);
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (rows, depth, panel);
    }

    #[inline(always)]
    fn pair([low, high]: [&Lanes; 2], panel: &mut [u16]) {
        #[cfg(target_arch = "x86_64")]
        amx_bf16::pair([low, high], panel);
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (low, high, panel);
    }

    #[inline(always)]
    unsafe fn multiply(
        a: (*const u16, usize),
        panels: (*const u16, usize),
        count: usize,
        depth: usize,
        out: (*mut f32, usize),
    ) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as here (`# Safety`).
        unsafe {
            amx_bf16::multiply(a, panels, count, depth, out);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (a, panels, count, depth, out);
    }
}
