//! IQ1_S and IQ1_M: super-blocks of 256 values; eight values are an entry of a codebook of -1, 0 and 1, shifted by
//! ±1/8; one half-precision factor and 3-bit scales. Decoded only.

use super::{Block, f16_to_f32, field, grids, raw_block};
use crate::DType;

/// Magnitude of the shift of a codebook entry's values.
const SHIFT: f32 = 0.125;

raw_block! {
    /// 1.56 bits per value: a scale and a shift for 32 values; 50 bytes.
    IQ1S, 256, 50, decode_s
}
raw_block! {
    /// 1.75 bits per value: a scale for 16 values, a shift for eight; the factor is spread over the scales; 56 bytes.
    IQ1M, 256, 56, decode_m
}

/// Decodes `d`, the low bytes of the indices, then 16 bits for each 32 values: the indices' high bits, scale, shift.
fn decode_s(b: &[u8; 50], out: &mut [f32]) {
    let d = f16_to_f32(u16::from_le_bytes(field(b, 0)));
    for (j, out) in out.chunks_exact_mut(8).enumerate() {
        let bits = u16::from_le_bytes(field(b, 34 + j / 4 * 2));
        let high = usize::from(bits >> (j % 4 * 3) & 7) << 8;
        let factor = d * f32::from(2 * (bits >> 12 & 7) + 1);
        point(factor, usize::from(b[j + 2]) | high, bits >> 15 == 1, out);
    }
}

/// Decodes the low bytes of the indices, four bits each of high bits and shift, then 16 bits for each 64 values: four
/// scales and four bits of `d`.
fn decode_m(b: &[u8; 56], out: &mut [f32]) {
    let words: [u16; 4] = std::array::from_fn(|i| u16::from_le_bytes(field(b, 48 + 2 * i)));
    let d = f16_to_f32(words.iter().enumerate().fold(0, |d, (i, word)| d | (word >> 12) << (4 * i)));
    for (j, out) in out.chunks_exact_mut(8).enumerate() {
        let bits = b[32 + j / 2] >> (j % 2 * 4);
        let factor = d * f32::from(2 * (words[j / 8] >> (j / 2 % 4 * 3) & 7) + 1);
        point(factor, usize::from(b[j]) | usize::from(bits & 7) << 8, bits & 8 != 0, out);
    }
}

fn point(factor: f32, number: usize, down: bool, out: &mut [f32]) {
    let shift = if down { -SHIFT } else { SHIFT };
    for (value, &level) in out.iter_mut().zip(&grids::IQ1[number]) {
        *value = factor * (f32::from(level) - 1.0 + shift);
    }
}
