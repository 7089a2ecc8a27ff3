//! Upper triangular factor of the inverse of a Gram matrix.
//!
//! SparseGPT needs U with H^-1 = U^T U. With the order of inputs reversed, H = L L^T by Cholesky; read back in the
//! original order, the inverse of L is U. So neither H^-1 nor a second factorisation is computed.

use leyden_kernels::Cpu;

/// Columns that are factored at a time.
const PANEL: usize = 64;
/// Rows of the inverse that are computed together, so that their loops are vectorised.
const TOGETHER: usize = 8;

/// Upper triangular matrix `[k, k]` in rows; values below the diagonal are zero.
#[derive(Debug)]
pub(crate) struct Upper {
    pub(crate) k: usize,
    pub(crate) values: Vec<f32>,
}

impl Upper {
    /// Returns row `i`, whose first `i` values are zero.
    pub(crate) fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.k..][..self.k]
    }

    /// Factors the inverse of a symmetric positive matrix `[k, k]`, given with rows and columns in reverse order. Returns
    /// `None` if it is not positive.
    pub(crate) fn of_inverse(mut lower: Vec<f64>, k: usize, cpu: &Cpu) -> Option<Upper> {
        cholesky(&mut lower, k, cpu)?;
        let mut values = vec![0.0; k * k];
        cpu.for_blocks(&mut values, k.max(1), TOGETHER, |first, rows| inverse_rows(&lower, k, first, rows));
        Some(Upper { k, values })
    }
}

/// Replaces the lower triangle of `a` `[k, k]` by its Cholesky factor. Returns `None` if a pivot is not positive.
fn cholesky(a: &mut [f64], k: usize, cpu: &Cpu) -> Option<()> {
    for first in (0..k).step_by(PANEL) {
        let end = (first + PANEL).min(k);
        for i in first..end {
            for j in first..=i {
                let dot: f64 = (first..j).map(|m| a[i * k + m] * a[j * k + m]).sum();
                let rest = a[i * k + j] - dot;
                if i > j {
                    a[i * k + j] = rest / a[j * k + j];
                } else if rest > 0.0 && rest.is_finite() {
                    a[i * k + i] = rest.sqrt();
                } else {
                    return None;
                }
            }
        }
        let (done, below) = a.split_at_mut(end * k);
        let corner = &done[first * k..];
        cpu.for_blocks(below, k, PANEL, |_, rows| {
            for row in rows.chunks_exact_mut(k) {
                for j in first..end {
                    let of = &corner[(j - first) * k..][..k];
                    let dot: f64 = (first..j).map(|m| row[m] * of[m]).sum();
                    row[j] = (row[j] - dot) / of[j];
                }
            }
        });
        // A copy, since every row of the rest needs those of others while its own tail changes.
        let width = end - first;
        let panel: Vec<f64> = below.chunks_exact(k).flat_map(|row| row[first..end].iter().copied()).collect();
        cpu.for_blocks(below, k, PANEL, |first, rows| {
            for (i, row) in rows.chunks_exact_mut(k).enumerate() {
                let i = first + i;
                let own = &panel[i * width..][..width];
                for (to, other) in row[end..=end + i].iter_mut().zip(panel.chunks_exact(width)) {
                    *to -= dot(own, other);
                }
            }
        });
    }
    Some(())
}

/// Computes rows of U from row `first` on, from the Cholesky factor `lower` in reverse order.
///
/// Row `a` of U, read backwards, is row `k - 1 - a` of the inverse of `lower`: the solution y of y L = e.
fn inverse_rows(lower: &[f64], k: usize, first: usize, rows: &mut [f32]) {
    let last = k - 1 - first;
    let mut y = vec![[0.0_f64; TOGETHER]; last + 1];
    for t in 0..rows.len() / k {
        y[last - t][t] = 1.0;
    }
    for m in (0..=last).rev() {
        let (before, own) = y.split_at_mut(m);
        let pivot = own[0].map(|value| value / lower[m * k + m]);
        own[0] = pivot;
        for (y, l) in before.iter_mut().zip(&lower[m * k..][..m]) {
            for (y, pivot) in y.iter_mut().zip(&pivot) {
                *y -= l * pivot;
            }
        }
    }
    for (t, out) in rows.chunks_exact_mut(k).enumerate() {
        let zeros = k - 1 - last;
        out[zeros..].iter_mut().zip(y.iter().rev()).for_each(|(out, y)| *out = y[t] as f32);
    }
}

/// Computes a dot product with four sums.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (whole, rest) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    for (a, b) in whole.0.iter().zip(rest.0) {
        for i in 0..4 {
            sums[i] += a[i] * b[i];
        }
    }
    let tail: f64 = whole.1.iter().zip(rest.1).map(|(a, b)| a * b).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + tail
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_kernels::Tier;

    fn cpu(threads: usize) -> Cpu {
        Cpu::new(Tier::best(), threads).unwrap()
    }

    /// Returns a symmetric positive matrix whose inputs are correlated.
    fn positive(k: usize) -> Vec<f64> {
        let x: Vec<f64> = (0..2 * k * k).map(|i| ((i * 7919 % 1013) as f64 - 506.0) * 1e-3).collect();
        let at = |i: usize, j: usize| -> f64 { (0..2 * k).map(|n| x[n * k + i] * x[n * k + j]).sum() };
        (0..k * k).map(|e| at(e / k, e % k) + if e / k == e % k { 0.1 } else { 0.0 }).collect()
    }

    /// U^T U times H is the identity.
    #[test]
    fn factor_is_of_the_inverse() {
        for k in [1, 7, 64, 65, 150] {
            let h = positive(k);
            let reversed: Vec<f64> = h.iter().rev().copied().collect();
            let upper = Upper::of_inverse(reversed.clone(), k, &cpu(1)).unwrap();
            let inverse = |i: usize, j: usize| -> f64 {
                (0..=i.min(j)).map(|m| f64::from(upper.row(m)[i]) * f64::from(upper.row(m)[j])).sum()
            };
            for i in 0..k {
                assert!(upper.row(i)[..i].iter().all(|value| *value == 0.0));
                for j in 0..k {
                    let one: f64 = (0..k).map(|m| inverse(i, m) * h[m * k + j]).sum();
                    let wanted = if i == j { 1.0 } else { 0.0 };
                    assert!((one - wanted).abs() < 1e-3, "{k}: {i} {j}: {one}");
                }
            }
            assert_eq!(
                upper.values,
                Upper::of_inverse(reversed, k, &cpu(3)).unwrap().values,
                "threads change nothing"
            );
        }
    }

    #[test]
    fn matrices_that_are_not_positive_have_no_factor() {
        assert!(Upper::of_inverse(vec![1.0, 2.0, 2.0, 1.0], 2, &cpu(1)).is_none());
        assert!(Upper::of_inverse(vec![f64::NAN], 1, &cpu(1)).is_none());
        assert!(Upper::of_inverse(vec![0.0], 1, &cpu(1)).is_none());
    }
}
