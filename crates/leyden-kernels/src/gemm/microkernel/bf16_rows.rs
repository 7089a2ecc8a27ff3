//! Products of rows of bfloat16 with panels of sixteen columns, where both are activations: attention's.
//!
//! The order is that of `TDPBF16PS` (Intel's Software Developer's Manual, volume 2), which fixes it: of each 32 values the products of the
//! first, third and so on are one chain of fused multiply-adds, those of the others a second; their sum is added to what was there.
//! Magnitudes below 2^-56 are zero, so that no product or sum is subnormal, which the instruction takes for zero.

#[cfg(target_arch = "x86_64")]
use crate::gemm::microkernel::x86_64::amx_bf16;
use crate::ops::Lanes;
use crate::quant::quantize::rounded_to_bf16;
use crate::simd::VectorSimd;
use crate::simd::int::F32Simd;
use crate::simd::scalar::Scalar;
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
    /// Multiplies some rows of `depth` values with an even number of panels: the first `rows`, and perhaps others of
    /// [`BF16_ROWS_TOGETHER`], whose results mean nothing. Rows, panels and rows of results are given by
    /// where the first begins and how far the next is from it.
    ///
    /// # Safety
    /// [`begin`](Self::begin)'s guard lives; all of this is there, and the depth a multiple of [`STEP`].
    unsafe fn multiply<I: FloatRows>(
        isa: I,
        rows: usize,
        a: (*const Self::Value, usize),
        panels: (*const Self::Value, usize),
        count: usize,
        depth: usize,
        out: (*mut f32, usize),
    );
}

/// Products of bfloat16 that are kept as floats.
pub(crate) trait FloatRows: Copy {
    /// [`Bf16Product::multiply`].
    ///
    /// # Safety
    /// As there.
    unsafe fn float_rows(
        self,
        rows: usize,
        a: (*const f32, usize),
        panels: (*const f32, usize),
        count: usize,
        depth: usize,
        out: (*mut f32, usize),
    );
}

/// The definition.
impl FloatRows for Scalar {
    #[inline(always)]
    unsafe fn float_rows(
        self,
        rows: usize,
        (a, a_stride): (*const f32, usize),
        (panels, apart): (*const f32, usize),
        count: usize,
        depth: usize,
        (out, out_stride): (*mut f32, usize),
    ) {
        for (p, r) in (0..count).flat_map(|p| (0..rows).map(move |r| (p, r))) {
            let mut sums = [0.0; PANEL_ROWS];
            for step in (0..depth).step_by(STEP) {
                let mut chains = [[0.0_f32; PANEL_ROWS]; 2];
                for k in step..step + STEP {
                    // SAFETY: the panel has `depth` values of sixteen columns, and so has each row (`# Safety`).
                    let (w, x) = unsafe {
                        (&*panels.add(p * apart + k * PANEL_ROWS).cast::<Lanes>(), *a.add(r * a_stride + k))
                    };
                    for n in 0..PANEL_ROWS {
                        chains[k % 2][n] = w[n].mul_add(x, chains[k % 2][n]);
                    }
                }
                for n in 0..PANEL_ROWS {
                    sums[n] += chains[0][n] + chains[1][n];
                }
            }
            // SAFETY: the results are there.
            unsafe { *out.add(r * out_stride + p * PANEL_ROWS).cast::<Lanes>() = sums };
        }
    }
}

/// The same over vectors: of several rows and panels at once, whose chains stay in registers.
impl<S: VectorSimd> FloatRows for S {
    #[inline(always)]
    unsafe fn float_rows(
        self,
        rows: usize,
        a: (*const f32, usize),
        panels: (*const f32, usize),
        count: usize,
        depth: usize,
        out: (*mut f32, usize),
    ) {
        // SAFETY: as here (`# Safety`).
        unsafe {
            if S::WIDE_REGISTER_FILE {
                vector_rows::<_, 4, 2>(self.vectors(), rows, a, panels, count, depth, out);
            } else {
                vector_rows::<_, 2, 1>(self.vectors(), rows, a, panels, count, depth, out);
            }
        }
    }
}

/// Adds the products of the `k`-th values from some places on.
///
/// # Safety
/// They are there.
#[inline(always)]
unsafe fn add_products<D: F32Simd, const R: usize, const P: usize>(
    d: D,
    rows: &[*const f32; R],
    panels: &[*const f32; P],
    k: usize,
    sums: &mut [[D::Floats; P]; R],
) {
    // SAFETY: they are there (`# Safety`).
    unsafe {
        let mut weights = [d.load_floats(panels[0].add(k * PANEL_ROWS).cast()); P];
        for q in 1..P {
            weights[q] = d.load_floats(panels[q].add(k * PANEL_ROWS).cast());
        }
        for r in 0..R {
            let x = d.splat(rows[r].add(k));
            for q in 0..P {
                sums[r][q] = d.fma(weights[q], x, sums[r][q]);
            }
        }
    }
}

/// `R` rows and `P` panels at a time.
///
/// # Safety
/// As of [`Bf16Product::multiply`]; `R` divides [`BF16_ROWS_TOGETHER`] and `P` the number of panels.
#[inline(always)]
unsafe fn vector_rows<D: F32Simd, const R: usize, const P: usize>(
    d: D,
    rows: usize,
    (a, a_stride): (*const f32, usize),
    (panels, apart): (*const f32, usize),
    count: usize,
    depth: usize,
    (out, out_stride): (*mut f32, usize),
) {
    for p in (0..count).step_by(P) {
        for first in (0..rows).step_by(R) {
            let mut sums = [[d.zeros(); P]; R];
            // Places in memory are computed here: inside, checks of them would cost as much as the products.
            let mut rows_at = [a; R];
            let mut panels_at = [panels; P];
            // SAFETY: the panels have `depth` values of sixteen columns, and so has each row (`# Safety`).
            unsafe {
                for r in 0..R {
                    rows_at[r] = a.add((first + r) * a_stride);
                }
                for q in 0..P {
                    panels_at[q] = panels.add((p + q) * apart);
                }
            }
            for _ in 0..depth / STEP {
                // Two arrays, as one with an index would not stay in registers.
                let (mut even, mut odd) = ([[d.zeros(); P]; R], [[d.zeros(); P]; R]);
                for k in (0..STEP).step_by(2) {
                    // SAFETY: as above.
                    unsafe {
                        add_products(d, &rows_at, &panels_at, k, &mut even);
                        add_products(d, &rows_at, &panels_at, k + 1, &mut odd);
                    }
                }
                rows_at = rows_at.map(|row| row.wrapping_add(STEP));
                panels_at = panels_at.map(|panel| panel.wrapping_add(STEP * PANEL_ROWS));
                for r in 0..R {
                    for q in 0..P {
                        sums[r][q] = d.sum(sums[r][q], d.sum(even[r][q], odd[r][q]));
                    }
                }
            }
            for r in 0..R {
                for q in 0..P {
                    // SAFETY: the results are there.
                    unsafe { d.store(sums[r][q], out.add((first + r) * out_stride + (p + q) * PANEL_ROWS)) };
                }
            }
        }
    }
}

/// Values kept as floats, which every instruction set multiplies.
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
    unsafe fn multiply<I: FloatRows>(
        isa: I,
        rows: usize,
        a: (*const f32, usize),
        panels: (*const f32, usize),
        count: usize,
        depth: usize,
        out: (*mut f32, usize),
    ) {
        // SAFETY: as here (`# Safety`).
        unsafe { isa.float_rows(rows, a, panels, count, depth, out) };
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
    unsafe fn multiply<I: FloatRows>(
        _isa: I,
        _rows: usize,
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
