//! [`ByteDot`] on AVX2, AVX2 with VNNI, and AVX-512 with VNNI.

use crate::gemm::microkernel::byte_dot::ByteDot;
use std::arch::x86_64::*;

/// Token that code runs inside a function compiled for AVX2.
#[derive(Clone, Copy)]
pub(crate) struct Avx2Dot(());

/// Token that code runs inside a function compiled for AVX2 and AVX-VNNI.
#[derive(Clone, Copy)]
pub(crate) struct AvxVnniDot(());

/// Token that code runs inside a function compiled for AVX-512 and VNNI.
#[derive(Clone, Copy)]
pub(crate) struct Avx512Dot(());

impl Avx2Dot {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        Avx2Dot(())
    }
}

impl AvxVnniDot {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        AvxVnniDot(())
    }
}

impl Avx512Dot {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        Avx512Dot(())
    }
}

/// Implements the float operations of [`ByteDot`] with two vectors of eight.
macro_rules! floats_of_avx2 {
    () => {
        #[inline(always)]
        fn add_scaled(self, acc: Self::Acc, scale: f32, mut total: Self::Floats) -> Self::Floats {
            for h in 0..2 {
                // SAFETY: the token proves the features.
                total[h] = unsafe {
                    let sum = _mm256_cvtepi32_ps(acc[h]);
                    _mm256_fmadd_ps(sum, _mm256_set1_ps(scale), total[h])
                };
            }
            total
        }
        #[inline(always)]
        unsafe fn read(self, p: *const f32) -> Self::Floats {
            // SAFETY: the token proves the features; 16 readable floats (`# Safety`).
            unsafe { [_mm256_loadu_ps(p), _mm256_loadu_ps(p.add(8))] }
        }
        #[inline(always)]
        fn fma(self, mut a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
            for h in 0..2 {
                // SAFETY: the token proves the features.
                a[h] = unsafe { _mm256_fmadd_ps(a[h], b[h], c[h]) };
            }
            a
        }
        #[inline(always)]
        fn add(self, mut a: Self::Floats, b: Self::Floats) -> Self::Floats {
            for h in 0..2 {
                // SAFETY: the token proves the features.
                a[h] = unsafe { _mm256_add_ps(a[h], b[h]) };
            }
            a
        }
        #[inline(always)]
        unsafe fn write(self, a: Self::Floats, p: *mut f32) {
            // SAFETY: the token proves the features; room for 16 floats (`# Safety`).
            unsafe {
                _mm256_storeu_ps(p, a[0]);
                _mm256_storeu_ps(p.add(8), a[1]);
            }
        }
    };
}

/// With 16-bit integers, because `VPMADDUBSW` would saturate. Of each four values the first and third form one vector,
/// the second and fourth another.
impl ByteDot for Avx2Dot {
    /// Even values and odd ones, for each eight rows.
    type Weights = [[__m256i; 2]; 2];
    type Word = [__m256i; 2];
    type Acc = [__m256i; 2];
    type Floats = [__m256; 2];
    const TOKENS: usize = 4;
    const PANELS: usize = 1;

    #[inline(always)]
    fn begin(self, start: i32) -> Self::Acc {
        // SAFETY: the token proves the features.
        unsafe { [_mm256_set1_epi32(start); 2] }
    }
    #[inline(always)]
    unsafe fn weights(self, p: *const u8) -> Self::Weights {
        // SAFETY: the token proves the features; 64 readable bytes (`# Safety`).
        unsafe {
            let low = _mm256_set1_epi16(0xff);
            let (a, b) = (_mm256_loadu_si256(p.cast()), _mm256_loadu_si256(p.add(32).cast()));
            [
                [_mm256_and_si256(a, low), _mm256_srli_epi16::<8>(a)],
                [_mm256_and_si256(b, low), _mm256_srli_epi16::<8>(b)],
            ]
        }
    }
    #[inline(always)]
    unsafe fn word(self, p: *const i8) -> Self::Word {
        // SAFETY: the token proves the features; four readable bytes (`# Safety`).
        unsafe {
            let word = _mm256_set1_epi32(p.cast::<i32>().read_unaligned());
            [_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(word)), _mm256_srai_epi16::<8>(word)]
        }
    }
    #[inline(always)]
    fn dot(self, mut acc: Self::Acc, weights: Self::Weights, word: Self::Word) -> Self::Acc {
        for h in 0..2 {
            // SAFETY: the token proves the features.
            acc[h] = unsafe {
                let even = _mm256_madd_epi16(weights[h][0], word[0]);
                let odd = _mm256_madd_epi16(weights[h][1], word[1]);
                _mm256_add_epi32(_mm256_add_epi32(acc[h], even), odd)
            };
        }
        acc
    }
    floats_of_avx2!();
}

impl ByteDot for AvxVnniDot {
    type Weights = [__m256i; 2];
    type Word = __m256i;
    type Acc = [__m256i; 2];
    type Floats = [__m256; 2];
    const TOKENS: usize = 6;
    const PANELS: usize = 1;

    #[inline(always)]
    fn begin(self, start: i32) -> Self::Acc {
        // SAFETY: the token proves the features.
        unsafe { [_mm256_set1_epi32(start); 2] }
    }
    #[inline(always)]
    unsafe fn weights(self, p: *const u8) -> Self::Weights {
        // SAFETY: the token proves the features; 64 readable bytes (`# Safety`).
        unsafe { [_mm256_loadu_si256(p.cast()), _mm256_loadu_si256(p.add(32).cast())] }
    }
    #[inline(always)]
    unsafe fn word(self, p: *const i8) -> __m256i {
        // SAFETY: the token proves the features; four readable bytes (`# Safety`).
        unsafe { _mm256_set1_epi32(p.cast::<i32>().read_unaligned()) }
    }
    #[inline(always)]
    fn dot(self, mut acc: Self::Acc, weights: Self::Weights, word: __m256i) -> Self::Acc {
        for h in 0..2 {
            // SAFETY: the token proves the features.
            acc[h] = unsafe { _mm256_dpbusd_avx_epi32(acc[h], weights[h], word) };
        }
        acc
    }
    floats_of_avx2!();
}

/// Sums take 24 of the 32 registers.
impl ByteDot for Avx512Dot {
    type Weights = __m512i;
    type Word = __m512i;
    type Acc = __m512i;
    type Floats = __m512;
    const TOKENS: usize = 6;
    const PANELS: usize = 4;

    #[inline(always)]
    fn begin(self, start: i32) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_set1_epi32(start) }
    }
    #[inline(always)]
    unsafe fn weights(self, p: *const u8) -> __m512i {
        // SAFETY: the token proves the features; 64 readable bytes (`# Safety`).
        unsafe { _mm512_loadu_si512(p.cast()) }
    }
    #[inline(always)]
    unsafe fn word(self, p: *const i8) -> __m512i {
        // SAFETY: the token proves the features; four readable bytes (`# Safety`).
        unsafe { _mm512_set1_epi32(p.cast::<i32>().read_unaligned()) }
    }
    #[inline(always)]
    fn dot(self, acc: __m512i, weights: __m512i, word: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_dpbusd_epi32(acc, weights, word) }
    }
    #[inline(always)]
    fn add_scaled(self, acc: __m512i, scale: f32, total: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc), _mm512_set1_ps(scale), total) }
    }
    #[inline(always)]
    unsafe fn read(self, p: *const f32) -> __m512 {
        // SAFETY: the token proves the features; 16 readable floats (`# Safety`).
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn write(self, a: __m512, p: *mut f32) {
        // SAFETY: the token proves the features; room for 16 floats (`# Safety`).
        unsafe { _mm512_storeu_ps(p, a) }
    }
}
