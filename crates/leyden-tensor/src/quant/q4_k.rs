//! Q4_K: super-blocks of 256 values in eight groups of 32; 4-bit codes, a 6-bit scale and a 6-bit
//! minimum per group, two 16-bit factors over all of them; 144 bytes.
//!
//! A value is `(d * scale) * code - (dmin * min)`. Groups 2i and 2i+1 share 32 bytes of codes, the
//! former in the low halves. Scales and minima are packed into 12 bytes: bytes 0..4 and 4..8 hold
//! those of groups 0..4 in their low six bits, bytes 8..12 the low four bits of those of groups
//! 4..8, whose upper two bits are the upper two of bytes 0..8.

use super::affine::{Params, Search, Shape};
use super::fit::Starts;
use super::{Block, f16_to_f32, field, scale_bits, weights_of};
use crate::DType;

const GROUPS: usize = 8;
const GROUP: usize = 32;
/// The search starts from clipping the extremes by a fifth and ends with the outer codes unused.
const SHAPE: Shape =
    Shape { max_code: 15.0, max_factor: 63.0, starts: Starts { first: 12.6, step: 0.4, n: 16 } };

/// A super-block of 256 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q4K {
    /// The factor of the scales, as half-precision bits.
    pub d: u16,
    /// The factor of the minima, as half-precision bits.
    pub dmin: u16,
    /// Scales and minima, packed.
    pub scales: [u8; 12],
    /// Two codes per byte.
    pub qs: [u8; 128],
}

const _: () = assert!(size_of::<Q4K>() == Q4K::BYTES);

impl Q4K {
    /// Returns the scale and the minimum of group `j` (0 to 7), each 0 to 63.
    #[inline(always)]
    pub fn scale_min(&self, j: usize) -> (u8, u8) {
        scale_min(&self.scales, j)
    }
}

/// Returns the scale and the minimum of group `j` from the packed twelve bytes.
#[inline(always)]
pub(super) fn scale_min(s: &[u8; 12], j: usize) -> (u8, u8) {
    if j < 4 {
        (s[j] & 63, s[j + 4] & 63)
    } else {
        (s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4)
    }
}

/// Packs the scales and minima of all groups, the inverse of [`scale_min`].
#[inline(always)]
pub(super) fn pack_scales(p: &Params<GROUPS>) -> [u8; 12] {
    let mut scales = [0; 12];
    for j in 0..GROUPS {
        let (s, k) = (p.scales[j] as u8, p.mins[j] as u8);
        if j < 4 {
            scales[j] |= s;
            scales[j + 4] |= k;
        } else {
            scales[j + 4] = s & 15 | (k & 15) << 4;
            scales[j - 4] |= s >> 4 << 6;
            scales[j] |= k >> 4 << 6;
        }
    }
    scales
}

impl Block for Q4K {
    const DTYPE: DType = DType::Q4K;
    const LEN: usize = GROUPS * GROUP;
    const BYTES: usize = 144;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        Q4K {
            d: u16::from_le_bytes(field(bytes, 0)),
            dmin: u16::from_le_bytes(field(bytes, 2)),
            scales: field(bytes, 4),
            qs: field(bytes, 16),
        }
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[..2].copy_from_slice(&self.d.to_le_bytes());
        out[2..4].copy_from_slice(&self.dmin.to_le_bytes());
        out[4..16].copy_from_slice(&self.scales);
        out[16..].copy_from_slice(&self.qs);
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let (d, dmin) = (f16_to_f32(self.d), f16_to_f32(self.dmin));
        for (j, group) in out.chunks_exact_mut(GROUP).enumerate() {
            let (scale, min) = self.scale_min(j);
            let (scale, min) = (d * f32::from(scale), dmin * f32::from(min));
            let shift = j % 2 * 4;
            for (value, &q) in group.iter_mut().zip(&self.qs[j / 2 * GROUP..]) {
                *value = scale * f32::from(q >> shift & 15) - min;
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
        let mut qs = [0; 128];
        for (pair, codes) in qs.chunks_exact_mut(GROUP).zip(codes.chunks_exact(2 * GROUP)) {
            let (low, high) = codes.split_at(GROUP);
            for ((q, low), high) in pair.iter_mut().zip(low).zip(high) {
                *q = low | high << 4;
            }
        }
        Q4K { d: scale_bits(p.d), dmin: scale_bits(p.dmin), scales: pack_scales(&p), qs }
    }
}
