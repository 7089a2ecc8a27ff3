//! Reference tier: plain Rust.

use crate::simd::Simd;
use leyden_tensor::quant::{f16_to_f32, f32_to_f16};

/// Token of the scalar tier.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

impl Simd for Scalar {
    #[inline(always)]
    fn f16_to_f32(self, h: &[u16; 16]) -> [f32; 16] {
        h.map(f16_to_f32)
    }
    #[inline(always)]
    fn f32_to_f16(self, x: &[f32; 16]) -> [u16; 16] {
        x.map(f32_to_f16)
    }
}
