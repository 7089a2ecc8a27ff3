//! Q5_1: blocks of 32 values, one 16-bit scale, one 16-bit minimum, 5-bit codes; 24 bytes.
//!
//! A value is `d * code + m`. The codes are laid out as in Q5_0.

use super::min_scale::{self, MinScale};
use super::q5_0::{pack, unpack};
use super::{Block, f16_to_f32, field};
use crate::DType;

/// A block of 32 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q5_1 {
    /// The scale, as half-precision bits.
    pub d: u16,
    /// The minimum, as half-precision bits.
    pub m: u16,
    /// The high bits of the codes, little-endian.
    pub qh: [u8; 4],
    /// The low four bits of two codes per byte.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<Q5_1>() == Q5_1::BYTES);

impl Block for Q5_1 {
    const DTYPE: DType = DType::Q5_1;
    const LEN: usize = 32;
    const BYTES: usize = 24;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        Q5_1 {
            d: u16::from_le_bytes(field(bytes, 0)),
            m: u16::from_le_bytes(field(bytes, 2)),
            qh: field(bytes, 4),
            qs: field(bytes, 8),
        }
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[..2].copy_from_slice(&self.d.to_le_bytes());
        out[2..4].copy_from_slice(&self.m.to_le_bytes());
        out[4..8].copy_from_slice(&self.qh);
        out[8..].copy_from_slice(&self.qs);
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let (d, m) = (f16_to_f32(self.d), f16_to_f32(self.m));
        for (value, code) in out.iter_mut().zip(unpack(self.qh, &self.qs)) {
            *value = d * f32::from(code) + m;
        }
    }

    /// Encodes with the smallest value as code 0 and the largest as code 31.
    fn encode(x: &[f32]) -> Self {
        assert_eq!(x.len(), Self::LEN);
        let scale = MinScale::of(x, 31.0);
        let (qh, qs) = pack(std::array::from_fn(|i| scale.code(x[i])));
        Q5_1 { d: scale.d, m: scale.m, qh, qs }
    }

    /// Searches for the scale and minimum with the least squared error.
    #[inline(always)]
    fn encode_weighted(x: &[f32], w: &[f32]) -> Self {
        assert_eq!((x.len(), w.len()), (Self::LEN, Self::LEN));
        let (d, m, codes) = min_scale::search(x, w, 31.0);
        let (qh, qs) = pack(codes);
        Q5_1 { d, m, qh, qs }
    }
}
