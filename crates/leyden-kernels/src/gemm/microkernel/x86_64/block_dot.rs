//! [`BlockDot`] on AVX2, AVX2 with VNNI, and AVX-512 with VNNI.

use crate::gemm::microkernel::sparse_blocks::BlockDot;
use crate::gemm::microkernel::x86_64::int8_dot::{Avx2Dot, Avx512Dot, AvxVnniDot};
use std::arch::x86_64::*;

/// Transposes eight vectors of eight words, each at its address in `from` plus `skip` words.
///
/// # Safety
/// The processor has AVX2; the addresses are of eight words each after `skip`, and there is room for the results.
#[inline(always)]
unsafe fn transpose_eight(from: &[*const u32], skip: usize, to: *mut u32, stride: usize) {
    // SAFETY: eight words at each address, and room for as many (`# Safety`).
    unsafe {
        let mut x = [_mm256_setzero_si256(); 8];
        for i in 0..8 {
            x[i] = _mm256_loadu_si256(from[i].add(skip).cast());
        }
        let mut pairs = [_mm256_setzero_si256(); 8];
        for i in 0..4 {
            pairs[2 * i] = _mm256_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
            pairs[2 * i + 1] = _mm256_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
        }
        let mut fours = [_mm256_setzero_si256(); 8];
        for i in 0..2 {
            let p = &pairs[4 * i..];
            fours[4 * i] = _mm256_unpacklo_epi64(p[0], p[2]);
            fours[4 * i + 1] = _mm256_unpackhi_epi64(p[0], p[2]);
            fours[4 * i + 2] = _mm256_unpacklo_epi64(p[1], p[3]);
            fours[4 * i + 3] = _mm256_unpackhi_epi64(p[1], p[3]);
        }
        for j in 0..4 {
            let low = _mm256_permute2x128_si256::<0x20>(fours[j], fours[4 + j]);
            let high = _mm256_permute2x128_si256::<0x31>(fours[j], fours[4 + j]);
            _mm256_storeu_si256(to.add(j * stride).cast(), low);
            _mm256_storeu_si256(to.add((4 + j) * stride).cast(), high);
        }
    }
}

/// Implements [`BlockDot`] with vectors of eight words.
macro_rules! block_dot_of_avx2 {
    ($dot:ty) => {
        impl BlockDot for $dot {
            const TILES: usize = 2;

            #[inline(always)]
            fn join(self, mut a: [__m256i; 2], b: [__m256i; 2]) -> [__m256i; 2] {
                for h in 0..2 {
                    // SAFETY: the token proves the features.
                    a[h] = unsafe { _mm256_add_epi32(a[h], b[h]) };
                }
                a
            }
            #[inline(always)]
            unsafe fn transpose(self, from: &[*const u32; 16], to: *mut u32, stride: usize) {
                for i in 0..2 {
                    for j in 0..2 {
                        // SAFETY: the token proves the features; 16 vectors of 16 words, and room for as many
                        // (`# Safety`).
                        unsafe {
                            transpose_eight(&from[8 * i..], 8 * j, to.add(8 * j * stride + 8 * i), stride);
                        }
                    }
                }
            }
        }
    };
}

block_dot_of_avx2!(Avx2Dot);
block_dot_of_avx2!(AvxVnniDot);

impl BlockDot for Avx512Dot {
    const TILES: usize = 4;

    #[inline(always)]
    fn join(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn transpose(self, from: &[*const u32; 16], to: *mut u32, stride: usize) {
        // SAFETY: the token proves the features; 16 vectors of 16 words, and room for as many (`# Safety`).
        unsafe {
            let mut x = [_mm512_setzero_si512(); 16];
            for i in 0..16 {
                x[i] = _mm512_loadu_si512(from[i].cast());
            }
            let mut pairs = [_mm512_setzero_si512(); 16];
            for i in 0..8 {
                pairs[2 * i] = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
                pairs[2 * i + 1] = _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
            }
            // Word `j` of each 128 bits of four vectors.
            let mut fours = [_mm512_setzero_si512(); 16];
            for i in 0..4 {
                let p = &pairs[4 * i..];
                fours[4 * i] = _mm512_unpacklo_epi64(p[0], p[2]);
                fours[4 * i + 1] = _mm512_unpackhi_epi64(p[0], p[2]);
                fours[4 * i + 2] = _mm512_unpacklo_epi64(p[1], p[3]);
                fours[4 * i + 3] = _mm512_unpackhi_epi64(p[1], p[3]);
            }
            for j in 0..4 {
                let [a, b, c, d] = [fours[j], fours[4 + j], fours[8 + j], fours[12 + j]];
                let low = _mm512_shuffle_i32x4::<0x44>(a, b);
                let low_others = _mm512_shuffle_i32x4::<0x44>(c, d);
                let high = _mm512_shuffle_i32x4::<0xee>(a, b);
                let high_others = _mm512_shuffle_i32x4::<0xee>(c, d);
                let rows = [
                    _mm512_shuffle_i32x4::<0x88>(low, low_others),
                    _mm512_shuffle_i32x4::<0xdd>(low, low_others),
                    _mm512_shuffle_i32x4::<0x88>(high, high_others),
                    _mm512_shuffle_i32x4::<0xdd>(high, high_others),
                ];
                for i in 0..4 {
                    _mm512_storeu_si512(to.add((4 * i + j) * stride).cast(), rows[i]);
                }
            }
        }
    }
}
