//! Functions of 32-bit floats that real graphs spend time in: hyperbolic tangent, error function, sine and cosine.
//!
//! Plain multiplications and additions over whole slices, so the compiler vectorises them and the bits are the same
//! everywhere; the exponential is the kernels'. Polynomials are those of Cephes (Moshier, 1992).

use leyden_kernels::Tier;
use leyden_kernels::ops::{Activation, activate, exp};

/// Number of values at once.
const CHUNK: usize = 1024;
/// Constant whose addition and subtraction round to the nearest integer, ties to even.
const ROUND: f32 = 12_582_912.0;

/// Calls `f(values, room)` for pieces of a slice.
fn pieces(x: &mut [f32], mut f: impl FnMut(&mut [f32], &mut [f32])) {
    let mut room = [0.0; CHUNK];
    for part in x.chunks_mut(CHUNK) {
        let n = part.len();
        f(part, &mut room[..n]);
    }
}

/// Rounds a value of at most 2^22 to the nearest integer, ties to even.
pub(crate) fn rounded(x: f32) -> f32 {
    (x + ROUND) - ROUND
}

/// Replaces values by their hyperbolic tangents, within 2e-7 of the value.
pub(crate) fn tanh(tier: Tier, x: &mut [f32]) {
    pieces(x, |x, e| {
        e.iter_mut().zip(&*x).for_each(|(e, x)| *e = 2.0 * x.abs());
        exp(tier, e);
        for (x, e) in x.iter_mut().zip(&*e) {
            let z = *x * *x;
            let p = ((-5.704_988_7e-3 * z + 2.063_909e-2) * z - 5.373_971_6e-2) * z + 1.333_144_2e-1;
            let near = (p * z - 3.333_328e-1) * z * *x + *x;
            let far = (1.0 - 2.0 / (e + 1.0)).copysign(*x);
            let nan = x.is_nan();
            *x = if x.abs() < 0.625 || nan { near } else { far };
        }
    });
}

/// Replaces values by their error functions, within 3e-7 of the value.
pub(crate) fn erf(tier: Tier, x: &mut [f32]) {
    pieces(x, |x, g| {
        // The normal distribution from GELU: gelu(y) = y * P(y), erf(x) = 2 P(x * sqrt(2)) - 1.
        g.iter_mut().zip(&*x).for_each(|(g, x)| *g = x.abs() * std::f32::consts::SQRT_2);
        activate(tier, Activation::Gelu, g);
        for (x, g) in x.iter_mut().zip(&*g) {
            let z = *x * *x;
            let p = ((7.853_861_4e-5 * z - 8.010_194e-4) * z + 5.188_327_6e-3) * z - 2.685_381_2e-2;
            let near =
                (((p * z + 1.128_358_5e-1) * z - 3.761_262_6e-1) * z + std::f32::consts::FRAC_2_SQRT_PI) * *x;
            let far = (2.0 * g / (x.abs() * std::f32::consts::SQRT_2) - 1.0).copysign(*x);
            let nan = x.is_nan();
            // Far out the quotient of infinities is none.
            let far = if x.abs() > 6.0 { 1.0_f32.copysign(*x) } else { far };
            *x = if x.abs() < 1.0 || nan { near } else { far };
        }
    });
}

/// Replaces values by their sines, or cosines.
pub(crate) fn sine(x: &mut [f32], cosine: bool) {
    const TWO_OVER_PI: f32 = std::f32::consts::FRAC_2_PI;
    /// Magnitude up to which the reduction is exact enough.
    const MOST: f32 = 10_000.0;
    let shift = i32::from(cosine);
    pieces(x, |x, slow| {
        slow.copy_from_slice(x);
        for x in x.iter_mut() {
            let n = rounded((*x).clamp(-MOST, MOST) * TWO_OVER_PI);
            let r = (f64::from(*x) - f64::from(n) * std::f64::consts::FRAC_PI_2) as f32;
            let z = r * r;
            let sin = ((-1.951_529_6e-4 * z + 8.332_161e-3) * z - 1.666_665_5e-1) * z * r + r;
            let cos = ((2.443_315_7e-5 * z - 1.388_731_6e-3) * z + 4.166_664_6e-2) * z * z - 0.5 * z + 1.0;
            let quadrant = n as i32 + shift;
            let value = if quadrant & 1 == 0 { sin } else { cos };
            *x = if quadrant & 2 == 0 { value } else { -value };
        }
        for (x, from) in x.iter_mut().zip(&*slow) {
            if from.abs() > MOST || from.is_nan() {
                let from = f64::from(*from);
                *x = if cosine { libm::cos(from) } else { libm::sin(from) } as f32;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, f: impl Fn(&mut [f32]), want: impl Fn(f64) -> f64, relative: f64, absolute: f64) {
        let xs: Vec<f32> =
            (0..400_001).map(|i| (i as f32 - 200_000.0) * 1e-4).chain([1e-7, -3e-20, 0.0]).collect();
        let mut got = xs.clone();
        f(&mut got);
        for (x, g) in xs.iter().zip(&got) {
            let w = want(f64::from(*x));
            assert!((f64::from(*g) - w).abs() <= relative * w.abs() + absolute, "{name}({x}) = {g}, not {w}");
        }
        let mut odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 30_000.5];
        f(&mut odd);
        assert!(odd[0].is_nan(), "{name}");
        assert!((f64::from(odd[3]) - want(30_000.5)).abs() < 1e-6, "{name}");
    }

    #[test]
    fn functions_are_close_to_their_definitions() {
        for tier in Tier::available() {
            check("tanh", |x| tanh(tier, x), libm::tanh, 3e-7, 0.0);
            check("erf", |x| erf(tier, x), libm::erf, 4e-7, 0.0);
        }
        check("sin", |x| sine(x, false), libm::sin, 0.0, 2e-7);
        check("cos", |x| sine(x, true), libm::cos, 0.0, 2e-7);
    }

    #[test]
    fn bits_are_the_same_on_every_tier() {
        let xs: Vec<f32> = (0..3000).map(|i| (i as f32 - 1500.0) * 0.01).collect();
        for f in [tanh, erf] {
            let mut want = xs.clone();
            f(Tier::SCALAR, &mut want);
            for tier in Tier::available() {
                let mut got = xs.clone();
                f(tier, &mut got);
                assert_eq!(got, want, "{}", tier.level());
            }
        }
    }
}
