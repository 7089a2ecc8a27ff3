//! [`IntSimd`] on AVX2 with VNNI: 16 rows as two registers of 8, as on AVX2, but one instruction multiplies unsigned
//! quantised values with signed activations and adds four products, without saturation.
//!
//! As on AVX-512, signed quantised values are offset by 128, and sums that fit 16 bits are scaled and added by one
//! `vpdpwssd`. The sums of six columns take twelve of the sixteen registers: enough to keep two multipliers with a
//! latency of five cycles busy.

use crate::simd::int::{F32Simd, FLOATS, IntSimd, ReadQuants, WORDS};
use crate::simd::x86_64::avx2_int::{V, both, with};
use crate::simd::x86_64::common::{join_max, join_sum};
use std::arch::x86_64::*;
use std::ops::Range;

/// Token that code runs inside a function compiled for AVX2, FMA, F16C and AVX-VNNI.
#[derive(Clone, Copy)]
pub(crate) struct AvxVnniInt(());

impl AvxVnniInt {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        AvxVnniInt(())
    }

    /// Adds the products with the four activations at `word`; with `shift` quantised values are signed.
    #[inline(always)]
    unsafe fn dot(self, shift: bool, part: V, quants: V, word: *const i8) -> V {
        let y = with!(_mm256_set1_epi32(word.cast::<i32>().read_unaligned()));
        both!(|h| {
            let quants =
                if shift { _mm256_xor_si256(quants[h], _mm256_set1_epi8(i8::MIN)) } else { quants[h] };
            _mm256_dpbusd_avx_epi32(part[h], quants, y)
        })
    }
}

impl IntSimd for AvxVnniInt {
    crate::simd::x86_64::avx2_int::two_registers!();

    const PARTS_TOGETHER: usize = 3;

    crate::simd::x86_64::common::unsigned_products!();

    #[inline(always)]
    fn biased_floats(self, a: V) -> [__m256; 2] {
        with!([_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(a[1])])
    }
    #[inline(always)]
    fn shift(self, a: V, b: u8) -> V {
        both!(|h| _mm256_add_epi8(a[h], _mm256_set1_epi8(b as i8)))
    }
    #[inline(always)]
    fn add_squares(self, total: V, quants: V) -> V {
        both!(|h| {
            let magnitudes = _mm256_abs_epi8(quants[h]);
            _mm256_dpbusd_avx_epi32(total[h], magnitudes, magnitudes)
        })
    }
    #[inline(always)]
    unsafe fn begin(self, start: *const i32, _zero: i32) -> V {
        with!([_mm256_set1_epi32(*start); 2])
    }
    #[inline(always)]
    fn add<const SIGNED: bool>(self, total: V, part: V) -> V {
        both!(|h| _mm256_add_epi32(total[h], part[h]))
    }
    #[inline(always)]
    fn scale<const HOW: u8>(self, bytes: __m128i, signed: bool) -> V {
        both!(|h| {
            let half = if h == 0 { bytes } else { _mm_srli_si128::<8>(bytes) };
            let wide = if signed { _mm256_cvtepi8_epi32(half) } else { _mm256_cvtepu8_epi32(half) };
            match HOW {
                FLOATS => _mm256_castps_si256(_mm256_cvtepi32_ps(wide)),
                // The high half of a sum is its sign and must not be multiplied.
                WORDS => _mm256_and_si256(wide, _mm256_set1_epi32(0xffff)),
                _ => wide,
            }
        })
    }
    #[inline(always)]
    fn add_scaled<const SIGNED: bool, const HOW: u8>(self, total: V, part: V, scale: V) -> V {
        both!(|h| match HOW {
            FLOATS => {
                let (scale, total) = (_mm256_castsi256_ps(scale[h]), _mm256_castsi256_ps(total[h]));
                _mm256_castps_si256(_mm256_fmadd_ps(_mm256_cvtepi32_ps(part[h]), scale, total))
            }
            WORDS => _mm256_dpwssd_avx_epi32(total[h], part[h], scale[h]),
            _ => _mm256_add_epi32(total[h], _mm256_mullo_epi32(part[h], scale[h])),
        })
    }
    #[inline(always)]
    unsafe fn add_pairs(self, total: V, pairs: V, word: *const i32) -> V {
        both!(|h| _mm256_dpwssd_avx_epi32(total[h], pairs[h], _mm256_set1_epi32(*word)))
    }
    #[inline(always)]
    fn floats<const HOW: u8>(self, a: V) -> [__m256; 2] {
        both!(|h| if HOW == FLOATS { _mm256_castsi256_ps(a[h]) } else { _mm256_cvtepi32_ps(a[h]) })
    }
}

impl F32Simd for AvxVnniInt {
    crate::simd::x86_64::avx2_int::two_registers_whole!();
}
