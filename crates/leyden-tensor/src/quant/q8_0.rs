//! Q8_0: blocks of 32 values, one 16-bit scale, 8-bit codes; 34 bytes.
//!
//! A value is `d * code`.

use super::q4_0::inverse;
use super::{Block, f16_to_f32, field, finite, scale_bits};
use crate::DType;

/// A block of 32 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q8_0 {
    /// The scale, as half-precision bits.
    pub d: u16,
    /// The codes.
    pub qs: [i8; 32],
}

const _: () = assert!(size_of::<Q8_0>() == Q8_0::BYTES);

impl Block for Q8_0 {
    const DTYPE: DType = DType::Q8_0;
    const LEN: usize = 32;
    const BYTES: usize = 34;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        Q8_0 { d: u16::from_le_bytes(field(bytes, 0)), qs: field::<32>(bytes, 2).map(|q| q as i8) }
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[..2].copy_from_slice(&self.d.to_le_bytes());
        out[2..].copy_from_slice(&self.qs.map(|q| q as u8));
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let d = f16_to_f32(self.d);
        for (value, &q) in out.iter_mut().zip(&self.qs) {
            *value = f32::from(q) * d;
        }
    }

    /// Encodes with the largest magnitude as code ±127; halves are rounded away from zero.
    #[inline(always)]
    fn encode(x: &[f32]) -> Self {
        assert_eq!(x.len(), Self::LEN);
        let largest = x.iter().fold(0.0, |m: f32, &v| m.max(finite(v).abs()));
        let d = largest / 127.0;
        let bits = scale_bits(d);
        let id = inverse(d, bits);
        let mut qs = [0; 32];
        for (q, &v) in qs.iter_mut().zip(x) {
            *q = (finite(v) * id).round().clamp(-127.0, 127.0) as i8;
        }
        Q8_0 { d: bits, qs }
    }
}
