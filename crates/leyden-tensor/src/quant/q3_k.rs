//! Q3_K: super-blocks of 256 values in sixteen groups of 16; 3-bit codes, a 6-bit scale per group, one
//! 16-bit factor over all of them; 110 bytes.
//!
//! A value is `(d * (scale - 32)) * (code - 4)`. The low two bits of the codes are laid out as in
//! Q2_K; bit r of byte `at` of the mask is the high bit of value `32 * r + at`. Of the sixteen scales,
//! scale j has its low four bits in byte `j % 8`, above those of scale `j - 8` from j = 8 on, and its
//! high two bits in byte `8 + j % 4` from bit `j / 4 * 2`.

use super::fit::{Integers, Starts};
use super::q2_k::place;
use super::symmetric::{Search, Shape};
use super::{Block, f16_to_f32, field, scale_bits, weights_of};
use crate::DType;

const GROUPS: usize = 16;
const GROUP: usize = 16;
/// The largest value of a group becomes a code from 2.5 (rounded) to 5.4 (clipped) on either side.
const SHAPE: Shape<Integers> = Shape {
    codes: Integers(-4.0, 3.0),
    extreme: -4.0,
    low_scale: -32.0,
    starts: Starts { first: 2.5, step: 0.2, n: 15 },
};

/// A super-block of 256 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q3K {
    /// The high bits of the codes.
    pub hmask: [u8; 32],
    /// The low two bits of the codes.
    pub qs: [u8; 64],
    /// The scales of the groups, packed.
    pub scales: [u8; 12],
    /// The factor of the scales, as half-precision bits.
    pub d: u16,
}

const _: () = assert!(size_of::<Q3K>() == Q3K::BYTES);

impl Q3K {
    /// Returns the scale of group `j` (0 to 15), from -32 to 31.
    pub fn scale(&self, j: usize) -> i8 {
        let low = self.scales[j % 8] >> (j / 8 * 4) & 15;
        let high = self.scales[8 + j % 4] >> (j / 4 * 2) & 3;
        (low | high << 4) as i8 - 32
    }
}

impl Block for Q3K {
    const DTYPE: DType = DType::Q3K;
    const LEN: usize = GROUPS * GROUP;
    const BYTES: usize = 110;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        Q3K {
            hmask: field(bytes, 0),
            qs: field(bytes, 32),
            scales: field(bytes, 96),
            d: u16::from_le_bytes(field(bytes, 108)),
        }
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[..32].copy_from_slice(&self.hmask);
        out[32..96].copy_from_slice(&self.qs);
        out[96..108].copy_from_slice(&self.scales);
        out[108..].copy_from_slice(&self.d.to_le_bytes());
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let d = f16_to_f32(self.d);
        for (i, value) in out.iter_mut().enumerate() {
            let (byte, shift) = place(i);
            let code = self.qs[byte] >> shift & 3 | (self.hmask[i % 32] >> (i / 32) & 1) << 2;
            *value = d * f32::from(self.scale(i / GROUP)) * (f32::from(code) - 4.0);
        }
    }

    /// Searches for the scales with the least squared error.
    fn encode(x: &[f32]) -> Self {
        Self::encode_weighted(x, &[1.0; Self::LEN])
    }

    #[inline(always)]
    fn encode_weighted(x: &[f32], weights: &[f32]) -> Self {
        let w = weights_of(weights);
        let (p, codes) = Search::<_, GROUPS>::new(x, &w, SHAPE).run();
        let mut block = Q3K { hmask: [0; 32], qs: [0; 64], scales: [0; 12], d: scale_bits(p.d) };
        for (i, code) in codes.iter().enumerate() {
            let code = (code + 4.0) as u8;
            let (byte, shift) = place(i);
            block.qs[byte] |= (code & 3) << shift;
            block.hmask[i % 32] |= code >> 2 << (i / 32);
        }
        for (j, scale) in p.scales.iter().enumerate() {
            let scale = (scale + 32.0) as u8;
            block.scales[j % 8] |= (scale & 15) << (j / 8 * 4);
            block.scales[8 + j % 4] |= scale >> 4 << (j / 4 * 2);
        }
        block
    }
}
