//! NVFP4: the 4-bit floats of MXFP4, in groups of 16 with an 8-bit float as the scale (4 exponent bits, 3 fraction
//! bits, no sign); a block is 64 values in 36 bytes. Decoded only.

use super::{Block, MXFP4_VALUES, raw_block};
use crate::DType;

raw_block! {
    /// Four scales, then for each group eight bytes with the first values in the low halves.
    NVFP4, 64, 36, decode
}

fn decode(b: &[u8; 36], out: &mut [f32]) {
    let (scales, codes) = b.split_at(4);
    for ((&scale, codes), out) in scales.iter().zip(codes.chunks_exact(8)).zip(out.chunks_exact_mut(16)) {
        let d = scale_of(scale);
        let (low, high) = out.split_at_mut(8);
        for ((low, high), code) in low.iter_mut().zip(high).zip(codes) {
            *low = d * f32::from(MXFP4_VALUES[usize::from(code & 15)]);
            *high = d * f32::from(MXFP4_VALUES[usize::from(code >> 4)]);
        }
    }
}

/// Returns half of the 8-bit float, as the levels are doubled; its highest bit is ignored, and NaN becomes 0.
fn scale_of(bits: u8) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 3 & 15), f32::from(bits & 7));
    let scale = match (exponent, bits) {
        (_, 0x7f) => 0.0,
        (0, _) => fraction * 2_f32.powi(-9),
        _ => (1.0 + fraction / 8.0) * 2_f32.powi(exponent - 7),
    };
    scale * 0.5
}
