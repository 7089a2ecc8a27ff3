//! IQ4_XS: super-blocks of 256 values in eight groups of 32; the 4-bit codes of IQ4_NL, a 6-bit scale
//! per group, one 16-bit factor over all of them; 136 bytes.
//!
//! A value is `(d * (scale - 32)) * VALUES[code]`. The low four bits of the scales are two to a byte,
//! the high two bits side by side in 16 bits. Every group has 16 bytes of codes, in which byte `j`
//! holds the code of value `j` below and that of value `j + 16` above.

use super::iq4_nl::{IQ4_VALUES, code_of, shape};
use super::symmetric::Search;
use super::{Block, f16_to_f32, field, scale_bits, weights_of};
use crate::DType;

const GROUPS: usize = 8;
const GROUP: usize = 32;

/// A super-block of 256 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IQ4XS {
    /// The factor of the scales, as half-precision bits.
    pub d: u16,
    /// The high two bits of the scales.
    pub scales_h: u16,
    /// The low four bits of the scales.
    pub scales_l: [u8; 4],
    /// Two codes per byte.
    pub qs: [u8; 128],
}

const _: () = assert!(size_of::<IQ4XS>() == IQ4XS::BYTES);

impl IQ4XS {
    /// Returns the scale of group `j` (0 to 7), from -32 to 31.
    pub fn scale(&self, j: usize) -> i8 {
        let low = self.scales_l[j / 2] >> (j % 2 * 4) & 15;
        let high = (self.scales_h >> (2 * j) & 3) as u8;
        (low | high << 4) as i8 - 32
    }
}

impl Block for IQ4XS {
    const DTYPE: DType = DType::IQ4XS;
    const LEN: usize = GROUPS * GROUP;
    const BYTES: usize = 136;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        IQ4XS {
            d: u16::from_le_bytes(field(bytes, 0)),
            scales_h: u16::from_le_bytes(field(bytes, 2)),
            scales_l: field(bytes, 4),
            qs: field(bytes, 8),
        }
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[..2].copy_from_slice(&self.d.to_le_bytes());
        out[2..4].copy_from_slice(&self.scales_h.to_le_bytes());
        out[4..8].copy_from_slice(&self.scales_l);
        out[8..].copy_from_slice(&self.qs);
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let d = f16_to_f32(self.d);
        for (j, group) in out.chunks_exact_mut(GROUP).enumerate() {
            let scale = d * f32::from(self.scale(j));
            for (i, value) in group.iter_mut().enumerate() {
                let code = self.qs[j * 16 + i % 16] >> (i / 16 * 4) & 15;
                *value = scale * f32::from(IQ4_VALUES[usize::from(code)]);
            }
        }
    }

    /// Searches for the scales with the least squared error.
    fn encode(x: &[f32]) -> Self {
        Self::encode_weighted(x, &[1.0; Self::LEN])
    }

    #[inline(always)]
    fn encode_weighted(x: &[f32], weights: &[f32]) -> Self {
        let w = weights_of(weights);
        let (p, values) = Search::<_, GROUPS>::new(x, &w, shape(-32.0)).run();
        let mut block = IQ4XS { d: scale_bits(p.d), scales_h: 0, scales_l: [0; 4], qs: [0; 128] };
        for (j, scale) in p.scales.iter().enumerate() {
            let scale = (scale + 32.0) as u8;
            block.scales_l[j / 2] |= (scale & 15) << (j % 2 * 4);
            block.scales_h |= u16::from(scale >> 4) << (2 * j);
        }
        for (i, &value) in values.iter().enumerate() {
            let (j, i) = (i / GROUP, i % GROUP);
            block.qs[j * 16 + i % 16] |= code_of(value) << (i / 16 * 4);
        }
        block
    }
}
