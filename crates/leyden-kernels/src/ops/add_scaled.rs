//! A multiple of one row added to another (BLAS calls it axpy).

use crate::simd::Simd;
use crate::simd::dispatch::dispatch;

#[inline(always)]
fn add_scaled_impl<I: Simd>(_isa: I, factor: f32, x: &[f32], out: &mut [f32]) {
    for (o, x) in out.iter_mut().zip(x) {
        *o = x.mul_add(factor, *o);
    }
}

dispatch! {
    /// Computes `out += factor * x`, element by element, with one rounding each.
    pub fn add_scaled => add_scaled_impl(factor: f32, x: &[f32], out: &mut [f32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;

    #[test]
    fn rounds_once_on_every_tier() {
        let x: Vec<f32> = (0..37_u8).map(|i| 1.0 + f32::from(i) * f32::EPSILON).collect();
        let want: Vec<f32> = x.iter().map(|x| x.mul_add(-0.3, *x)).collect();
        for tier in Tier::available() {
            let mut out = x.clone();
            add_scaled(tier, -0.3, &x, &mut out);
            assert_eq!(out, want, "{}", tier.level());
        }
    }
}
