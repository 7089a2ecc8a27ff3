//! Exponential, sigmoid, softmax, and sums of exponentials.

use super::{Lanes, join};
use crate::cpu::isa::Tier;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;
use crate::simd::int::F32Simd;

/// Lower and upper bound of arguments: below, the result would be subnormal; above, infinite.
const LOW: f32 = -87.0;
const HIGH: f32 = 88.0;
/// Two parts of ln 2, the first with enough trailing zeros that its multiples by |n| <= 128 are exact.
const LN2_HIGH: f32 = 355.0 / 512.0;
const LN2_LOW: f32 = -2.121_944_4e-4;
/// Constant whose addition leaves an integer, rounded to nearest even, in the low mantissa bits.
const ROUND: f32 = 12_582_912.0;
/// Coefficients 1/7!, …, 1/2!: on |r| <= ln(2)/2 the series ends below one unit in the last place.
const SERIES: [f32; 6] = [1.984_127e-4, 1.388_888_9e-3, 8.333_334e-3, 4.166_666_8e-2, 0.166_666_67, 0.5];

/// Computes `e^x` within 2 units in the last place, clamped to `[e^-87, e^88]`; NaN stays NaN.
#[inline(always)]
pub(crate) fn exp16(x: &Lanes) -> Lanes {
    let mut y = [0.0; 16];
    for i in 0..16 {
        let x = if x[i] < LOW { LOW } else { x[i] };
        let x = if x > HIGH { HIGH } else { x };
        let n = x.mul_add(std::f32::consts::LOG2_E, ROUND);
        let bits = n.to_bits();
        let n = n - ROUND;
        let r = (-n).mul_add(LN2_HIGH, x);
        let r = (-n).mul_add(LN2_LOW, r);
        let mut p = SERIES[0];
        for c in &SERIES[1..] {
            p = p.mul_add(r, *c);
        }
        let p = (p * r).mul_add(r, r) + 1.0;
        // The integer in the low bits is added to the exponent.
        y[i] = f32::from_bits(p.to_bits().wrapping_add(bits << 23));
    }
    y
}

/// Computes [`exp16`] of `N` vectors whose values are at most zero, in interleaved steps, so that none waits for its
/// own previous step.
#[inline(always)]
pub(crate) fn exp_side_by_side<D: F32Simd, const N: usize>(d: D, x: [D::Floats; N]) -> [D::Floats; N] {
    macro_rules! splat {
        ($x:expr) => {
            // SAFETY: one readable float.
            unsafe { d.splat(&raw const *const { &$x }) }
        };
    }
    let (low, ln2) = (splat!(LOW), [splat!(LN2_HIGH), splat!(LN2_LOW)]);
    let (log2_e, round, less_round) = (splat!(std::f32::consts::LOG2_E), splat!(ROUND), splat!(-ROUND));
    // Loops, because closures over vectors may not be compiled for the instruction set.
    let (mut r, mut bits, mut n) = (x, x, x);
    for i in 0..N {
        r[i] = d.max(x[i], low);
    }
    for i in 0..N {
        bits[i] = d.fma(r[i], log2_e, round);
    }
    for i in 0..N {
        n[i] = d.sum(bits[i], less_round);
    }
    for part in ln2 {
        for i in 0..N {
            r[i] = d.fnma(n[i], part, r[i]);
        }
    }
    let mut p = [splat!(SERIES[0]); N];
    for c in &SERIES[1..] {
        // SAFETY: one readable float.
        let c = unsafe { d.splat(c) };
        for i in 0..N {
            p[i] = d.fma(p[i], r[i], c);
        }
    }
    let one = splat!(1.0);
    for i in 0..N {
        p[i] = d.mul(p[i], r[i]);
    }
    for i in 0..N {
        p[i] = d.sum(d.fma(p[i], r[i], r[i]), one);
    }
    for i in 0..N {
        p[i] = d.add_exponent(p[i], bits[i]);
    }
    p
}

#[inline(always)]
fn exp_slice<I: Simd>(_isa: I, x: &mut [f32]) {
    let (chunks, rest) = x.as_chunks_mut::<16>();
    for c in chunks {
        *c = exp16(c);
    }
    let mut last = [0.0; 16];
    last[..rest.len()].copy_from_slice(rest);
    rest.copy_from_slice(&exp16(&last)[..rest.len()]);
}

dispatch! {
    /// Replaces each element by its exponential: within 2 units in the last place, clamped to `[e^-87, e^88]`.
    pub fn exp => exp_slice(x: &mut [f32])
}

#[inline(always)]
fn sigmoid_slice<I: Simd>(_isa: I, x: &mut [f32]) {
    let of = |c: &Lanes| {
        let e = exp16(&std::array::from_fn(|i| -c[i]));
        std::array::from_fn(|i| 1.0 / (1.0 + e[i]))
    };
    let (chunks, rest) = x.as_chunks_mut::<16>();
    for c in chunks {
        *c = of(c);
    }
    let mut last = [0.0; 16];
    last[..rest.len()].copy_from_slice(rest);
    rest.copy_from_slice(&of(&last)[..rest.len()]);
}

dispatch! {
    /// Replaces each element by its sigmoid, `1 / (1 + e^-x)`.
    pub fn sigmoid => sigmoid_slice(x: &mut [f32])
}

/// Replaces each element by its exponential divided by the sum of all exponentials.
pub fn softmax(tier: Tier, x: &mut [f32]) {
    let (most, sum) = log_sum_exp(tier, x);
    x.iter_mut().for_each(|x| *x -= most);
    exp(tier, x);
    x.iter_mut().for_each(|x| *x /= sum);
}

#[inline(always)]
fn log_sum_exp_impl<I: Simd>(_isa: I, x: &[f32]) -> (f32, f32) {
    let (chunks, rest) = x.as_chunks::<16>();
    let mut last = [f32::NEG_INFINITY; 16];
    last[..rest.len()].copy_from_slice(rest);
    let mut max = last;
    for c in chunks {
        for i in 0..16 {
            max[i] = if c[i] > max[i] { c[i] } else { max[i] };
        }
    }
    let max = join(&max, |a, b| if b > a { b } else { a });
    let mut sum = [0.0_f32; 16];
    for c in chunks {
        let e = exp16(&std::array::from_fn(|i| c[i] - max));
        for i in 0..16 {
            sum[i] += e[i];
        }
    }
    let e = exp16(&std::array::from_fn(|i| last[i] - max));
    for i in 0..rest.len() {
        sum[i] += e[i];
    }
    (max, join(&sum, |a, b| a + b))
}

dispatch! {
    /// Returns the maximum of `x` and the sum of `e^(x - max)`; `max + ln(sum)` normalises logits. An empty slice gives
    /// minus infinity and zero.
    pub fn log_sum_exp => log_sum_exp_impl(x: &[f32]) -> (f32, f32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;

    #[test]
    fn exp_is_close_everywhere_and_the_same_on_every_tier() {
        let xs: Vec<f32> = (0..350_000).map(|i| -87.0 + i as f32 * 0.0005).collect();
        let mut want = xs.clone();
        exp(Tier::SCALAR, &mut want);
        for (x, y) in xs.iter().zip(&want) {
            let exact = f64::from(*x).exp();
            let ulp = f64::from(f32::from_bits(y.to_bits() + 1) - y);
            assert!((f64::from(*y) - exact).abs() <= 2.0 * ulp, "exp({x}) = {y}, want {exact}");
        }
        for tier in Tier::available() {
            let mut got = xs.clone();
            exp(tier, &mut got);
            assert!(got.iter().zip(&want).all(|(a, b)| a.to_bits() == b.to_bits()), "{tier:?}");
        }
    }

    #[test]
    fn sigmoid_is_close_and_the_same_on_every_tier() {
        let xs: Vec<f32> = (0..1001).map(|i| i as f32 * 0.1 - 50.0).collect();
        let mut want = xs.clone();
        sigmoid(Tier::SCALAR, &mut want);
        for (x, y) in xs.iter().zip(&want) {
            let exact = 1.0 / (1.0 + (-f64::from(*x)).exp());
            assert!((f64::from(*y) - exact).abs() <= 3e-7 * exact, "{x}: {y} {exact}");
        }
        for tier in Tier::available() {
            let mut got = xs.clone();
            sigmoid(tier, &mut got);
            assert_eq!(got, want, "{}", tier.level());
        }
    }

    #[test]
    fn exp_at_the_ends() {
        let mut x = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 0.0, -0.0];
        exp(Tier::best(), &mut x);
        assert!(x[0] > 0.0 && x[0] < 1.7e-38 && x[1] > 1e38 && x[1].is_finite() && x[2].is_nan());
        assert_eq!(x[3..], [1.0, 1.0]);
    }

    #[test]
    fn log_sum_exp_of_known_values() {
        for tier in Tier::available() {
            for n in [1, 5, 16, 33] {
                let (m, s) = log_sum_exp(tier, &vec![2.5; n]);
                assert_eq!((m, s), (2.5, n as f32));
            }
            assert_eq!(log_sum_exp(tier, &[]), (f32::NEG_INFINITY, 0.0));
        }
    }
}
