//! Q2_K: super-blocks of 256 values in sixteen groups of 16; 2-bit codes, a 4-bit scale and a 4-bit
//! minimum per group, two 16-bit factors over all of them; 84 bytes.
//!
//! A value is `(d * scale) * code - (dmin * min)`. Each half of 128 values has 32 bytes of codes; in
//! four runs of 32 values, run r takes bits 2r and 2r+1.

use super::affine::{Search, Shape};
use super::fit::Starts;
use super::{Block, f16_to_f32, field, scale_bits, weights_of};
use crate::DType;

const GROUPS: usize = 16;
const GROUP: usize = 16;
/// The search starts from clipping the extremes by a third and ends with the outer codes unused.
const SHAPE: Shape =
    Shape { max_code: 3.0, max_factor: 15.0, starts: Starts { first: 2.0, step: 0.15, n: 16 } };

/// A super-block of 256 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q2K {
    /// The scales of the groups in the low halves, their minima in the high ones.
    pub scales: [u8; 16],
    /// Four codes per byte.
    pub qs: [u8; 64],
    /// The factor of the scales, as half-precision bits.
    pub d: u16,
    /// The factor of the minima, as half-precision bits.
    pub dmin: u16,
}

const _: () = assert!(size_of::<Q2K>() == Q2K::BYTES);

/// Returns the byte and the shift of the two bits of value `i`.
pub(super) fn place(i: usize) -> (usize, usize) {
    (i / 128 * 32 + i % 32, i / 32 % 4 * 2)
}

impl Block for Q2K {
    const DTYPE: DType = DType::Q2K;
    const LEN: usize = GROUPS * GROUP;
    const BYTES: usize = 84;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        Q2K {
            scales: field(bytes, 0),
            qs: field(bytes, 16),
            d: u16::from_le_bytes(field(bytes, 80)),
            dmin: u16::from_le_bytes(field(bytes, 82)),
        }
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[..16].copy_from_slice(&self.scales);
        out[16..80].copy_from_slice(&self.qs);
        out[80..82].copy_from_slice(&self.d.to_le_bytes());
        out[82..].copy_from_slice(&self.dmin.to_le_bytes());
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let (d, dmin) = (f16_to_f32(self.d), f16_to_f32(self.dmin));
        for (i, value) in out.iter_mut().enumerate() {
            let both = self.scales[i / GROUP];
            let (scale, min) = (d * f32::from(both & 15), dmin * f32::from(both >> 4));
            let (byte, shift) = place(i);
            *value = scale * f32::from(self.qs[byte] >> shift & 3) - min;
        }
    }

    /// Searches for the scales and minima with the least squared error.
    fn encode(x: &[f32]) -> Self {
        Self::encode_weighted(x, &[1.0; Self::LEN])
    }

    #[inline(always)]
    fn encode_weighted(x: &[f32], weights: &[f32]) -> Self {
        let w = weights_of(weights);
        let (p, codes) = Search::<GROUPS>::new(x, &w, SHAPE).run();
        let mut qs = [0; 64];
        for (i, code) in codes.iter().enumerate() {
            let (byte, shift) = place(i);
            qs[byte] |= code << shift;
        }
        let scales = std::array::from_fn(|j| p.scales[j] as u8 | (p.mins[j] as u8) << 4);
        Q2K { scales, qs, d: scale_bits(p.d), dmin: scale_bits(p.dmin) }
    }
}
