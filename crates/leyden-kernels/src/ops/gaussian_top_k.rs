//! Statistical top-k: the largest values of a row by its mean and standard deviation (Gemma 3n).

use super::layer_norm::{squares_of, sum_of};
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;

#[inline(always)]
fn gaussian_top_k_impl<I: Simd>(_isa: I, x: &mut [f32], deviations: f32) {
    let n = x.len() as f32;
    let mean = sum_of(x) / n;
    let cutoff = (squares_of(x, mean) / n).sqrt().mul_add(deviations, mean);
    for x in x {
        let over = *x - cutoff;
        *x = if over < 0.0 { 0.0 } else { over };
    }
}

dispatch! {
    /// Subtracts `mean + deviations * standard deviation` of the row from each value and replaces negative results by
    /// zero. NaN stays NaN.
    pub fn gaussian_top_k => gaussian_top_k_impl(x: &mut [f32], deviations: f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;

    #[test]
    fn values_over_the_cutoff_are_left_on_every_tier() {
        for n in [1, 16, 37, 500] {
            let x: Vec<f32> = (0..n).map(|i| ((i * 37 % 101) as f32 - 40.0) * 0.1).collect();
            let mut want = x.clone();
            gaussian_top_k(Tier::SCALAR, &mut want, 1.25);
            let mean = x.iter().map(|v| f64::from(*v)).sum::<f64>() / n as f64;
            let variance = x.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n as f64;
            for (x, y) in x.iter().zip(&want) {
                let exact = (f64::from(*x) - mean - 1.25 * variance.sqrt()).max(0.0);
                assert!((f64::from(*y) - exact).abs() < 1e-5, "{y} {exact}");
            }
            for tier in Tier::available() {
                let mut got = x.clone();
                gaussian_top_k(tier, &mut got, 1.25);
                assert_eq!(got, want, "{}", tier.level());
            }
        }
        let mut unsure = [f32::NAN, 1.0];
        gaussian_top_k(Tier::best(), &mut unsure, 1.0);
        assert!(unsure.iter().all(|x| x.is_nan()));
    }
}
