//! AVX-512: lane conversions for the generic array code, and the loops of attention.

use crate::simd::x86_64::avx512_int::Avx512Int;
use crate::simd::{Moments, Simd, VectorSimd, winograd};
use std::arch::x86_64::*;

/// Token that code runs inside a function compiled for AVX-512 F, BW, DQ, VL and VNNI.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(Avx512Int);

impl Avx512 {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    #[inline]
    pub(crate) fn in_feature_region() -> Avx512 {
        Avx512(Avx512Int::in_feature_region())
    }
}

/// Stores the sum of each four lanes.
///
/// # Safety
/// AVX-512 F is there.
#[inline(always)]
unsafe fn store_sums_of_four(v: __m512i, out: &mut [i32; 4]) {
    // SAFETY: AVX-512 F is there (`# Safety`); the array has room for a vector of 128 bits.
    unsafe {
        let pairs = _mm512_add_epi32(v, _mm512_shuffle_epi32::<0b10_11_00_01>(v));
        let fours = _mm512_add_epi32(pairs, _mm512_shuffle_epi32::<0b01_00_11_10>(pairs));
        let firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        let firsts = _mm512_permutexvar_epi32(firsts, fours);
        _mm_storeu_si128(out.as_mut_ptr().cast(), _mm512_castsi512_si128(firsts));
    }
}

impl Simd for Avx512 {
    const WIDE_REGISTER_FILE: bool = true;

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
    fn store_non_temporal(self, out: &mut [f32; 16], values: &[f32; 16]) {
        if out.as_ptr().addr().is_multiple_of(64) {
            // SAFETY: the token proves AVX-512 F; both are one vector, and `out` is aligned to its size.
            unsafe { _mm512_stream_ps(out.as_mut_ptr(), _mm512_loadu_ps(values.as_ptr())) };
        } else {
            *out = *values;
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
    fn greatest_magnitude(self, x: &[f32]) -> u32 {
        // SAFETY: the token proves AVX-512 F and DQ; every chunk is a whole vector.
        unsafe {
            let mut top = _mm512_setzero_si512();
            for chunk in x.as_chunks::<16>().0 {
                let bits = _mm512_loadu_si512(chunk.as_ptr().cast());
                top = _mm512_max_epu32(top, _mm512_and_si512(bits, _mm512_set1_epi32(i32::MAX)));
            }
            let halves = (_mm512_castsi512_si256(top), _mm512_extracti32x8_epi32::<1>(top));
            crate::simd::x86_64::common::join_greatest(_mm256_max_epu32(halves.0, halves.1))
        }
    }
    #[inline(always)]
    fn greatest_masked(self, x: &[f32], mask: &[u32]) -> u32 {
        // SAFETY: the token proves AVX-512 F and DQ; every chunk is a whole vector.
        unsafe {
            let mut top = _mm512_setzero_si512();
            for (chunk, mask) in x.as_chunks::<16>().0.iter().zip(mask.as_chunks::<16>().0) {
                let bits = _mm512_loadu_si512(chunk.as_ptr().cast());
                top = _mm512_max_epu32(top, _mm512_and_si512(bits, _mm512_loadu_si512(mask.as_ptr().cast())));
            }
            let halves = (_mm512_castsi512_si256(top), _mm512_extracti32x8_epi32::<1>(top));
            crate::simd::x86_64::common::join_greatest(_mm256_max_epu32(halves.0, halves.1))
        }
    }
    #[inline(always)]
    fn store_fours(self, quants: &[i8; 16], out: &mut [i8], stride: usize) {
        // SAFETY: the token proves AVX2.
        unsafe { crate::simd::x86_64::common::store_fours(quants, out, stride) }
    }
    #[inline(always)]
    fn sum_codes(self, quants: &[i8; 16]) -> i32 {
        // SAFETY: the token proves AVX2.
        unsafe { crate::simd::x86_64::common::sum_codes(quants) }
    }
    #[inline(always)]
    fn sum_all_codes(self, quants: &[i8]) -> i32 {
        // SAFETY: the token proves AVX2.
        unsafe { crate::simd::x86_64::common::sum_all_codes(quants) }
    }
    #[inline(always)]
    fn moments(self, quants: &[i8; 128]) -> Moments {
        let mut m = Moments::default();
        let Moments { sums, magnitudes, squares } = &mut m;
        for half in 0..2 {
            // SAFETY: the token proves AVX-512 F, BW and VNNI; half the quantised values are one vector.
            unsafe {
                let (none, ones) = (_mm512_setzero_si512(), _mm512_set1_epi8(1));
                let signed = _mm512_loadu_si512(quants.as_ptr().add(64 * half).cast());
                let positive = _mm512_abs_epi8(signed);
                store_sums_of_four(
                    _mm512_dpbusd_epi32(none, ones, signed),
                    &mut sums.as_chunks_mut().0[half],
                );
                let sum = _mm512_dpbusd_epi32(none, positive, ones);
                store_sums_of_four(sum, &mut magnitudes.as_chunks_mut().0[half]);
                let sum = _mm512_dpbusd_epi32(none, positive, positive);
                store_sums_of_four(sum, &mut squares.as_chunks_mut().0[half]);
            }
        }
        m
    }
    #[inline(always)]
    fn winograd_corrections(self, quants: &[i8; 128]) -> [i32; 4] {
        let mut sums = [0; 4];
        // SAFETY: the token proves AVX-512 F, BW and VNNI; half the quantised values are one vector.
        unsafe {
            let [a, b] = [0, 64].map(|at| _mm512_loadu_si512(quants.as_ptr().add(at).cast()));
            let (first, last) = (_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xdd>(a, b));
            let x = _mm512_add_epi8(first, _mm512_set1_epi8(winograd::MORE as i8));
            let y = _mm512_sub_epi8(last, _mm512_set1_epi8(winograd::LESS as i8));
            store_sums_of_four(_mm512_dpbusd_epi32(_mm512_setzero_si512(), x, y), &mut sums);
        }
        sums.map(|sum| -(sum + 16 * winograd::MORE * winograd::LESS))
    }
}

impl VectorSimd for Avx512 {
    type Vectors = Avx512Int;

    #[inline(always)]
    fn vectors(self) -> Avx512Int {
        self.0
    }
}
