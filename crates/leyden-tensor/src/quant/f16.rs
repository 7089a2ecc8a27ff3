//! F16: 16-bit floats of IEEE 754 (1 sign, 5 exponent, 10 fraction bits), little-endian.

use super::{Block, field};
use crate::DType;

/// The bits of a single 16-bit float.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct F16(pub u16);

/// The smallest positive number, 2^-24.
const TINY: f32 = 5.960_464_5e-8;

/// Returns the value of a half-precision number. Exact; a signalling NaN becomes quiet and keeps its other
/// bits, as in the conversion instructions of x86-64 and Arm.
///
/// ```
/// use leyden_tensor::quant::f16_to_f32;
/// assert_eq!(f16_to_f32(0x3555), 0.333_251_95);
/// assert_eq!(f16_to_f32(0x0001), f32::powi(2.0, -24));
/// ```
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits & 0x3ff);
    let magnitude = match exponent {
        // Subnormal: a multiple of 2^-24, which a 32-bit float holds exactly.
        0 => (fraction as f32 * TINY).to_bits(),
        31 if fraction == 0 => 0x7f80_0000,
        31 => 0x7fc0_0000 | fraction << 13,
        // Both exponents are biased: 127 - 15 = 112.
        _ => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// Returns the nearest half-precision number, ties to even. Values from 65520 on become infinite; a
/// NaN becomes quiet and keeps its sign and upper fraction bits.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude > 0x7f80_0000 {
        0x7e00 | (magnitude >> 13) as u16 & 0x3ff
    } else if magnitude >= 65536f32.to_bits() {
        0x7c00
    } else if magnitude >= 0x3880_0000 {
        // Normal, from 2^-14. Adding just under half of the last kept bit, plus that bit, rounds to
        // nearest even; a carry runs into the exponent, at the top into infinity, as it should.
        let rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
        ((rounded - (112 << 23)) >> 13) as u16
    } else {
        // Subnormal: count the multiples of 2^-24. The product is exact, and 1024 of them are 2^-14
        // with the very bits of the smallest normal number.
        (f32::from_bits(magnitude) * 16_777_216.0).round_ties_even() as u16
    };
    sign | half
}

impl Block for F16 {
    const DTYPE: DType = DType::F16;
    const LEN: usize = 1;
    const BYTES: usize = 2;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        F16(u16::from_le_bytes(field(bytes, 0)))
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.0.to_le_bytes());
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        out.copy_from_slice(&[f16_to_f32(self.0)]);
    }

    fn encode(x: &[f32]) -> Self {
        assert_eq!(x.len(), Self::LEN);
        F16(f32_to_f16(x[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the value by the definition of the format, in double precision, in which every step is exact.
    fn by_definition(bits: u16) -> f64 {
        let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
        let fraction = f64::from(bits & 0x3ff);
        match bits >> 10 & 31 {
            0 => sign * fraction * 2f64.powi(-24),
            31 if fraction == 0.0 => sign * f64::INFINITY,
            31 => f64::NAN,
            e => sign * (1024.0 + fraction) * 2f64.powi(i32::from(e) - 25),
        }
    }

    #[test]
    fn all_65536_values_decode_by_definition_and_come_back() {
        for bits in 0..=u16::MAX {
            let (x, want) = (f16_to_f32(bits), by_definition(bits));
            if want.is_nan() {
                assert!(x.is_nan() && x.to_bits() & 0x0040_0000 != 0, "{bits:#06x} must be a quiet NaN");
                assert_eq!(f32_to_f16(x), bits | 0x200, "{bits:#06x} keeps its payload");
            } else {
                assert_eq!(f64::from(x), want, "{bits:#06x}");
                assert_eq!(x.is_sign_negative(), bits & 0x8000 != 0);
                assert_eq!(f32_to_f16(x), bits);
            }
        }
    }

    /// Between two neighbours there is one tie, and everything else has a nearest number: checking the
    /// tie and its two float neighbours checks the rounding of the whole gap.
    #[test]
    fn all_gaps_round_to_nearest_even() {
        for low in 0..0x7c00u16 {
            let high = low + 1;
            // The upper neighbour of the largest number would be 2^16.
            let above = if high == 0x7c00 { 65536.0 } else { by_definition(high) };
            let tie = ((by_definition(low) + above) / 2.0) as f32;
            let even = if low % 2 == 0 { low } else { high };
            for sign in [0, 0x8000u16] {
                let with = |m: f32| if sign == 0 { m } else { -m };
                assert_eq!(f32_to_f16(with(tie)), sign | even, "tie after {low:#06x}");
                assert_eq!(f32_to_f16(with(tie.next_down())), sign | low, "below the tie after {low:#06x}");
                assert_eq!(f32_to_f16(with(tie.next_up())), sign | high, "above the tie after {low:#06x}");
            }
        }
        assert_eq!(f32_to_f16(f32::MAX), 0x7c00);
        assert_eq!(f32_to_f16(f32::from_bits(1)), 0);
        assert_eq!(f32_to_f16(-0.0), 0x8000);
    }
}
