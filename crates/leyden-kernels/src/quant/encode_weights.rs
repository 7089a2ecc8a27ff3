//! Quantisation and decoding of weights on an instruction set: the encoders and decoders of `leyden_tensor::quant`,
//! compiled for it. Their arithmetic has a defined order, so the bytes are the same everywhere.

use crate::cpu::isa::Tier;
use crate::simd::Simd;
use crate::simd::dispatch::dispatch;
use leyden_tensor::{DType, quant};

macro_rules! encoders {
    ($($module:ident $block:ident)*) => {
        $(mod $module {
            use super::{Simd, dispatch, quant};

            #[inline(always)]
            fn blocks<I: Simd>(_: I, x: &[f32], weights: &[f32], out: &mut [u8]) {
                quant::encode_blocks_weighted::<quant::$block>(x, weights, out);
            }

            #[inline(always)]
            fn values<I: Simd>(_: I, bytes: &[u8], out: &mut [f32]) {
                quant::decode_blocks::<quant::$block>(bytes, out);
            }

            dispatch! {
                pub(super) fn encode => blocks(x: &[f32], weights: &[f32], out: &mut [u8])
            }

            dispatch! {
                pub(super) fn decode => values(bytes: &[u8], out: &mut [f32])
            }
        })*

        /// Runs [`quant::encode_row_weighted`] on a tier.
        ///
        /// # Panics
        /// As [`quant::encode_row_weighted`].
        pub fn encode_row_weighted(tier: Tier, dtype: DType, x: &[f32], weights: &[f32], out: &mut [u8]) {
            match dtype {
                $(DType::$block => $module::encode(tier, x, weights, out),)*
                _ => quant::encode_row_weighted(dtype, x, weights, out),
            }
        }

        /// Runs [`quant::decode_row`] on a tier.
        ///
        /// # Panics
        /// As [`quant::decode_row`].
        pub fn decode_row(tier: Tier, dtype: DType, bytes: &[u8], out: &mut [f32]) {
            match dtype {
                $(DType::$block => $module::decode(tier, bytes, out),)*
                _ => quant::decode_row(dtype, bytes, out),
            }
        }
    };
}

encoders! {
    f16 F16
    bf16 BF16
    q8_0 Q8_0
    q4_1 Q4_1
    q5_1 Q5_1
    q2_k Q2K
    q3_k Q3K
    q4_k Q4K
    q5_k Q5K
    q6_k Q6K
    iq4_nl IQ4NL
    iq4_xs IQ4XS
    q4_0 Q4_0
    q5_0 Q5_0
    mxfp4 MXFP4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Level;

    #[test]
    fn every_tier_writes_the_bytes_of_the_definition() {
        let x: Vec<f32> =
            (0..1024_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0).collect();
        let weights: Vec<f32> = x.iter().map(|x| x.abs() + 0.1).collect();
        for dtype in DType::encodable() {
            let bytes = dtype.row_bytes(x.len()).unwrap();
            let mut wanted = vec![0; bytes];
            quant::encode_row_weighted(dtype, &x, &weights, &mut wanted);
            for tier in Level::ALL.into_iter().filter_map(Tier::new) {
                let mut out = vec![0; bytes];
                encode_row_weighted(tier, dtype, &x, &weights, &mut out);
                assert_eq!(out, wanted, "{dtype} on {tier:?}");
                let (mut plain, mut decoded) = (vec![0.0; x.len()], vec![0.0; x.len()]);
                quant::decode_row(dtype, &wanted, &mut plain);
                decode_row(tier, dtype, &wanted, &mut decoded);
                assert_eq!(decoded, plain, "{dtype} on {tier:?}");
            }
        }
    }
}
