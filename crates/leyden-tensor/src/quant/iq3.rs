//! IQ3_XXS and IQ3_S: super-blocks of 256 values; four values are a codebook entry with signs; one half-precision
//! factor and 4-bit scales for 32 values. Decoded only.

use super::grids::{self, even_signs, signed};
use super::{Block, f16_to_f32, field, raw_block};
use crate::DType;

raw_block! {
    /// 3.06 bits per value: seven signs stored of eight; 98 bytes.
    IQ3XXS, 256, 98, decode_xxs
}
raw_block! {
    /// 3.44 bits per value: all signs stored; 110 bytes.
    IQ3S, 256, 110, decode_s
}

/// Decodes `d`, the indices, then 32 bits of signs and scale for each 32 values.
fn decode_xxs(b: &[u8; 98], out: &mut [f32]) {
    let d = f16_to_f32(u16::from_le_bytes(field(b, 0)));
    for (group, out) in out.chunks_exact_mut(32).enumerate() {
        let bits = u32::from_le_bytes(field(b, 66 + 4 * group));
        let factor = d * (0.5 + (bits >> 28) as f32) * 0.5;
        for (j, out) in out.chunks_exact_mut(4).enumerate() {
            let point = &grids::IQ3_XXS[usize::from(b[2 + 8 * group + j])];
            signed(factor, point, even_signs(bits >> (j / 2 * 7)) >> (j % 2 * 4), out);
        }
    }
}

/// Decodes `d`, the low bytes of the indices, their high bits, signs, scales.
fn decode_s(b: &[u8; 110], out: &mut [f32]) {
    let d = f16_to_f32(u16::from_le_bytes(field(b, 0)));
    for (j, out) in out.chunks_exact_mut(4).enumerate() {
        let high = usize::from(b[66 + j / 8] >> (j % 8) & 1) << 8;
        let factor = d * f32::from(1 + 2 * (b[106 + j / 16] >> (j / 8 % 2 * 4) & 15));
        signed(factor, &grids::IQ3_S[usize::from(b[2 + j]) | high], b[74 + j / 2] >> (j % 2 * 4), out);
    }
}
