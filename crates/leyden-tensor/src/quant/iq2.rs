//! IQ2_XXS, IQ2_XS and IQ2_S: super-blocks of 256 values; eight values are a codebook entry with signs; one
//! half-precision factor and 4-bit scales. Decoded only.

use super::grids::{self, even_signs, signed};
use super::{Block, f16_to_f32, field, raw_block};
use crate::DType;

raw_block! {
    /// 2.06 bits per value: scales for 32 values, seven signs stored of eight; 66 bytes.
    IQ2XXS, 256, 66, decode_xxs
}
raw_block! {
    /// 2.31 bits per value: scales for 16 values, seven signs stored of eight; 74 bytes.
    IQ2XS, 256, 74, decode_xs
}
raw_block! {
    /// 2.56 bits per value: scales for 16 values, all signs stored; 82 bytes.
    IQ2S, 256, 82, decode_s
}

/// Decodes `d`, then for each 32 values four indices and 32 bits of signs and scale.
fn decode_xxs(b: &[u8; 66], out: &mut [f32]) {
    let d = f16_to_f32(u16::from_le_bytes(field(b, 0)));
    for (group, out) in b[2..].chunks_exact(8).zip(out.chunks_exact_mut(32)) {
        let bits = u32::from_le_bytes(field(group, 4));
        let factor = scale(d, (bits >> 28) as u8);
        for (j, out) in out.chunks_exact_mut(8).enumerate() {
            let point = &grids::IQ2_XXS[usize::from(group[j])];
            signed(factor, point, even_signs(bits >> (7 * j)), out);
        }
    }
}

/// Decodes `d`, then 16 bits for each eight values: an index and seven signs; then the scales.
fn decode_xs(b: &[u8; 74], out: &mut [f32]) {
    let d = f16_to_f32(u16::from_le_bytes(field(b, 0)));
    for (j, out) in out.chunks_exact_mut(8).enumerate() {
        let bits = u16::from_le_bytes(field(b, 2 + 2 * j));
        let factor = scale(d, b[66 + j / 4] >> (j / 2 % 2 * 4));
        signed(factor, &grids::IQ2_XS[usize::from(bits & 511)], even_signs(u32::from(bits >> 9)), out);
    }
}

/// Decodes `d`, the low bytes of the indices, signs, the indices' high bits, the scales.
fn decode_s(b: &[u8; 82], out: &mut [f32]) {
    let d = f16_to_f32(u16::from_le_bytes(field(b, 0)));
    for (j, out) in out.chunks_exact_mut(8).enumerate() {
        let high = usize::from(b[66 + j / 4] >> (j % 4 * 2) & 3) << 8;
        let factor = scale(d, b[74 + j / 4] >> (j / 2 % 2 * 4));
        signed(factor, &grids::IQ2_S[usize::from(b[2 + j]) | high], b[34 + j], out);
    }
}

/// Returns the factor of the codebook values: an eighth of an odd number, times `d`.
fn scale(d: f32, four_bits: u8) -> f32 {
    d * (0.5 + f32::from(four_bits & 15)) * 0.25
}
