//! Layer normalisation (Ba, Kiros and Hinton, 2016).

use super::join;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;

/// Returns the sum of a row's values.
#[inline(always)]
pub(super) fn sum_of(x: &[f32]) -> f32 {
    let (chunks, rest) = x.as_chunks::<16>();
    let mut sum = [0.0_f32; 16];
    for c in chunks {
        for i in 0..16 {
            sum[i] += c[i];
        }
    }
    for (s, v) in sum.iter_mut().zip(rest) {
        *s += v;
    }
    join(&sum, |a, b| a + b)
}

/// Returns the sum of the squares of a row's differences from its mean.
#[inline(always)]
pub(super) fn squares_of(x: &[f32], mean: f32) -> f32 {
    let (chunks, rest) = x.as_chunks::<16>();
    let mut sum = [0.0_f32; 16];
    for c in chunks {
        for i in 0..16 {
            let d = c[i] - mean;
            sum[i] = d.mul_add(d, sum[i]);
        }
    }
    for (s, v) in sum.iter_mut().zip(rest) {
        let d = v - mean;
        *s = d.mul_add(d, *s);
    }
    join(&sum, |a, b| a + b)
}

/// Returns a row's mean, and the factor of the differences from it. The variance is computed from these differences in
/// a second pass: from sums of squares it would lose precision where the mean is large.
#[inline(always)]
fn mean_and_scale(x: &[f32], eps: f32) -> (f32, f32) {
    let n = x.len() as f32;
    let mean = sum_of(x) / n;
    let variance = squares_of(x, mean) / n;
    (mean, 1.0 / (variance + eps).sqrt())
}

#[inline(always)]
fn layer_norm_impl<I: Simd>(_isa: I, x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) {
    let n = weight.len();
    assert!(n > 0 && bias.len() == n, "as many biases as weights");
    assert!(x.len() == out.len() && x.len().is_multiple_of(n), "rows of {n} in {}", x.len());
    for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        let (mean, scale) = mean_and_scale(x, eps);
        for ((o, v), (w, b)) in out.iter_mut().zip(x).zip(weight.iter().zip(bias)) {
            *o = ((v - mean) * scale).mul_add(*w, *b);
        }
    }
}

#[inline(always)]
fn in_place_impl<I: Simd>(_isa: I, x: &mut [f32], weight: &[f32], bias: &[f32], eps: f32) {
    let n = weight.len();
    assert!(n > 0 && bias.len() == n, "as many biases as weights");
    assert!(x.len().is_multiple_of(n), "rows of {n} in {}", x.len());
    for x in x.chunks_exact_mut(n) {
        let (mean, scale) = mean_and_scale(x, eps);
        for (v, (w, b)) in x.iter_mut().zip(weight.iter().zip(bias)) {
            *v = ((*v - mean) * scale).mul_add(*w, *b);
        }
    }
}

dispatch! {
    /// Normalises each row of `weight.len()` values to `(x - mean(x)) / sqrt(variance(x) + eps) * weight + bias`.
    ///
    /// # Panics
    /// If weights and biases differ in number, or `x` and `out` differ in length or are not whole rows.
    pub fn layer_norm => layer_norm_impl(x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32])
}

dispatch! {
    /// Computes [`layer_norm`] in place.
    ///
    /// # Panics
    /// If weights and biases differ in number, or `x` is not whole rows.
    pub fn layer_norm_in_place => in_place_impl(x: &mut [f32], weight: &[f32], bias: &[f32], eps: f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;

    #[test]
    fn rows_are_normalised_the_same_on_every_tier() {
        for n in [2, 7, 16, 100, 257] {
            // A mean far from zero, with which little precision of the variance may get lost.
            let x: Vec<f32> = (0..3 * n).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.1 + 100.0).collect();
            let w: Vec<f32> = (0..n).map(|i| 1.0 + i as f32 * 0.01).collect();
            let b: Vec<f32> = (0..n).map(|i| i as f32 * 0.1 - 3.0).collect();
            let mut want = vec![0.0; 3 * n];
            layer_norm(Tier::SCALAR, &x, &w, &b, 1e-5, &mut want);
            for (row, y) in x.chunks(n).zip(want.chunks(n)) {
                let mean = row.iter().map(|v| f64::from(*v)).sum::<f64>() / n as f64;
                let variance = row.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n as f64;
                for i in 0..n {
                    let exact = (f64::from(row[i]) - mean) / (variance + 1e-5).sqrt() * f64::from(w[i]);
                    let exact = exact + f64::from(b[i]);
                    // The mean is accurate to a few units in its last place, 8e-6 each.
                    assert!(
                        (f64::from(y[i]) - exact).abs() < 3e-5 * (1.0 + exact.abs()),
                        "{n}: {} {exact}",
                        y[i]
                    );
                }
            }
            for tier in Tier::available() {
                let mut got = vec![0.0; 3 * n];
                layer_norm(tier, &x, &w, &b, 1e-5, &mut got);
                assert_eq!(got, want);
                got.copy_from_slice(&x);
                layer_norm_in_place(tier, &mut got, &w, &b, 1e-5);
                assert_eq!(got, want);
            }
        }
    }
}
