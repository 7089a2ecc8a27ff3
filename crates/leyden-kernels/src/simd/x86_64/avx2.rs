//! AVX2 + FMA + F16C: lane conversions for the generic array code, and the loops of attention.

use crate::simd::x86_64::avx2_int::Avx2Int;
use crate::simd::{Moments, Simd, VectorSimd};
use std::arch::x86_64::*;

/// Token that code runs inside a function compiled for AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(Avx2Int);

impl Avx2 {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    pub(crate) fn in_feature_region() -> Avx2 {
        Avx2(Avx2Int::in_feature_region())
    }
}

impl Simd for Avx2 {
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

    #[inline(always)]
    fn int8_products(self, rounds: u64) -> u64 {
        const CHAINS: usize = 12;
        // SAFETY: the token proves AVX2.
        unsafe {
            let x = std::hint::black_box(_mm256_set1_epi8(1));
            let mut sums = [x; CHAINS];
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = _mm256_maddubs_epi16(*sum, x);
                }
            }
            std::hint::black_box(sums);
        }
        rounds * (CHAINS * 32) as u64
    }
    #[inline(always)]
    fn f32_products(self, rounds: u64) -> u64 {
        const CHAINS: usize = 12;
        // SAFETY: the token proves FMA.
        unsafe {
            let x = std::hint::black_box(_mm256_set1_ps(0.5));
            let mut sums = [x; CHAINS];
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = _mm256_fmadd_ps(*sum, x, x);
                }
            }
            std::hint::black_box(sums);
        }
        rounds * (CHAINS * 8) as u64
    }
    #[inline(always)]
    fn greatest_magnitude(self, x: &[f32]) -> u32 {
        // SAFETY: the token proves AVX2; every chunk is two whole vectors.
        unsafe {
            let mut tops = [_mm256_setzero_si256(); 2];
            for chunk in x.as_chunks::<16>().0 {
                for (half, top) in tops.iter_mut().enumerate() {
                    let bits = _mm256_loadu_si256(chunk.as_ptr().add(half * 8).cast());
                    *top = _mm256_max_epu32(*top, _mm256_and_si256(bits, _mm256_set1_epi32(i32::MAX)));
                }
            }
            crate::simd::x86_64::common::join_greatest(_mm256_max_epu32(tops[0], tops[1]))
        }
    }
    #[inline(always)]
    fn greatest_masked(self, x: &[f32], mask: &[u32]) -> u32 {
        // SAFETY: the token proves AVX2; every chunk is two whole vectors.
        unsafe {
            let mut tops = [_mm256_setzero_si256(); 2];
            for (chunk, mask) in x.as_chunks::<16>().0.iter().zip(mask.as_chunks::<16>().0) {
                for (half, top) in tops.iter_mut().enumerate() {
                    let bits = _mm256_loadu_si256(chunk.as_ptr().add(half * 8).cast());
                    let mask = _mm256_loadu_si256(mask.as_ptr().add(half * 8).cast());
                    *top = _mm256_max_epu32(*top, _mm256_and_si256(bits, mask));
                }
            }
            crate::simd::x86_64::common::join_greatest(_mm256_max_epu32(tops[0], tops[1]))
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
    fn sums_of_lanes(self, quants: &[i8; 32]) -> [i32; 2] {
        // SAFETY: the token proves AVX2; the quantised values are one vector.
        unsafe {
            let twos = _mm256_maddubs_epi16(_mm256_set1_epi8(1), _mm256_loadu_si256(quants.as_ptr().cast()));
            let fours = _mm256_add_epi16(twos, _mm256_shuffle_epi32::<0b1110>(twos));
            let sums = _mm256_add_epi16(fours, _mm256_shuffle_epi32::<1>(fours));
            let [low, high] = [_mm256_extract_epi32::<0>(sums), _mm256_extract_epi32::<4>(sums)];
            [i32::from(low as i16) + i32::from(high as i16), (low >> 16) + (high >> 16)]
        }
    }
    #[inline(always)]
    fn sums_of_first_eights(self, quants: &[i8; 128]) -> [i32; 8] {
        let mut sums = [0; 8];
        for (quants, sums) in quants.as_chunks::<32>().0.iter().zip(sums.as_chunks_mut::<2>().0) {
            // SAFETY: the token proves AVX2; the quantised values are one vector.
            unsafe {
                // Unsigned bytes are summed by one instruction: 128 is added to each, and subtracted from the sums.
                let unsigned =
                    _mm256_xor_si256(_mm256_loadu_si256(quants.as_ptr().cast()), _mm256_set1_epi8(i8::MIN));
                let eights = _mm256_sad_epu8(unsigned, _mm256_setzero_si256());
                *sums = [_mm256_extract_epi32::<0>(eights), _mm256_extract_epi32::<4>(eights)]
                    .map(|sum| sum - 8 * 128);
            }
        }
        sums
    }
    #[inline(always)]
    fn moments(self, quants: &[i8; 128]) -> Moments {
        // SAFETY: the token proves AVX2; a quarter of the quantised values is one vector.
        unsafe {
            let ones = _mm256_set1_epi8(1);
            let mut all = [[_mm256_setzero_si256(); 4]; 3];
            for q in 0..4 {
                let signed = _mm256_loadu_si256(quants.as_ptr().add(32 * q).cast());
                let positive = _mm256_abs_epi8(signed);
                all[0][q] = fours(ones, signed);
                all[1][q] = fours(positive, ones);
                all[2][q] = fours(positive, positive);
            }
            let [sums, magnitudes, squares] = all;
            Moments {
                sums: sums_of_fours(sums),
                magnitudes: sums_of_fours(magnitudes),
                squares: sums_of_fours(squares),
            }
        }
    }
}

impl VectorSimd for Avx2 {
    type Vectors = Avx2Int;

    #[inline(always)]
    fn vectors(self) -> Avx2Int {
        self.0
    }
}

/// Returns the sums of each four products of unsigned and signed quantised values, none beyond 127: sums of two fit 16
/// bits.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn fours(unsigned: __m256i, signed: __m256i) -> __m256i {
    // SAFETY: the processor has AVX2 (`# Safety`).
    unsafe { _mm256_madd_epi16(_mm256_maddubs_epi16(unsigned, signed), _mm256_set1_epi16(1)) }
}

/// Returns the sums of each four integers; the sums of the vectors' low and high halves alternate.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn sums_of_fours(v: [__m256i; 4]) -> [i32; 8] {
    // SAFETY: the processor has AVX2 (`# Safety`); the result is one vector.
    unsafe {
        let low_then_high = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
        let in_order = _mm256_permutevar8x32_epi32(low_then_high, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        std::mem::transmute(in_order)
    }
}
