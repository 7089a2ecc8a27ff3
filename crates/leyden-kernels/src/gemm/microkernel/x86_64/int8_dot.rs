//! [`ByteDot`] on AVX2, AVX2 with VNNI, and AVX-512 with VNNI.

use crate::gemm::microkernel::byte_dot::ByteDot;
use crate::ops::Lanes;
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
    /// The token; being callable only inside such a function is what makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        Avx2Dot(())
    }
}

impl AvxVnniDot {
    /// The token; being callable only inside such a function is what makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        AvxVnniDot(())
    }
}

impl Avx512Dot {
    /// The token; being callable only inside such a function is what makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        Avx512Dot(())
    }
}

/// [`ByteDot::add_scaled`] of two vectors of eight sums. Totals stay in memory: there are no registers for them, and as ordinary values the
/// compiler would keep them in other places of it besides.
///
/// # Safety
/// AVX2 and FMA are there, and sixteen floats on a cache line.
#[inline(always)]
unsafe fn add_scaled(acc: [__m256i; 2], scale: f32, total: *mut Lanes) {
    for (h, acc) in acc.into_iter().enumerate() {
        // SAFETY: AVX2 and FMA are there, and eight floats (`# Safety`).
        unsafe {
            let total = total.cast::<__m256>().add(h);
            let sum = _mm256_cvtepi32_ps(acc);
            total.write_volatile(_mm256_fmadd_ps(sum, _mm256_set1_ps(scale), total.read_volatile()));
        }
    }
}

/// In integers of 16 bits: `VPMADDUBSW` would saturate. Of each four values the first and third are one word of two, the others a second.
impl ByteDot for Avx2Dot {
    /// For eight rows each, even values and odd ones.
    type Weights = [[__m256i; 2]; 2];
    type Word = [__m256i; 2];
    type Acc = [__m256i; 2];
    type Total = ();
    const TOKENS: usize = 4;
    const PANELS: usize = 1;

    #[inline(always)]
    fn begin(self, start: i32) -> Self::Acc {
        // SAFETY: the token proves the features.
        unsafe { [_mm256_set1_epi32(start); 2] }
    }
    #[inline(always)]
    fn zero(self) {}
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
    #[inline(always)]
    unsafe fn add_scaled(self, acc: Self::Acc, scale: f32, _: (), memory: *mut Lanes) {
        // SAFETY: the token proves the features; as there (`# Safety`).
        unsafe { add_scaled(acc, scale, memory) }
    }
    #[inline(always)]
    unsafe fn store(self, _: (), _: *mut Lanes) {}
}

impl ByteDot for AvxVnniDot {
    type Weights = [__m256i; 2];
    type Word = __m256i;
    type Acc = [__m256i; 2];
    type Total = ();
    const TOKENS: usize = 6;
    const PANELS: usize = 1;

    #[inline(always)]
    fn begin(self, start: i32) -> Self::Acc {
        // SAFETY: the token proves the features.
        unsafe { [_mm256_set1_epi32(start); 2] }
    }
    #[inline(always)]
    fn zero(self) {}
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
    #[inline(always)]
    unsafe fn add_scaled(self, acc: Self::Acc, scale: f32, _: (), memory: *mut Lanes) {
        // SAFETY: the token proves the features; as there (`# Safety`).
        unsafe { add_scaled(acc, scale, memory) }
    }
    #[inline(always)]
    unsafe fn store(self, _: (), _: *mut Lanes) {}
}

/// Of 32 registers twelve hold sums and twelve totals. More sums beside totals in memory would load weights half as often, but reading and writing
/// totals costs more than that saves.
impl ByteDot for Avx512Dot {
    type Weights = __m512i;
    type Word = __m512i;
    type Acc = __m512i;
    type Total = __m512;
    const TOKENS: usize = 6;
    const PANELS: usize = 2;

    #[inline(always)]
    fn begin(self, start: i32) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_set1_epi32(start) }
    }
    #[inline(always)]
    fn zero(self) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_setzero_ps() }
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
    unsafe fn add_scaled(self, acc: __m512i, scale: f32, total: __m512, _: *mut Lanes) -> __m512 {
        // SAFETY: the token proves the features.
        unsafe { _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc), _mm512_set1_ps(scale), total) }
    }
    #[inline(always)]
    unsafe fn store(self, total: __m512, memory: *mut Lanes) {
        // SAFETY: the token proves the features; sixteen floats on a cache line (`# Safety`).
        unsafe { _mm512_store_ps(memory.cast(), total) }
    }
}
