//! Q4_1: blocks of 32 values, one 16-bit scale, one 16-bit minimum, 4-bit codes; 20 bytes.
//!
//! A value is `d * code + m`. Byte `j` holds the code of value `j` below and that of value `j + 16`
//! above.

use super::min_scale::{self, MinScale};
use super::{Block, f16_to_f32, field};
use crate::DType;

/// A block of 32 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q4_1 {
    /// The scale, as half-precision bits.
    pub d: u16,
    /// The minimum, as half-precision bits.
    pub m: u16,
    /// Two codes per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<Q4_1>() == Q4_1::BYTES);

impl Block for Q4_1 {
    const DTYPE: DType = DType::Q4_1;
    const LEN: usize = 32;
    const BYTES: usize = 20;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        Q4_1 {
            d: u16::from_le_bytes(field(bytes, 0)),
            m: u16::from_le_bytes(field(bytes, 2)),
            qs: field(bytes, 4),
        }
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[..2].copy_from_slice(&self.d.to_le_bytes());
        out[2..4].copy_from_slice(&self.m.to_le_bytes());
        out[4..].copy_from_slice(&self.qs);
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let (d, m) = (f16_to_f32(self.d), f16_to_f32(self.m));
        let (low, high) = out.split_at_mut(16);
        for ((&q, a), b) in self.qs.iter().zip(low).zip(high) {
            *a = d * f32::from(q & 15) + m;
            *b = d * f32::from(q >> 4) + m;
        }
    }

    /// Encodes with the smallest value as code 0 and the largest as code 15.
    fn encode(x: &[f32]) -> Self {
        assert_eq!(x.len(), Self::LEN);
        let scale = MinScale::of(x, 15.0);
        let mut qs = [0; 16];
        for (j, q) in qs.iter_mut().enumerate() {
            *q = scale.code(x[j]) | scale.code(x[j + 16]) << 4;
        }
        Q4_1 { d: scale.d, m: scale.m, qs }
    }

    /// Searches for the scale and minimum with the least squared error.
    #[inline(always)]
    fn encode_weighted(x: &[f32], w: &[f32]) -> Self {
        assert_eq!((x.len(), w.len()), (Self::LEN, Self::LEN));
        let (d, m, codes) = min_scale::search(x, w, 15.0);
        let mut qs = [0; 16];
        for (j, q) in qs.iter_mut().enumerate() {
            *q = codes[j] | codes[j + 16] << 4;
        }
        Q4_1 { d, m, qs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout() {
        let mut x = [2.0; 32];
        (x[0], x[1], x[16], x[31]) = (-1.0, 14.0, 1.0, -1.0);
        let b = Q4_1::encode(&x);
        assert_eq!((b.d, b.m, b.qs[0], b.qs[1], b.qs[15]), (0x3c00, 0xbc00, 0x20, 0x3f, 0x03));
        let mut out = [0.0; 32];
        b.decode(&mut out);
        assert_eq!(out, x);
    }
}
