//! Products of a vector with the rows of an unpacked matrix, and weighted sums of such rows: for attention whose scores
//! have additional terms.

use super::join;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;

#[inline(always)]
fn dot(x: &[f32], y: &[f32]) -> f32 {
    let (x, x_rest) = x.as_chunks::<16>();
    let (y, y_rest) = y.as_chunks::<16>();
    let mut sum = [0.0_f32; 16];
    for (x, y) in x.iter().zip(y) {
        for i in 0..16 {
            sum[i] = x[i].mul_add(y[i], sum[i]);
        }
    }
    for (sum, (x, y)) in sum.iter_mut().zip(x_rest.iter().zip(y_rest)) {
        *sum = x.mul_add(*y, *sum);
    }
    join(&sum, |a, b| a + b)
}

#[inline(always)]
fn dot_rows_impl<I: Simd>(_isa: I, x: &[f32], rows: &[f32], stride: usize, out: &mut [f32]) {
    assert!(stride >= x.len() && !x.is_empty(), "rows of {stride} for {}", x.len());
    for (row, out) in rows.chunks(stride).zip(out) {
        *out = dot(x, &row[..x.len()]);
    }
}

#[inline(always)]
fn sum_rows_impl<I: Simd>(_isa: I, weights: &[f32], rows: &[f32], stride: usize, out: &mut [f32]) {
    assert!(stride >= out.len() && !out.is_empty(), "rows of {stride} for {}", out.len());
    out.fill(0.0);
    let n = out.len();
    for (row, weight) in rows.chunks(stride).zip(weights) {
        for (out, x) in out.iter_mut().zip(&row[..n]) {
            *out = weight.mul_add(*x, *out);
        }
    }
}

dispatch! {
    /// Computes the dot product of `x` with the beginning of each row: `out[i] = x * rows[i]`. Rows begin every
    /// `stride` values; there may be more rows than elements of `out`.
    ///
    /// # Panics
    /// If `x` is empty or longer than a row, or a row is not whole.
    pub fn dot_rows => dot_rows_impl(x: &[f32], rows: &[f32], stride: usize, out: &mut [f32])
}

dispatch! {
    /// Computes the sum of the beginnings of rows, each multiplied by its weight, from the first to the last.
    ///
    /// # Panics
    /// If `out` is empty or longer than a row, or a row is not whole.
    pub fn sum_rows => sum_rows_impl(weights: &[f32], rows: &[f32], stride: usize, out: &mut [f32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tier;

    #[test]
    fn rows_are_multiplied_and_summed_alike_on_all_tiers() {
        let value = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 17.0;
        for (n, stride, count) in [(1, 1, 1), (16, 16, 3), (24, 40, 5), (67, 70, 9)] {
            let x: Vec<f32> = (0..n).map(value).collect();
            let rows: Vec<f32> = (0..(count - 1) * stride + n).map(|i| value(i + 3)).collect();
            let weights: Vec<f32> = (0..count).map(|i| value(i + 7)).collect();
            let run = |tier: Tier| {
                let (mut dots, mut sum) = (vec![0.0; count], vec![0.0; n]);
                dot_rows(tier, &x, &rows, stride, &mut dots);
                sum_rows(tier, &weights, &rows, stride, &mut sum);
                (dots, sum)
            };
            let want = run(Tier::SCALAR);
            for i in 0..count {
                let plain: f64 = (0..n).map(|k| f64::from(x[k]) * f64::from(rows[i * stride + k])).sum();
                assert!((plain - f64::from(want.0[i])).abs() < 1e-3, "{plain} {}", want.0[i]);
            }
            for k in 0..n {
                let plain: f64 =
                    (0..count).map(|i| f64::from(weights[i]) * f64::from(rows[i * stride + k])).sum();
                assert!((plain - f64::from(want.1[k])).abs() < 1e-3);
            }
            Tier::available().into_iter().for_each(|tier| assert!(run(tier) == want));
        }
    }
}
