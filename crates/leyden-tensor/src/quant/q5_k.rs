//! Q5_K: super-blocks of 256 values in eight groups of 32; 5-bit codes, a 6-bit scale and a 6-bit
//! minimum per group, two 16-bit factors over all of them; 176 bytes.
//!
//! A value is `(d * scale) * code - (dmin * min)`. Scales, minima and the low four bits of the codes
//! are laid out as in Q4_K; bit j of byte `at` of `qh` is the high bit of value `at` of group j.

use super::affine::{Search, Shape};
use super::fit::Starts;
use super::q4_k::{pack_scales, scale_min};
use super::{Block, f16_to_f32, field, scale_bits, weights_of};
use crate::DType;

const GROUPS: usize = 8;
const GROUP: usize = 32;
/// The search starts from clipping the extremes by a tenth and ends with the outer codes unused.
const SHAPE: Shape =
    Shape { max_code: 31.0, max_factor: 63.0, starts: Starts { first: 28.0, step: 0.5, n: 16 } };

/// A super-block of 256 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q5K {
    /// The factor of the scales, as half-precision bits.
    pub d: u16,
    /// The factor of the minima, as half-precision bits.
    pub dmin: u16,
    /// Scales and minima, packed.
    pub scales: [u8; 12],
    /// The high bits of the codes.
    pub qh: [u8; 32],
    /// The low four bits of two codes per byte.
    pub qs: [u8; 128],
}

const _: () = assert!(size_of::<Q5K>() == Q5K::BYTES);

impl Q5K {
    /// Returns the scale and the minimum of group `j` (0 to 7), each 0 to 63.
    pub fn scale_min(&self, j: usize) -> (u8, u8) {
        scale_min(&self.scales, j)
    }
}

impl Block for Q5K {
    const DTYPE: DType = DType::Q5K;
    const LEN: usize = GROUPS * GROUP;
    const BYTES: usize = 176;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        Q5K {
            d: u16::from_le_bytes(field(bytes, 0)),
            dmin: u16::from_le_bytes(field(bytes, 2)),
            scales: field(bytes, 4),
            qh: field(bytes, 16),
            qs: field(bytes, 48),
        }
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[..2].copy_from_slice(&self.d.to_le_bytes());
        out[2..4].copy_from_slice(&self.dmin.to_le_bytes());
        out[4..16].copy_from_slice(&self.scales);
        out[16..48].copy_from_slice(&self.qh);
        out[48..].copy_from_slice(&self.qs);
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let (d, dmin) = (f16_to_f32(self.d), f16_to_f32(self.dmin));
        for (j, group) in out.chunks_exact_mut(GROUP).enumerate() {
            let (scale, min) = self.scale_min(j);
            let (scale, min) = (d * f32::from(scale), dmin * f32::from(min));
            let low = &self.qs[j / 2 * GROUP..];
            for ((value, &low), &high) in group.iter_mut().zip(low).zip(&self.qh) {
                let code = low >> (j % 2 * 4) & 15 | (high >> j & 1) << 4;
                *value = scale * f32::from(code) - min;
            }
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
        let (mut qh, mut qs) = ([0; 32], [0; 128]);
        for (i, code) in codes.iter().enumerate() {
            let (j, at) = (i / GROUP, i % GROUP);
            qs[j / 2 * GROUP + at] |= (code & 15) << (j % 2 * 4);
            qh[at] |= code >> 4 << j;
        }
        Q5K { d: scale_bits(p.d), dmin: scale_bits(p.dmin), scales: pack_scales(&p), qh, qs }
    }
}
