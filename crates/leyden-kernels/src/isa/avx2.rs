//! AVX2 + FMA + F16C: lane conversions for the generic array code, and the loops of attention.

use super::Isa;
use super::avx2_dot::Avx2Dot;
use crate::attention::loops::{self, Keys, Row, Values};
use std::arch::x86_64::*;

/// Token that code runs inside a function compiled for AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(Avx2Dot);

impl Avx2 {
    /// The token; being callable only inside such a function is what makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    pub(crate) fn in_feature_region() -> Avx2 {
        Avx2(Avx2Dot::in_feature_region())
    }
}

impl Isa for Avx2 {
    #[inline(always)]
    fn f16_to_f32(self, h: &[u16; 16]) -> [f32; 16] {
        let p: *const __m128i = h.as_ptr().cast();
        // SAFETY: the token proves F16C; h holds two unaligned 16-byte halves; [f32; 16] is two __m256.
        unsafe {
            let lo = _mm256_cvtph_ps(_mm_loadu_si128(p));
            let hi = _mm256_cvtph_ps(_mm_loadu_si128(p.add(1)));
            std::mem::transmute([lo, hi])
        }
    }

    #[inline(always)]
    fn f32_to_f16(self, x: &[f32; 16]) -> [u16; 16] {
        let p = x.as_ptr();
        // SAFETY: the token proves F16C; x holds two unaligned 32-byte halves; [u16; 16] is two __m128i.
        unsafe {
            let lo = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(p));
            let hi = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm256_loadu_ps(p.add(8)));
            std::mem::transmute([lo, hi])
        }
    }

    super::vector_attention!(|token| token.0);
}
