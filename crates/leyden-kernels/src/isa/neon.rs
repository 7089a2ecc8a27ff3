//! NEON: lane conversions for the generic array code.

use super::Isa;
use std::arch::aarch64::*;

/// Token that code runs inside a function compiled for NEON.
#[derive(Clone, Copy)]
pub(crate) struct Neon(());

impl Neon {
    /// The token; being callable only inside such a function is what makes its methods sound.
    #[target_feature(enable = "neon")]
    #[inline]
    pub(crate) fn in_feature_region() -> Neon {
        Neon(())
    }
}

impl Isa for Neon {
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
}
