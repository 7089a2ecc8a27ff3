//! MXFP4: blocks of 32 values, an 8-bit power of two, 4-bit floats (1 sign, 2 exponent, 1 fraction
//! bit) of the OCP microscaling formats; 17 bytes.
//!
//! A value is `2^(e - 128) * VALUES[code]`, where the numbers are twice those of the specification so
//! that they are integers. Byte `j` holds the code of value `j` below and that of value `j + 16` above.
//! The specification reserves `e` = 255 for NaN; here it is 2^127, as in every program that reads
//! these files.

use super::{Block, field, finite};
use crate::DType;

/// Twice the numbers that the codes stand for.
pub const MXFP4_VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// A block of 32 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MXFP4 {
    /// The power of two: 127 stands for 1.
    pub e: u8,
    /// Two codes per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<MXFP4>() == MXFP4::BYTES);

impl MXFP4 {
    /// Returns the factor of [`MXFP4_VALUES`]: half of the block's power of two.
    pub fn scale(&self) -> f32 {
        half_power(self.e)
    }
}

/// Returns 2^(e - 128).
fn half_power(e: u8) -> f32 {
    // The lowest two are subnormal.
    f32::from_bits(if e < 2 { 0x0020_0000 << e } else { u32::from(e - 1) << 23 })
}

impl MXFP4 {
    /// Returns the block with the nearest codes for a given exponent.
    #[inline(always)]
    fn with_exponent(x: &[f32], e: u8) -> Self {
        let d = half_power(e);
        let code = |v: f32| {
            let mut best = (0, f32::INFINITY);
            for (code, &value) in (0u8..).zip(&MXFP4_VALUES) {
                let error = (d * f32::from(value) - finite(v)).abs();
                if error < best.1 {
                    best = (code, error);
                }
            }
            best.0
        };
        MXFP4 { e, qs: std::array::from_fn(|j| code(x[j]) | code(x[j + 16]) << 4) }
    }
}

impl Block for MXFP4 {
    const DTYPE: DType = DType::MXFP4;
    const LEN: usize = 32;
    const BYTES: usize = 17;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        MXFP4 { e: bytes[0], qs: field(bytes, 1) }
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[0] = self.e;
        out[1..].copy_from_slice(&self.qs);
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let d = self.scale();
        let (low, high) = out.split_at_mut(16);
        for ((&q, a), b) in self.qs.iter().zip(low).zip(high) {
            *a = d * f32::from(MXFP4_VALUES[usize::from(q & 15)]);
            *b = d * f32::from(MXFP4_VALUES[usize::from(q >> 4)]);
        }
    }

    /// Encodes by the specification's rule: the exponent is that of the largest magnitude, minus two, so values
    /// beyond 3/4 of the next power of two are clipped. Of two codes equally near, the first.
    fn encode(x: &[f32]) -> Self {
        assert_eq!(x.len(), Self::LEN);
        let largest = x.iter().fold(0.0, |m: f32, &v| m.max(finite(v).abs()));
        Self::with_exponent(x, exponent(largest))
    }

    /// Encodes with the exponent of least error: the specification's or one of its two neighbours.
    #[inline(always)]
    fn encode_weighted(x: &[f32], w: &[f32]) -> Self {
        assert_eq!((x.len(), w.len()), (Self::LEN, Self::LEN));
        let largest = x.iter().fold(0.0, |m: f32, &v| m.max(finite(v).abs()));
        let rule = exponent(largest);
        let mut best = (f32::INFINITY, Self::encode(x));
        for e in [rule, rule.saturating_sub(1), rule.saturating_add(1).min(253)] {
            let block = Self::with_exponent(x, e);
            let mut values = [0.0; 32];
            block.decode(&mut values);
            let miss = |i: usize| w[i] * (values[i] - finite(x[i])).powi(2);
            let error = (0..32).map(miss).sum::<f32>();
            if error < best.0 {
                best = (error, block);
            }
        }
        best.1
    }
}

/// Returns the stored exponent for a block: `floor(log2(largest)) + 125`, and 0 if that is negative.
///
/// gguf-py takes the logarithm in single precision, in which the nearest numbers below a power of two
/// round up to it; this function does the same, in integers.
fn exponent(largest: f32) -> u8 {
    let bits = largest.to_bits();
    let floor = (bits >> 23) as i32 - 127;
    // Subnormal numbers have a logarithm below -126: the result is 0 all the same.
    let next = floor + 1;
    // How many steps of 2^-24 the number is below the next power of two, relative to it: its logarithm
    // is below the whole number by 1/ln 2 times as much, to first order.
    let below = f64::from((1 << 24) - (bits & 0x7f_ffff | 1 << 23));
    // Half the distance of the floats next to the whole number on the side of the logarithm: the
    // lower of two sides differs at a power of two, where the distance halves towards zero.
    let magnitude = next.unsigned_abs();
    let spacing = match next {
        0 => 0.0,
        1.. if magnitude.is_power_of_two() => f64::from(magnitude) * 0.5,
        _ => f64::from(1u32 << magnitude.ilog2()),
    };
    // In units of 2^-24 the distance of floats of magnitude 2^k is 2 * 2^k, and half of it is 2^k.
    let rounded = if below * std::f64::consts::LOG2_E <= spacing { next } else { floor };
    u8::try_from((rounded + 125).clamp(0, 255)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponent_is_that_of_a_logarithm_in_single_precision() {
        for power in -125..128i32 {
            let one = 2f64.powi(power) as f32;
            for steps in 0..200 {
                for x in [f32::from_bits(one.to_bits() - steps), f32::from_bits(one.to_bits() + steps)] {
                    let want = (f64::from(x).log2() as f32).floor() as i32 + 125;
                    assert_eq!(i32::from(exponent(x)), want.max(0), "{x:e}");
                }
            }
        }
        assert_eq!((exponent(0.0), exponent(1e-45), exponent(f32::MAX)), (0, 0, 253));
    }

    #[test]
    fn layout() {
        let mut x = [0.0; 32];
        (x[0], x[1], x[16], x[31]) = (6.0, -0.5, 1.5, -6.0);
        let b = MXFP4::encode(&x);
        assert_eq!((b.e, b.qs[0], b.qs[1], b.qs[15]), (127, 0x37, 0x09, 0xf0));
        let mut out = [0.0; 32];
        b.decode(&mut out);
        assert_eq!(out, x);
    }
}
