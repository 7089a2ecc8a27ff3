//! Q4_0: blocks of 32 values, one 16-bit scale, 4-bit codes; 18 bytes.
//!
//! A value is `d * (code - 8)`. Byte `j` holds the code of value `j` below and that of value
//! `j + 16` above.

use super::fit::{Integers, Starts};
use super::symmetric::{self, Shape};
use super::{Block, f16_to_f32, field, finite, scale_bits};
use crate::DType;

/// The search starts from clipping the extremes and ends with the outer codes unused.
const SHAPE: Shape<Integers> = Shape {
    codes: Integers(-8.0, 7.0),
    extreme: -8.0,
    low_scale: -1.0,
    starts: Starts { first: 7.0, step: 0.2, n: 13 },
};

/// A block of 32 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q4_0 {
    /// The scale, as half-precision bits.
    pub d: u16,
    /// Two codes per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<Q4_0>() == Q4_0::BYTES);

impl Block for Q4_0 {
    const DTYPE: DType = DType::Q4_0;
    const LEN: usize = 32;
    const BYTES: usize = 18;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        Q4_0 { d: u16::from_le_bytes(field(bytes, 0)), qs: field(bytes, 2) }
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
            *a = d * (f32::from(q & 15) - 8.0);
            *b = d * (f32::from(q >> 4) - 8.0);
        }
    }

    /// Encodes with the value of largest magnitude (the first, if several) as code 0, which is -8.
    fn encode(x: &[f32]) -> Self {
        assert_eq!(x.len(), Self::LEN);
        let mut largest = finite(x[0]);
        for &v in x {
            if finite(v).abs() > largest.abs() {
                largest = finite(v);
            }
        }
        let d = largest / -8.0;
        let bits = scale_bits(d);
        let id = inverse(d, bits);
        let code = |v: f32| (finite(v) * id + 8.5).clamp(0.0, 15.0) as u8;
        let mut qs = [0; 16];
        for (j, q) in qs.iter_mut().enumerate() {
            *q = code(x[j]) | code(x[j + 16]) << 4;
        }
        Q4_0 { d: bits, qs }
    }

    /// Keeps the scale if all values are multiples of one; else searches for the scale of least error, of either
    /// sign.
    #[inline(always)]
    fn encode_weighted(x: &[f32], w: &[f32]) -> Self {
        assert_eq!((x.len(), w.len()), (Self::LEN, Self::LEN));
        let (d, codes) = symmetric::encode_32(x, w, &SHAPE);
        let mut qs = [0; 16];
        for (j, q) in qs.iter_mut().enumerate() {
            *q = codes[j] | codes[j + 16] << 4;
        }
        Q4_0 { d, qs }
    }
}

/// Returns the factor that turns values into codes: the inverse of the scale before it was rounded to
/// 16 bits, as in gguf-py; of the stored scale if the unrounded one is out of range; and 0 if the
/// inverse is not finite.
pub(super) fn inverse(d: f32, bits: u16) -> f32 {
    let d = if d.abs() > super::F16_MAX { f16_to_f32(bits) } else { d };
    let id = 1.0 / d;
    if id.is_finite() { id } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let mut x = [0.0; 32];
        (x[0], x[1], x[16], x[31]) = (-8.0, 7.0, 1.0, -1.0);
        let b = Q4_0::encode(&x);
        assert_eq!((b.d, b.qs[0], b.qs[1], b.qs[15]), (0x3c00, 0x90, 0x8f, 0x78));
        let mut out = [0.0; 32];
        b.decode(&mut out);
        assert_eq!(out, x);
    }
}
