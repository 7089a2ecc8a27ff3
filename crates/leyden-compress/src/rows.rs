//! Rows of Q8_0 whose blocks share one scale: any reader of the type can read them, and the product over the whole
//! row is one of integers.

use leyden_tensor::quant::{INT8_GREATEST, f16_to_f32, f32_to_f16, int8_row, largest_magnitude};

/// Smallest normal number of half precision.
const MIN_NORMAL: f32 = 6.103_515_6e-5;

/// Values and bytes of a block.
const BLOCK: (usize, usize) = (32, 34);

/// Returns the loss of a row with one scale, or infinity if the scale is not a normal number of half precision.
pub(crate) fn loss(x: &[f32]) -> f64 {
    let largest = largest_magnitude(x);
    match scale(largest) {
        _ if largest == 0.0 => 0.0,
        // The same computation as when a matrix is quantised in memory, so that both decide alike.
        Some(_) => int8_row(x, largest / INT8_GREATEST, |_, _| ()),
        None => f64::INFINITY,
    }
}

/// Returns the bits of the scale of a row with this largest magnitude, and their value.
fn scale(largest: f32) -> Option<(u16, f32)> {
    let bits = f32_to_f16(largest / INT8_GREATEST);
    let scale = f16_to_f32(bits);
    (scale >= MIN_NORMAL && scale.is_finite()).then_some((bits, scale))
}

/// Writes a row of whole blocks with one scale; its [loss] must be finite.
pub(crate) fn encode(x: &[f32], out: &mut [u8]) {
    let (bits, scale) = scale(largest_magnitude(x)).unwrap_or_default();
    let blocks = out.as_chunks_mut::<{ BLOCK.1 }>().0;
    blocks.iter_mut().for_each(|block| block[..2].copy_from_slice(&bits.to_le_bytes()));
    if scale == 0.0 {
        return blocks.iter_mut().for_each(|block| block[2..].fill(0));
    }
    let _ = int8_row(x, scale, |i, value| blocks[i / BLOCK.0][2 + i % BLOCK.0] = value.cast_unsigned());
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_tensor::{DType, quant};

    #[test]
    fn rows_get_one_scale_that_half_precision_has() {
        let x: Vec<f32> = (0..96).map(|i| ((i * 7919 % 1013) as f32 - 506.0) * 1e-3).collect();
        let (mut out, mut back) = (vec![0; 3 * BLOCK.1], vec![0.0; x.len()]);
        assert!(loss(&x) < 0.01);
        encode(&x, &mut out);
        assert!(out.chunks(BLOCK.1).all(|block| block[..2] == out[..2]));
        quant::decode_row(DType::Q8_0, &out, &mut back);
        let scale = f16_to_f32(u16::from_le_bytes([out[0], out[1]]));
        assert!(x.iter().zip(&back).all(|(x, b)| (x - b).abs() <= 0.51 * scale));
        assert_eq!(loss(&[0.0; 96]), 0.0);
        encode(&[0.0; 96], &mut out);
        assert!(out.iter().all(|byte| *byte == 0));
        assert_eq!(loss(&[1e-4; 96]), f64::INFINITY, "a scale below the normal numbers");
        assert_eq!(loss(&[1e9; 96]), f64::INFINITY, "a scale beyond half precision");
    }
}
