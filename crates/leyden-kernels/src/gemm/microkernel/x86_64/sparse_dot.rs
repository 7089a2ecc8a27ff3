//! [`SparseDot`] on AVX2, AVX2 with VNNI, AVX-512 with VNNI, and AVX-512 with VBMI. Without VBMI, windows have 16 places.

use crate::gemm::microkernel::sparse_dot::SparseDot;
use crate::gemm::microkernel::x86_64::int8_dot::{Avx2Dot, Avx512Dot, AvxVnniDot};
use std::arch::x86_64::*;

/// Token that code runs inside a function compiled for AVX2.
#[derive(Clone, Copy)]
pub(crate) struct ChooseAvx2(Avx2Dot);

/// Token that code runs inside a function compiled for AVX2 and AVX-VNNI.
#[derive(Clone, Copy)]
pub(crate) struct ChooseAvxVnni(AvxVnniDot);

/// Token that code runs inside a function compiled for AVX-512 and VNNI.
#[derive(Clone, Copy)]
pub(crate) struct ChooseAvx512(Avx512Dot);

/// Token that code runs inside a function compiled for AVX-512, VNNI and VBMI.
#[derive(Clone, Copy)]
pub(crate) struct ChooseVbmi(Avx512Dot);

impl ChooseAvx2 {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        ChooseAvx2(Avx2Dot::in_feature_region())
    }
}

impl ChooseAvxVnni {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        ChooseAvxVnni(AvxVnniDot::in_feature_region())
    }
}

impl ChooseAvx512 {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        ChooseAvx512(Avx512Dot::in_feature_region())
    }
}

impl ChooseVbmi {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512vbmi")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        ChooseVbmi(Avx512Dot::in_feature_region())
    }
}

/// Implements the loads of [`SparseDot`] with two vectors of 32 bytes.
macro_rules! loads_of_avx2 {
    ($dense:ty) => {
        type Dense = $dense;
        type Places = [__m256i; 2];
        type Chosen = [__m256i; 2];
        const TOKENS: [usize; 2] = [4, 1];

        #[inline(always)]
        fn dense(self) -> $dense {
            self.0
        }
        #[inline(always)]
        unsafe fn sums(self, p: *const u8) -> [__m256i; 2] {
            // SAFETY: the token proves the features; 64 readable bytes (`# Safety`).
            unsafe { [_mm256_loadu_si256(p.cast()), _mm256_loadu_si256(p.add(32).cast())] }
        }
        #[inline(always)]
        unsafe fn places(self, p: *const u8) -> [__m256i; 2] {
            // SAFETY: 64 readable bytes (`# Safety`).
            unsafe { self.sums(p) }
        }
        #[inline(always)]
        unsafe fn choose(self, places: [__m256i; 2], window: *const u8) -> [__m256i; 2] {
            // SAFETY: the token proves the features; 16 readable bytes (`# Safety`).
            unsafe {
                let window = _mm256_broadcastsi128_si256(_mm_loadu_si128(window.cast()));
                [_mm256_shuffle_epi8(window, places[0]), _mm256_shuffle_epi8(window, places[1])]
            }
        }
    };
}

/// Implements the loads of [`SparseDot`] with one vector of 64 bytes.
macro_rules! loads_of_avx512 {
    () => {
        type Dense = Avx512Dot;
        type Places = __m512i;
        type Chosen = __m512i;
        const TOKENS: [usize; 2] = [12, 6];
        const UNSIGNED: bool = true;

        #[inline(always)]
        fn dense(self) -> Avx512Dot {
            self.0
        }
        #[inline(always)]
        unsafe fn sums(self, p: *const u8) -> __m512i {
            // SAFETY: the token proves the features; 64 readable bytes (`# Safety`).
            unsafe { _mm512_loadu_si512(p.cast()) }
        }
        #[inline(always)]
        unsafe fn places(self, p: *const u8) -> __m512i {
            // SAFETY: 64 readable bytes (`# Safety`).
            unsafe { self.sums(p) }
        }
        #[inline(always)]
        unsafe fn add_products(self, sums: __m512i, chosen: __m512i, weights: *const u8) -> __m512i {
            // SAFETY: the token proves the features; 64 readable bytes (`# Safety`).
            unsafe { _mm512_dpbusd_epi32(sums, chosen, _mm512_loadu_si512(weights.cast())) }
        }
        #[inline(always)]
        fn interleave(self, [a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
            // SAFETY: the token proves the features.
            unsafe {
                let ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
                let cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
                let ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
                let cd_high = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
                // Lanes 0, 4, 8 and 12 of all four, then 1, 5, 9 and 13, and so on.
                let first = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
                let second = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
                let third = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, cd_high));
                let fourth = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, cd_high));
                let low = _mm512_shuffle_f32x4::<0x44>(first, second);
                let low_others = _mm512_shuffle_f32x4::<0x44>(third, fourth);
                let high = _mm512_shuffle_f32x4::<0xee>(first, second);
                let high_others = _mm512_shuffle_f32x4::<0xee>(third, fourth);
                [
                    _mm512_shuffle_f32x4::<0x88>(low, low_others),
                    _mm512_shuffle_f32x4::<0xdd>(low, low_others),
                    _mm512_shuffle_f32x4::<0x88>(high, high_others),
                    _mm512_shuffle_f32x4::<0xdd>(high, high_others),
                ]
            }
        }
    };
}

/// With magnitudes of weights, which take the sign of the weight from the activation: the sum of two products has a
/// magnitude of at most 2 * 128 * 127, so `VPMADDUBSW` does not saturate.
impl SparseDot for ChooseAvx2 {
    loads_of_avx2!(Avx2Dot);
    const UNSIGNED: bool = false;

    #[inline(always)]
    unsafe fn add_products(
        self,
        mut sums: [__m256i; 2],
        chosen: [__m256i; 2],
        weights: *const u8,
    ) -> [__m256i; 2] {
        for h in 0..2 {
            // SAFETY: the token proves the features; 64 readable bytes (`# Safety`).
            sums[h] = unsafe {
                let weights = _mm256_loadu_si256(weights.add(32 * h).cast());
                let signed = _mm256_sign_epi8(chosen[h], weights);
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), signed);
                _mm256_add_epi32(sums[h], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
            };
        }
        sums
    }
}

impl SparseDot for ChooseAvxVnni {
    loads_of_avx2!(AvxVnniDot);
    const UNSIGNED: bool = true;

    #[inline(always)]
    unsafe fn add_products(
        self,
        mut sums: [__m256i; 2],
        chosen: [__m256i; 2],
        weights: *const u8,
    ) -> [__m256i; 2] {
        for h in 0..2 {
            // SAFETY: the token proves the features; 64 readable bytes (`# Safety`).
            sums[h] = unsafe {
                let weights = _mm256_loadu_si256(weights.add(32 * h).cast());
                _mm256_dpbusd_avx_epi32(sums[h], chosen[h], weights)
            };
        }
        sums
    }
}

impl SparseDot for ChooseAvx512 {
    loads_of_avx512!();

    #[inline(always)]
    unsafe fn choose(self, places: __m512i, window: *const u8) -> __m512i {
        // SAFETY: the token proves the features; 16 readable bytes (`# Safety`).
        unsafe { _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(window.cast())), places) }
    }
}

/// Only made where there is VBMI.
impl SparseDot for ChooseVbmi {
    loads_of_avx512!();

    #[inline(always)]
    unsafe fn choose(self, places: __m512i, window: *const u8) -> __m512i {
        // SAFETY: the token proves the features; 64 readable bytes (`# Safety`).
        unsafe { _mm512_permutexvar_epi8(places, _mm512_loadu_si512(window.cast())) }
    }
}
