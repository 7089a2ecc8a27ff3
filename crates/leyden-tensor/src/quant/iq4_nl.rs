//! IQ4_NL: blocks of 32 values, one 16-bit scale, 4-bit indices into a table of sixteen unevenly spaced
//! numbers; 18 bytes.
//!
//! A value is `d * VALUES[code]`. Byte `j` holds the code of value `j` below and that of value
//! `j + 16` above.

use super::fit::{self, Codes, Starts};
use super::symmetric::{Shape, fit_group};
use super::{Block, F16_MAX, f16_to_f32, field, finite, scale_bits};
use crate::DType;

/// Numbers that the codes of IQ4_NL and IQ4_XS stand for: denser around zero, where most weights
/// are.
pub const IQ4_VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// [`IQ4_VALUES`] as the codes of a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Uneven;

/// Nearest number by half steps: element `i` is for the middle of the half step from `(i - 256) / 2`
/// on. Borders between numbers lie at whole half steps, so every half step has one nearest number.
static NEAREST: [f32; 512] = {
    let mut table = [0.0; 512];
    let mut i = 0;
    while i < 512 {
        // In quarters, in which the middle of a half step is an odd number.
        let middle = 2 * (i as i32 - 256) + 1;
        let mut code = 0;
        while code < 15 && 2 * (IQ4_VALUES[code] as i32 + IQ4_VALUES[code + 1] as i32) < middle {
            code += 1;
        }
        table[i] = IQ4_VALUES[code] as f32;
        i += 1;
    }
    table
};

impl Codes for Uneven {
    /// Looks the number up in a table instead of making fifteen comparisons. On a border, or as near to it as the
    /// rounding of `t`, returns the number on either side of it.
    #[inline(always)]
    fn nearest(self, t: f32) -> f32 {
        // 1.5 * 2^23: the lowest bits of the sum minus those of this number are the rounded number.
        const SHIFT: f32 = 12_582_912.0;
        let half_step = (fit::nearest(2.0 * t - 0.5, -256.0, 255.0) + SHIFT).to_bits();
        NEAREST[(half_step.wrapping_sub(SHIFT.to_bits() - 256) & 511) as usize]
    }
}

/// Returns the code of a number in [`IQ4_VALUES`].
pub(super) fn code_of(value: f32) -> u8 {
    IQ4_VALUES.iter().fold(0, |code, &v| code + u8::from(f32::from(v) < value))
}

/// Returns the parameters of a search over the numbers: the largest value of a group becomes a number from 88 to 136
/// (clipped) on either side.
pub(super) const fn shape(low_scale: f32) -> Shape<Uneven> {
    Shape { codes: Uneven, extreme: -127.0, low_scale, starts: Starts { first: 88.0, step: 3.0, n: 17 } }
}

/// A block of 32 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IQ4NL {
    /// The scale, as half-precision bits.
    pub d: u16,
    /// Two codes per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<IQ4NL>() == IQ4NL::BYTES);

impl Block for IQ4NL {
    const DTYPE: DType = DType::IQ4NL;
    const LEN: usize = 32;
    const BYTES: usize = 18;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        IQ4NL { d: u16::from_le_bytes(field(bytes, 0)), qs: field(bytes, 2) }
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[..2].copy_from_slice(&self.d.to_le_bytes());
        out[2..].copy_from_slice(&self.qs);
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let d = f16_to_f32(self.d);
        let (low, high) = out.split_at_mut(16);
        for ((&q, a), b) in self.qs.iter().zip(low).zip(high) {
            *a = d * f32::from(IQ4_VALUES[usize::from(q & 15)]);
            *b = d * f32::from(IQ4_VALUES[usize::from(q >> 4)]);
        }
    }

    /// Searches for the scale, of either sign, with the least squared error.
    fn encode(x: &[f32]) -> Self {
        Self::encode_weighted(x, &[1.0; Self::LEN])
    }

    #[inline(always)]
    fn encode_weighted(x: &[f32], w: &[f32]) -> Self {
        assert_eq!((x.len(), w.len()), (Self::LEN, Self::LEN));
        const LIMIT: f32 = F16_MAX * 127.0;
        let x: [f32; Self::LEN] = std::array::from_fn(|i| finite(x[i]).clamp(-LIMIT, LIMIT));
        let ideal = fit::factor(fit_group(&x, w, &shape(-1.0)));
        // Codes can change with the rounding of the scale; then another scale may fit them better.
        // And no code is 0, so for values too small for any scale the best scale is 0.
        let m = fit::moments(&x, w, 0.0, fit::reciprocal(ideal), Uneven);
        let (mut d, mut least) = (0.0, fit::error(&x, w, 0.0, 0.0, Uneven));
        for candidate in [ideal, fit::factor(m.xq / m.qq)] {
            let error = fit::error(&x, w, candidate, 0.0, Uneven);
            if error < least {
                (d, least) = (candidate, error);
            }
        }
        let inverse = fit::reciprocal(d);
        let code = |v: f32| code_of(Uneven.nearest(v * inverse));
        IQ4NL { d: scale_bits(d), qs: std::array::from_fn(|j| code(x[j]) | code(x[j + 16]) << 4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_is_the_nearest_and_has_its_code() {
        for i in -3000..3000 {
            let t = i as f32 / 16.0;
            let distance = |v: f32| (v - t).abs();
            let want = IQ4_VALUES.iter().map(|&v| distance(v.into())).reduce(f32::min);
            let found = Uneven.nearest(t);
            assert_eq!(Some(distance(found)), want, "{t}");
            assert_eq!(f32::from(IQ4_VALUES[usize::from(code_of(found))]), found);
        }
    }
}
