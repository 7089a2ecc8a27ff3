//! Q6_K: super-blocks of 256 values in sixteen groups of 16; 6-bit codes, an 8-bit scale per group,
//! one 16-bit factor over all of them; 210 bytes.
//!
//! A value is `(d * scale) * (code - 32)`. Each half of 128 values has 64 bytes of low code bits and
//! 32 bytes of high ones. In four runs of 32 values, run 0 and 1 take the low halves of the low
//! bytes, run 2 and 3 the high halves; run r takes bits 2r and 2r+1 of the high bytes.

use super::fit::{Integers, Starts};
use super::symmetric::{Search, Shape};
use super::{Block, f16_to_f32, field, scale_bits, weights_of};
use crate::DType;

const GROUPS: usize = 16;
const GROUP: usize = 16;
/// The largest value of a group becomes a code from 30 to 33.6 (clipped) on either side.
const SHAPE: Shape<Integers> = Shape {
    codes: Integers(-32.0, 31.0),
    extreme: -32.0,
    low_scale: -128.0,
    starts: Starts { first: 30.0, step: 0.4, n: 10 },
};

/// A super-block of 256 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q6K {
    /// The low four bits of the codes.
    pub ql: [u8; 128],
    /// The high two bits of the codes.
    pub qh: [u8; 64],
    /// The scales of the groups.
    pub scales: [i8; 16],
    /// The factor of the scales, as half-precision bits.
    pub d: u16,
}

const _: () = assert!(size_of::<Q6K>() == Q6K::BYTES);

/// Returns index and shift of the low bits of value `i`'s code, and those of its high bits.
#[inline(always)]
fn place(i: usize) -> (usize, usize, usize, usize) {
    let (half, run, at) = (i / 128, i / 32 % 4, i % 32);
    (half * 64 + run % 2 * 32 + at, run / 2 * 4, half * 32 + at, run * 2)
}

impl Block for Q6K {
    const DTYPE: DType = DType::Q6K;
    const LEN: usize = GROUPS * GROUP;
    const BYTES: usize = 210;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        Q6K {
            ql: field(bytes, 0),
            qh: field(bytes, 128),
            scales: field::<16>(bytes, 192).map(|s| s as i8),
            d: u16::from_le_bytes(field(bytes, 208)),
        }
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[..128].copy_from_slice(&self.ql);
        out[128..192].copy_from_slice(&self.qh);
        out[192..208].copy_from_slice(&self.scales.map(|s| s as u8));
        out[208..].copy_from_slice(&self.d.to_le_bytes());
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let d = f16_to_f32(self.d);
        for (i, value) in out.iter_mut().enumerate() {
            let (low, low_shift, high, high_shift) = place(i);
            let code = self.ql[low] >> low_shift & 15 | (self.qh[high] >> high_shift & 3) << 4;
            *value = d * f32::from(self.scales[i / GROUP]) * (f32::from(code) - 32.0);
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
        let mut block =
            Q6K { ql: [0; 128], qh: [0; 64], scales: p.scales.map(|s| s as i8), d: scale_bits(p.d) };
        for (i, code) in codes.iter().enumerate() {
            let code = (code + 32.0) as u8;
            let (low, low_shift, high, high_shift) = place(i);
            block.ql[low] |= (code & 15) << low_shift;
            block.qh[high] |= code >> 4 << high_shift;
        }
        block
    }
}
