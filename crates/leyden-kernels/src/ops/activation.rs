//! Activation functions of feed-forward layers, alone and as the gate of a gated product.

use super::{Lanes, exp16};
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;

/// Activation function of a feed-forward layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// `x * sigmoid(x)`, also called swish.
    #[default]
    Silu,
    /// The Gaussian error linear unit (Hendrycks and Gimpel, 2016) by its approximation with a hyperbolic tangent.
    GeluTanh,
    /// GELU by its definition, with the error function.
    Gelu,
    /// GELU by a polynomial without exponential and division, for results that become 8-bit integers: error at most
    /// 1.2e-4 between -8 and 8, and 2e-5 of the value beyond.
    GeluPolynomial,
    /// Function of gpt-oss: `x * sigmoid(1.702 x)` with `x` at most 7. As a gate it is multiplied by the other factor,
    /// clamped to -7 to 7, plus 1.
    ClampedSwiglu,
}

/// Function of 16 values. Each is a type of its own, because closures may not be compiled for the instruction set.
pub(crate) trait Function {
    /// Computes the function.
    fn of(x: &Lanes) -> Lanes;

    /// Computes the gated product.
    #[inline(always)]
    fn gated(gate: &Lanes, up: &Lanes) -> Lanes {
        let s = Self::of(gate);
        std::array::from_fn(|i| s[i] * up[i])
    }
}

/// Implements [`Activation::Silu`].
pub(crate) struct Silu;

impl Function for Silu {
    /// Computes `x / (1 + e^-x)`.
    #[inline(always)]
    fn of(x: &Lanes) -> Lanes {
        let e = exp16(&std::array::from_fn(|i| -x[i]));
        std::array::from_fn(|i| x[i] / (1.0 + e[i]))
    }
}

/// Implements [`Activation::GeluTanh`].
pub(crate) struct GeluTanh;

impl Function for GeluTanh {
    /// Computes `x / 2 * (1 + tanh(u))`, which is `x / (1 + e^-2u)`, with `u = sqrt(2 / pi) * (x + 0.044715 * x^3)`.
    #[inline(always)]
    fn of(x: &Lanes) -> Lanes {
        /// The constant `2 * sqrt(2 / pi)`.
        const FACTOR: f32 = 1.595_769;
        let u: Lanes = std::array::from_fn(|i| {
            let square = x[i] * x[i];
            FACTOR * (x[i] * square.mul_add(0.044_715, 1.0))
        });
        let e = exp16(&std::array::from_fn(|i| -u[i]));
        std::array::from_fn(|i| x[i] / (1.0 + e[i]))
    }
}

/// Implements [`Activation::Gelu`].
pub(crate) struct Gelu;

impl Function for Gelu {
    /// Computes `x * P(X <= x)` of a standard normal X. The probability beyond `|x|` is `e^(-x^2 / 2) * t * p(t)` with
    /// `t = 1 / (1 + 0.35 |x|)`; the polynomial p is fitted to it within 4e-8 of the value, up to where the exponential
    /// becomes zero.
    #[inline(always)]
    fn of(x: &Lanes) -> Lanes {
        const SLOPE: f32 = 0.35;
        /// Coefficients from the highest power down.
        const P: [f32; 9] = [
            -0.029_145_94,
            0.143_971_74,
            -0.255_714_36,
            0.159_174_26,
            -0.023_109_904,
            0.105_508_03,
            0.119_832_86,
            0.139_861_87,
            0.139_621_4,
        ];
        let e = exp16(&std::array::from_fn(|i| -0.5 * (x[i] * x[i])));
        // Loops, because a closure of this size is not compiled for the instruction set.
        let (mut t, mut p) = ([0.0_f32; 16], [P[0]; 16]);
        for i in 0..16 {
            t[i] = 1.0 / SLOPE.mul_add(x[i].abs(), 1.0);
        }
        for c in &P[1..] {
            for i in 0..16 {
                p[i] = p[i].mul_add(t[i], *c);
            }
        }
        for i in 0..16 {
            let beyond = e[i] * (p[i] * t[i]);
            p[i] = x[i] * if x[i] < 0.0 { beyond } else { 1.0 - beyond };
        }
        p
    }
}

/// Implements [`Activation::GeluPolynomial`]: the probability as an odd polynomial, fitted within 1.4e-5 up to 4.2 and
/// constant beyond, with an error below 6e-5 there.
pub(crate) struct GeluPolynomial;

impl GeluPolynomial {
    pub(crate) const END: f32 = 4.2;
    /// Coefficients in the square, from the highest power down.
    pub(crate) const P: [f32; 9] = [
        4.923_816e-11,
        -4.795_66e-9,
        2.072_475_7e-7,
        -5.289_563_4e-6,
        8.983_594e-5,
        -1.086_458_9e-3,
        9.740_941e-3,
        -6.622_208e-2,
        0.398_834_6,
    ];
}

impl Function for GeluPolynomial {
    #[inline(always)]
    fn of(x: &Lanes) -> Lanes {
        // Loops, because a closure of this size is not compiled for the instruction set.
        let (end, p) = (Self::END, &Self::P);
        let (mut held, mut square, mut sum) = (*x, [0.0; 16], [p[0]; 16]);
        for i in 0..16 {
            held[i] = if held[i] < -end { -end } else { held[i] };
            held[i] = if held[i] > end { end } else { held[i] };
            square[i] = held[i] * held[i];
        }
        for c in &p[1..] {
            for i in 0..16 {
                sum[i] = sum[i].mul_add(square[i], *c);
            }
        }
        for i in 0..16 {
            sum[i] = x[i] * sum[i].mul_add(held[i], 0.5);
        }
        sum
    }
}

/// Implements [`Activation::ClampedSwiglu`].
pub(crate) struct ClampedSwiglu;

impl ClampedSwiglu {
    const SLOPE: f32 = 1.702;
    const LIMIT: f32 = 7.0;
}

impl Function for ClampedSwiglu {
    #[inline(always)]
    fn of(x: &Lanes) -> Lanes {
        let x: Lanes = std::array::from_fn(|i| if x[i] > Self::LIMIT { Self::LIMIT } else { x[i] });
        let e = exp16(&std::array::from_fn(|i| -Self::SLOPE * x[i]));
        std::array::from_fn(|i| x[i] / (1.0 + e[i]))
    }

    #[inline(always)]
    fn gated(gate: &Lanes, up: &Lanes) -> Lanes {
        let s = Self::of(gate);
        std::array::from_fn(|i| {
            let u = if up[i] > Self::LIMIT { Self::LIMIT } else { up[i] };
            let u = if u < -Self::LIMIT { -Self::LIMIT } else { u };
            s[i] * (u + 1.0)
        })
    }
}

/// Evaluates an expression with `$F` as the function of an activation.
macro_rules! with_function {
    ($activation:expr, $F:ident => $e:expr) => {
        match $activation {
            $crate::ops::Activation::Silu => {
                type $F = $crate::ops::Silu;
                $e
            }
            $crate::ops::Activation::GeluTanh => {
                type $F = $crate::ops::GeluTanh;
                $e
            }
            $crate::ops::Activation::Gelu => {
                type $F = $crate::ops::Gelu;
                $e
            }
            $crate::ops::Activation::GeluPolynomial => {
                type $F = $crate::ops::GeluPolynomial;
                $e
            }
            $crate::ops::Activation::ClampedSwiglu => {
                type $F = $crate::ops::ClampedSwiglu;
                $e
            }
        }
    };
}
pub(crate) use with_function;

#[inline(always)]
fn gate_all<F: Function>(gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "gate and up of one length");
    let (chunks, rest) = gate.as_chunks_mut::<16>();
    for (g, u) in chunks.iter_mut().zip(up.as_chunks::<16>().0) {
        *g = F::gated(g, u);
    }
    let (mut last, mut last_up) = ([0.0; 16], [0.0; 16]);
    last[..rest.len()].copy_from_slice(rest);
    last_up[..rest.len()].copy_from_slice(up.as_chunks::<16>().1);
    rest.copy_from_slice(&F::gated(&last, &last_up)[..rest.len()]);
}

#[inline(always)]
fn gate_impl<I: Simd>(_isa: I, activation: Activation, gate: &mut [f32], up: &[f32]) {
    with_function!(activation, F => gate_all::<F>(gate, up));
}

dispatch! {
    /// Computes `gate = activation(gate) * up`, element by element; [`Activation::ClampedSwiglu`] says how it differs.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn gate => gate_impl(activation: Activation, gate: &mut [f32], up: &[f32])
}

#[inline(always)]
fn activate_all<F: Function>(x: &mut [f32]) {
    let (chunks, rest) = x.as_chunks_mut::<16>();
    for c in chunks {
        *c = F::of(c);
    }
    let mut last = [0.0; 16];
    last[..rest.len()].copy_from_slice(rest);
    rest.copy_from_slice(&F::of(&last)[..rest.len()]);
}

#[inline(always)]
fn activate_impl<I: Simd>(_isa: I, activation: Activation, x: &mut [f32]) {
    with_function!(activation, F => activate_all::<F>(x));
}

dispatch! {
    /// Computes `x = activation(x)`, element by element.
    pub fn activate => activate_impl(activation: Activation, x: &mut [f32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;

    fn exact(activation: Activation, x: f64) -> f64 {
        match activation {
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::GeluTanh => {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
                0.5 * x * (1.0 + u.tanh())
            }
            Activation::Gelu | Activation::GeluPolynomial => x * normal(x),
            Activation::ClampedSwiglu => x.min(7.0) / (1.0 + (-1.702 * x.min(7.0)).exp()),
        }
    }

    /// Returns the probability below `x` of a standard normal distribution, by Simpson's rule from a point where the
    /// remaining probability is below 1e-16 of the value.
    fn normal(x: f64) -> f64 {
        const STEPS: usize = 4000;
        let density = |t: f64| (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let far = -x.abs();
        let width = 12.0 / STEPS as f64;
        let weight = |i: usize| if i == 0 || i == STEPS { 1.0 } else { (2 + 2 * (i % 2)) as f64 };
        let sum: f64 = (0..=STEPS).map(|i| weight(i) * density(far - 12.0 + i as f64 * width)).sum();
        let below = sum * width / 3.0;
        if x < 0.0 { below } else { 1.0 - below }
    }

    #[test]
    fn close_to_the_definition_and_the_same_on_every_tier() {
        let x: Vec<f32> = (0..2003).map(|i| (i as f32 - 1001.0) * 0.02).collect();
        for activation in
            [Activation::Silu, Activation::GeluTanh, Activation::Gelu, Activation::ClampedSwiglu]
        {
            // Makes the other factor 2.
            let up = vec![if activation == Activation::ClampedSwiglu { 1.0 } else { 2.0 }; x.len()];
            let mut want = x.clone();
            gate(Tier::SCALAR, activation, &mut want, &up);
            for (x, y) in x.iter().zip(&want) {
                let exact = 2.0 * exact(activation, f64::from(*x));
                let off = (f64::from(*y) - exact).abs();
                assert!(off <= 2e-6 * (1e-3 + exact.abs()), "{activation:?} {x}: {y} {exact}");
            }
            for tier in Tier::available() {
                let mut got = x.clone();
                gate(tier, activation, &mut got, &up);
                assert_eq!(got, want, "{activation:?} {}", tier.level());
                got.copy_from_slice(&x);
                activate(tier, activation, &mut got);
                assert!(got.iter().zip(&want).all(|(g, w)| 2.0 * g == *w), "{activation:?} {}", tier.level());
            }
        }
    }

    #[test]
    fn gelu_of_integers_is_within_its_bound_and_the_same_on_every_tier() {
        let x: Vec<f32> = (-4000..=4000).map(|i| i as f32 * 0.002).chain([f32::NAN, -100.0]).collect();
        let mut want = x.clone();
        activate(Tier::SCALAR, Activation::GeluPolynomial, &mut want);
        for (x, y) in x[..8001].iter().zip(&want) {
            let off = (f64::from(*y) - exact(Activation::GeluPolynomial, f64::from(*x))).abs();
            assert!(off <= 1.2e-4, "{x}: off by {off}");
        }
        assert!(want[8001].is_nan() && want[8002].abs() < 2e-3);
        for tier in Tier::available() {
            let mut got = x.clone();
            activate(tier, Activation::GeluPolynomial, &mut got);
            assert!(got.iter().zip(&want).all(|(g, w)| g.to_bits() == w.to_bits()), "{}", tier.level());
        }
    }

    #[test]
    fn both_factors_of_clamped_swiglu_are_bounded() {
        let mut x = [100.0, 7.0, 1.0, 1.0, 1.0, 1.0];
        gate(Tier::best(), Activation::ClampedSwiglu, &mut x, &[1.0, 1.0, 100.0, 7.0, -100.0, -7.0]);
        assert_eq!((x[0], x[2], x[4]), (x[1], x[3], x[5]));
        assert!(x[0] > 13.99 && x[2] > 6.7 && x[4] < -5.0, "{x:?}");
    }
}
