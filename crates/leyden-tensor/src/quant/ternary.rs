//! TQ1_0, TQ2_0 and Q1_0: values are one half-precision factor times -1, 0 or 1, or times -1 or 1. Decoded
//! only.

use super::{Block, f16_to_f32, field, raw_block};
use crate::DType;

raw_block! {
    /// 1.69 bits per value: five values of three levels in a byte; 256 values in 54 bytes.
    TQ1_0, 256, 54, decode_tq1
}
raw_block! {
    /// 2.06 bits per value: four values of three levels in a byte; 256 values in 66 bytes.
    TQ2_0, 256, 66, decode_tq2
}
raw_block! {
    /// 1.13 bits per value: eight signs in a byte; 128 values in 18 bytes.
    Q1_0, 128, 18, decode_q1
}

impl TQ1_0 {
    /// Returns the levels of the values, from 0 for the lowest to 2.
    pub fn levels(&self) -> [u8; 256] {
        // A byte is the fraction of 256 whose first five digits in base three are five levels.
        const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
        let digit = |at: usize, n: usize| ((u16::from(self.0[at].wrapping_mul(POWERS[n])) * 3) >> 8) as u8;
        std::array::from_fn(|i| match i {
            0..160 => digit(i % 32, i / 32),
            160..240 => digit(32 + i % 16, (i - 160) / 16),
            _ => digit(48 + i % 4, (i - 240) / 4),
        })
    }

    /// Returns the factor of the levels, as half-precision bits.
    pub fn factor(&self) -> u16 {
        u16::from_le_bytes(field(&self.0, 52))
    }
}

impl TQ2_0 {
    /// Returns the levels of the values, from 0 for the lowest; 3, which no program writes, is twice as high as 2.
    pub fn levels(&self) -> [u8; 256] {
        std::array::from_fn(|i| self.0[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3)
    }

    /// Returns the factor of the levels, as half-precision bits.
    pub fn factor(&self) -> u16 {
        u16::from_le_bytes(field(&self.0, 64))
    }
}

fn decode_tq1(b: &[u8; 54], out: &mut [f32]) {
    let block = TQ1_0(*b);
    ternary(block.factor(), block.levels(), out);
}

fn decode_tq2(b: &[u8; 66], out: &mut [f32]) {
    let block = TQ2_0(*b);
    ternary(block.factor(), block.levels(), out);
}

fn ternary(factor: u16, levels: [u8; 256], out: &mut [f32]) {
    let d = f16_to_f32(factor);
    out.iter_mut().zip(levels).for_each(|(value, level)| *value = d * (f32::from(level) - 1.0));
}

fn decode_q1(b: &[u8; 18], out: &mut [f32]) {
    let d = f16_to_f32(u16::from_le_bytes(field(b, 0)));
    for (i, value) in out.iter_mut().enumerate() {
        *value = if b[2 + i / 8] >> (i % 8) & 1 == 1 { d } else { -d };
    }
}
