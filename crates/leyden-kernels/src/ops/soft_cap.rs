//! Soft caps of scores and logits, as in Gemma 2.

use super::{Lanes, exp16};
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;

/// Computes `cap * tanh(x / cap)` by `tanh(a) = 1 - 2 / (e^2a + 1)`: within a few units in the last place of `cap`.
#[inline(always)]
pub(crate) fn soft_cap16(x: &Lanes, cap: f32) -> Lanes {
    let e = exp16(&std::array::from_fn(|i| 2.0 * (x[i] / cap)));
    std::array::from_fn(|i| cap * (1.0 - 2.0 / (e[i] + 1.0)))
}

#[inline(always)]
fn soft_cap_impl<I: Simd>(_isa: I, x: &mut [f32], cap: f32) {
    let (chunks, rest) = x.as_chunks_mut::<16>();
    for c in chunks {
        *c = soft_cap16(c, cap);
    }
    let mut last = [0.0; 16];
    last[..rest.len()].copy_from_slice(rest);
    rest.copy_from_slice(&soft_cap16(&last, cap)[..rest.len()]);
}

dispatch! {
    /// Replaces each element by `cap * tanh(x / cap)`.
    pub fn soft_cap => soft_cap_impl(x: &mut [f32], cap: f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;

    #[test]
    fn close_to_the_definition_and_the_same_on_every_tier() {
        let x: Vec<f32> = (0..2003).map(|i| (i as f32 - 1001.0) * 0.25).collect();
        let mut want = x.clone();
        soft_cap(Tier::SCALAR, &mut want, 50.0);
        for (x, y) in x.iter().zip(&want) {
            let exact = 50.0 * (f64::from(*x) / 50.0).tanh();
            assert!((f64::from(*y) - exact).abs() <= 50.0 * 2e-7, "{x}: {y} {exact}");
        }
        for tier in Tier::available() {
            let mut got = x.clone();
            soft_cap(tier, &mut got, 50.0);
            assert_eq!(got, want, "{}", tier.level());
        }
    }
}
