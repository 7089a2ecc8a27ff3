//! Root-mean-square normalisation (Zhang and Sennrich, 2019).

use super::join;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;

/// Returns the factor of a row's values, before the weights.
#[inline(always)]
fn scale_of(x: &[f32], eps: f32) -> f32 {
    let (chunks, rest) = x.as_chunks::<16>();
    let mut sum = [0.0_f32; 16];
    for c in chunks {
        for i in 0..16 {
            sum[i] = c[i].mul_add(c[i], sum[i]);
        }
    }
    for (s, v) in sum.iter_mut().zip(rest) {
        *s = v.mul_add(*v, *s);
    }
    let mean = join(&sum, |a, b| a + b) / x.len() as f32;
    1.0 / (mean + eps).sqrt()
}

#[inline(always)]
fn rms_norm_impl<I: Simd>(_isa: I, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let n = weight.len();
    assert!(n > 0 && x.len() == out.len() && x.len().is_multiple_of(n), "rows of {n} in {}", x.len());
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        let scale = scale_of(x, eps);
        for ((o, v), w) in out.iter_mut().zip(x).zip(weight) {
            *o = v * scale * w;
        }
    }
}

#[inline(always)]
fn in_place_impl<I: Simd>(_isa: I, x: &mut [f32], weight: &[f32], eps: f32) {
    let n = weight.len();
    assert!(n > 0 && x.len().is_multiple_of(n), "rows of {n} in {}", x.len());
    for x in x.chunks_exact_mut(n) {
        let scale = scale_of(x, eps);
        for (v, w) in x.iter_mut().zip(weight) {
            *v = *v * scale * w;
        }
    }
}

#[inline(always)]
fn add_impl<I: Simd>(_isa: I, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let n = weight.len();
    assert!(n > 0 && x.len() == out.len() && x.len().is_multiple_of(n), "rows of {n} in {}", x.len());
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        let scale = scale_of(x, eps);
        for ((o, v), w) in out.iter_mut().zip(x).zip(weight) {
            *o += v * scale * w;
        }
    }
}

dispatch! {
    /// Adds the [`rms_norm`] of rows to `out` (a residual connection after the norm).
    ///
    /// # Panics
    /// If `x` and `out` differ in length or are not whole rows.
    pub fn rms_norm_add => add_impl(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32])
}

dispatch! {
    /// Computes [`rms_norm`] in place.
    ///
    /// # Panics
    /// If `x` is not whole rows.
    pub fn rms_norm_in_place => in_place_impl(x: &mut [f32], weight: &[f32], eps: f32)
}

dispatch! {
    /// Normalises each row of `weight.len()` values to `x / sqrt(mean(x^2) + eps) * weight`.
    ///
    /// # Panics
    /// If `x` and `out` differ in length or are not whole rows.
    pub fn rms_norm => rms_norm_impl(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;

    #[test]
    fn rows_are_normalised_the_same_on_every_tier() {
        for n in [1, 7, 16, 100, 257] {
            let x: Vec<f32> = (0..3 * n).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.1).collect();
            let w: Vec<f32> = (0..n).map(|i| 1.0 + i as f32 * 0.01).collect();
            let mut want = vec![0.0; 3 * n];
            rms_norm(Tier::SCALAR, &x, &w, 1e-5, &mut want);
            for (row, y) in x.chunks(n).zip(want.chunks(n)) {
                let mean = row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / n as f64;
                for i in 0..n {
                    let exact = f64::from(row[i]) / (mean + 1e-5).sqrt() * f64::from(w[i]);
                    assert!((f64::from(y[i]) - exact).abs() < 1e-5 * (1.0 + exact.abs()));
                }
            }
            for tier in Tier::available() {
                let mut got = vec![0.0; 3 * n];
                rms_norm(tier, &x, &w, 1e-5, &mut got);
                assert_eq!(got, want);
                got.copy_from_slice(&x);
                rms_norm_in_place(tier, &mut got, &w, 1e-5);
                assert_eq!(got, want);
                got.copy_from_slice(&x);
                rms_norm_add(tier, &x, &w, 1e-5, &mut got);
                assert!(got.iter().zip(x.iter().zip(&want)).all(|(got, (x, y))| *got == x + y));
            }
        }
    }
}
