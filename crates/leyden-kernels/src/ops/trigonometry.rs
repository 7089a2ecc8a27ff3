//! Sine, cosine, logarithm and power in f64, the same bits on every platform.
//!
//! Plain multiplications and additions in a fixed order; accurate to a few units in the last place of f64, which is far
//! beyond the precision of the f32 rotations made from them.

use std::f64::consts::{FRAC_2_PI, LN_2, LOG2_E, SQRT_2};

/// Three parts of pi/2, of 33, 33 and the remaining bits: multiples below 2^20 of the first two are exact.
const PI_2: [f64; 3] = [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_795_950_7e-21];
/// Two parts of ln 2, the first short enough for exact multiples.
const LN2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];

/// Returns sine and cosine of `x`, for |x| below 2^20; beyond that the reduction loses accuracy gradually.
#[must_use]
pub fn sin_cos(x: f64) -> (f64, f64) {
    let n = (x * FRAC_2_PI).round_ties_even();
    let r = ((x - n * PI_2[0]) - n * PI_2[1]) - n * PI_2[2];
    let z = r * r;
    let (mut s, mut c) = (0.0, 0.0);
    // Sum of (-z)^i / (2i + 1)! and (-z)^i / (2i)!, from the highest term down.
    for i in (0..=9_i32).rev() {
        let i = f64::from(i);
        s = 1.0 - s * z / ((2.0 * i + 2.0) * (2.0 * i + 3.0));
        c = 1.0 - c * z / ((2.0 * i + 1.0) * (2.0 * i + 2.0));
    }
    s *= r;
    match n.rem_euclid(4.0) {
        0.0 => (s, c),
        1.0 => (c, -s),
        2.0 => (-s, -c),
        _ => (-c, s),
    }
}

/// Returns the natural logarithm of a positive, normal number.
#[must_use]
pub fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    // The exponent field is 11 bits, so it fits i32 exactly.
    let mut exponent = f64::from((bits >> 52) as u32) - 1023.0;
    let mut m = f64::from_bits(bits & 0x000f_ffff_ffff_ffff | 1023 << 52);
    if m > SQRT_2 {
        m /= 2.0;
        exponent += 1.0;
    }
    // ln m = 2 atanh((m - 1) / (m + 1)).
    let t = (m - 1.0) / (m + 1.0);
    let z = t * t;
    let mut s = 0.0;
    for i in (0..=11_i32).rev() {
        s = s * z + 1.0 / f64::from(2 * i + 1);
    }
    exponent * LN_2 + 2.0 * t * s
}

/// Returns `e^x` for |x| below 700.
fn exp(x: f64) -> f64 {
    let n = (x * LOG2_E).round_ties_even();
    let r = (x - n * LN2[0]) - n * LN2[1];
    let mut s = 1.0;
    for i in (1..=16_i32).rev() {
        s = 1.0 + s * r / f64::from(i);
    }
    // 2^n by its exponent field; n is an integer within the range of the field.
    let field = (n + 1023.0).clamp(1.0, 2046.0) as u64;
    s * f64::from_bits(field << 52)
}

/// Returns `x` to the power `y`, for positive `x` and a result within 1e-300 to 1e300.
#[must_use]
pub fn pow(x: f64, y: f64) -> f64 {
    exp(y * ln(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_to_the_platform() {
        for i in 0..200_000 {
            let x = f64::from(i) * 1.7 - 3000.0;
            let (s, c) = sin_cos(x);
            assert!((s - x.sin()).abs() < 1e-12 && (c - x.cos()).abs() < 1e-12, "{x}: {s} {c}");
            let y = f64::from(i) * 0.37 + 1e-3;
            assert!((ln(y) - y.ln()).abs() < 1e-14 * (1.0 + y.ln().abs()), "ln {y}");
        }
        for base in [1e4, 5e5, 1e6, 1.5e5] {
            for i in 0..64 {
                let y = -f64::from(i) / 64.0;
                let (got, want) = (pow(base, y), f64::powf(base, y));
                assert!((got - want).abs() < 1e-14 * want);
            }
        }
    }
}
