//! NEON: lane conversions for the generic array code, and the loops of attention.

use crate::simd::aarch64::neon_int::{NeonInt, Widen};
use crate::simd::{Simd, VectorSimd};
use std::arch::aarch64::*;

/// Token that code runs inside a function compiled for NEON.
#[derive(Clone, Copy)]
pub(crate) struct Neon(NeonInt<Widen, 4>);

impl Neon {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "neon")]
    #[inline]
    pub(crate) fn in_feature_region() -> Neon {
        Neon(NeonInt::<Widen, 4>::in_feature_region(0))
    }
}

impl Simd for Neon {
    #[inline(always)]
    fn f16_to_f32(self, h: &[u16; 16]) -> [f32; 16] {
        let p = h.as_ptr();
        // SAFETY: the token proves NEON; h holds two unaligned 16-byte halves; [f32; 16] is four float32x4_t.
        unsafe {
            let lo = vreinterpretq_f16_u16(vld1q_u16(p));
            let hi = vreinterpretq_f16_u16(vld1q_u16(p.add(8)));
            std::mem::transmute([
                vcvt_f32_f16(vget_low_f16(lo)),
                vcvt_high_f32_f16(lo),
                vcvt_f32_f16(vget_low_f16(hi)),
                vcvt_high_f32_f16(hi),
            ])
        }
    }

    #[inline(always)]
    fn f32_to_f16(self, x: &[f32; 16]) -> [u16; 16] {
        let p = x.as_ptr();
        // SAFETY: the token proves NEON; x holds four unaligned quarters; [u16; 16] is two uint16x8_t.
        unsafe {
            let lo = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(p)), vld1q_f32(p.add(4)));
            let hi = vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(p.add(8))), vld1q_f32(p.add(12)));
            std::mem::transmute([lo, hi])
        }
    }

    #[inline(always)]
    fn int8_products(self, rounds: u64) -> u64 {
        const CHAINS: usize = 16;
        // SAFETY: the token proves NEON.
        unsafe {
            let x = std::hint::black_box(vdup_n_s8(1));
            let mut sums = [vdupq_n_s16(1); CHAINS];
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = vmlal_s8(*sum, x, x);
                }
            }
            std::hint::black_box(sums);
        }
        rounds * (CHAINS * 8) as u64
    }
    #[inline(always)]
    fn f32_products(self, rounds: u64) -> u64 {
        const CHAINS: usize = 16;
        // SAFETY: the token proves NEON.
        unsafe {
            let x = std::hint::black_box(vdupq_n_f32(0.5));
            let mut sums = [x; CHAINS];
            for _ in 0..rounds {
                for sum in &mut sums {
                    *sum = vfmaq_f32(*sum, x, x);
                }
            }
            std::hint::black_box(sums);
        }
        rounds * (CHAINS * 4) as u64
    }
}

impl VectorSimd for Neon {
    type Vectors = NeonInt<Widen, 4>;

    #[inline(always)]
    fn vectors(self) -> NeonInt<Widen, 4> {
        self.0
    }
}
