//! AVX-512: lane conversions for the generic array code, and the loops of attention.

use super::Isa;
use super::avx512_dot::Avx512Dot;
use crate::attention::loops::{self, Keys, Row, Values};
use std::arch::x86_64::*;

/// Token that code runs inside a function compiled for AVX-512 F, BW, DQ, VL and VNNI.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(Avx512Dot);

impl Avx512 {
    /// The token; being callable only inside such a function is what makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    #[inline]
    pub(crate) fn in_feature_region() -> Avx512 {
        Avx512(Avx512Dot::in_feature_region())
    }
}

impl Isa for Avx512 {
    const MANY_REGISTERS: bool = true;

    #[inline(always)]
    fn f16_to_f32(self, h: &[u16; 16]) -> [f32; 16] {
        // SAFETY: the token proves AVX-512 F; h holds 32 bytes; [f32; 16] is one __m512.
        unsafe { std::mem::transmute(_mm512_cvtph_ps(_mm256_loadu_si256(h.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn f32_to_f16(self, x: &[f32; 16]) -> [u16; 16] {
        // SAFETY: the token proves AVX-512 F; x holds 64 bytes; [u16; 16] is one __m256i.
        unsafe {
            let x = _mm512_loadu_ps(x.as_ptr());
            std::mem::transmute(_mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(x))
        }
    }

    #[inline(always)]
    fn int8_products(self, rounds: u64) -> u64 {
        const CHAINS: usize = 16;
        // SAFETY: the token proves AVX-512 F and VNNI.
        unsafe {
            let x = std::hint::black_box(_mm512_set1_epi8(1));
            let mut sums = [x; CHAINS];
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = _mm512_dpbusd_epi32(*sum, x, x);
                }
            }
            std::hint::black_box(sums);
        }
        rounds * (CHAINS * 64) as u64
    }
    #[inline(always)]
    fn f32_products(self, rounds: u64) -> u64 {
        const CHAINS: usize = 16;
        // SAFETY: the token proves AVX-512 F.
        unsafe {
            let x = std::hint::black_box(_mm512_set1_ps(0.5));
            let mut sums = [x; CHAINS];
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = _mm512_fmadd_ps(*sum, x, x);
                }
            }
            std::hint::black_box(sums);
        }
        rounds * (CHAINS * 16) as u64
    }
    #[inline(always)]
    fn prefetch(self, p: *const u8) {
        // SAFETY: the token proves SSE; a prefetch reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.cast()) };
    }

    super::vector_attention!(|token| token.0);
}
