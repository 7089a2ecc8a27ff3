//! Rows of Q8_0 whose blocks share one scale: any reader of the type reads them, and a product over the whole row is one of integers.

use leyden_tensor::quant::{f16_to_f32, f32_to_f16};

/// The root of the mean square of a row's errors, relative to the mean magnitude of its values but the largest: of normal distribution about
/// 1 %. With one outlier it is some tenths, though its error is little beside the row's length; beyond this nothing but the outlier is left.
const MOST_LOSS: f64 = 1.0;

/// The least number of half precision that has all its bits.
const LEAST: f32 = 6.103_515_6e-5;

/// The greatest magnitude of a quantised value.
const GREATEST: f32 = 127.0;

/// Values and bytes of a block.
const BLOCK: (usize, usize) = (32, 34);

/// Writes a row of whole blocks, unless it loses too much with one scale, as a row does of which an outlier alone would be left, or the scale is
/// no normal number of half precision. Whether it did.
pub(crate) fn encode(x: &[f32], out: &mut [u8]) -> bool {
    let largest = x.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let bits = f32_to_f16(largest / GREATEST);
    let scale = f16_to_f32(bits);
    if largest > 0.0 && !(scale >= LEAST && scale.is_finite()) {
        return false;
    }
    let value = |x: f32| match scale > 0.0 {
        true => (x / scale).round_ties_even().clamp(-GREATEST, GREATEST),
        false => 0.0,
    };
    let (errors, magnitudes) = x.iter().fold((0.0_f64, 0.0_f64), |(errors, magnitudes), x| {
        (errors + f64::from(x - value(*x) * scale).powi(2), magnitudes + f64::from(x.abs()))
    });
    // Both means are of about as many values.
    if (errors * x.len() as f64).sqrt() > MOST_LOSS * (magnitudes - f64::from(largest)) {
        return false;
    }
    for (x, block) in x.chunks_exact(BLOCK.0).zip(out.chunks_exact_mut(BLOCK.1)) {
        block[..2].copy_from_slice(&bits.to_le_bytes());
        for (x, to) in x.iter().zip(&mut block[2..]) {
            *to = (value(*x) as i8).cast_unsigned();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_tensor::{DType, quant};

    #[test]
    fn rows_get_one_scale_unless_that_loses_much() {
        let mut x: Vec<f32> = (0..96).map(|i| ((i * 7919 % 1013) as f32 - 506.0) * 1e-3).collect();
        let (mut out, mut back) = (vec![0; 3 * BLOCK.1], vec![0.0; x.len()]);
        assert!(encode(&x, &mut out));
        assert!(out.chunks(BLOCK.1).all(|block| block[..2] == out[..2]));
        quant::decode_row(DType::Q8_0, &out, &mut back);
        let scale = f16_to_f32(u16::from_le_bytes([out[0], out[1]]));
        assert!(x.iter().zip(&back).all(|(x, b)| (x - b).abs() <= 0.51 * scale));
        assert!(encode(&[0.0; 96], &mut out) && out.iter().all(|byte| *byte == 0));
        assert!(!encode(&[1e-4; 96], &mut out), "a scale below the normal numbers");
        assert!(!encode(&[1e9; 96], &mut out), "a scale beyond half precision");
        x[17] = 9000.0;
        assert!(!encode(&x, &mut out), "an outlier");
    }
}
