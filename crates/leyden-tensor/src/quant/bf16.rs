//! BF16: the upper half of a 32-bit float, little-endian.

use super::{Block, field};
use crate::DType;

/// The bits of a single bfloat16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BF16(pub u16);

/// Returns the value of a bfloat16. Exact, NaN payloads included.
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Returns the nearest bfloat16, ties to even. A NaN becomes quiet and keeps its sign and upper
/// fraction bits; subnormal numbers are kept.
pub fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    // Infinity has no fraction bits to round, so the sum cannot wrap.
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

impl Block for BF16 {
    const DTYPE: DType = DType::BF16;
    const LEN: usize = 1;
    const BYTES: usize = 2;

    #[inline(always)]
    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        BF16(u16::from_le_bytes(field(bytes, 0)))
    }

    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.0.to_le_bytes());
    }

    #[inline(always)]
    fn decode(&self, out: &mut [f32]) {
        out.copy_from_slice(&[bf16_to_f32(self.0)]);
    }

    fn encode(x: &[f32]) -> Self {
        assert_eq!(x.len(), Self::LEN);
        BF16(f32_to_bf16(x[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_65536_values_come_back() {
        for bits in 0..=u16::MAX {
            let x = bf16_to_f32(bits);
            assert_eq!(x.to_bits(), u32::from(bits) << 16);
            let want = if x.is_nan() { bits | 0x40 } else { bits };
            assert_eq!(f32_to_bf16(x), want, "{bits:#06x}");
        }
    }

    #[test]
    fn all_gaps_round_to_nearest_even() {
        for low in (0..0x7f80u16).chain(0x8000..0xff80) {
            let tie = (u32::from(low) << 16) | 0x8000;
            let even = if low % 2 == 0 { low } else { low + 1 };
            assert_eq!(f32_to_bf16(f32::from_bits(tie)), even);
            assert_eq!(f32_to_bf16(f32::from_bits(tie - 1)), low);
            assert_eq!(f32_to_bf16(f32::from_bits(tie + 1)), low + 1);
        }
    }
}
