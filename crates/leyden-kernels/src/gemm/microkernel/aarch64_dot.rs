//! [`ByteDot`] on NEON, by widening or by the dot-product extension. Both multiply signed bytes, so weights are
//! converted back to signed, and sums begin at zero.

use crate::gemm::microkernel::byte_dot::ByteDot;
use crate::simd::aarch64::neon_int::Multiply;
use std::arch::aarch64::*;

/// [`ByteDot`] by the operation `M`, inside a function compiled for it.
#[derive(Clone, Copy)]
pub(crate) struct NeonDot<M>(pub(crate) M);

impl<M: Multiply> ByteDot for NeonDot<M> {
    type Weights = [int8x16_t; 4];
    type Word = int8x16_t;
    type Acc = [int32x4_t; 4];
    type Floats = [float32x4_t; 4];
    const TOKENS: usize = 5;
    const PANELS: usize = 1;

    #[inline(always)]
    fn begin(self, _start: i32) -> Self::Acc {
        // SAFETY: NEON is there, as the type guarantees.
        unsafe { [vdupq_n_s32(0); 4] }
    }
    #[inline(always)]
    unsafe fn weights(self, p: *const u8) -> Self::Weights {
        // SAFETY: NEON is there; 64 readable bytes (`# Safety`).
        unsafe {
            let flip = vdupq_n_u8(0x80);
            let read = |i: usize| vreinterpretq_s8_u8(veorq_u8(vld1q_u8(p.add(16 * i)), flip));
            [read(0), read(1), read(2), read(3)]
        }
    }
    #[inline(always)]
    unsafe fn word(self, p: *const i8) -> int8x16_t {
        // SAFETY: NEON is there; four readable bytes (`# Safety`).
        unsafe { vreinterpretq_s8_s32(vdupq_n_s32(p.cast::<i32>().read_unaligned())) }
    }
    #[inline(always)]
    fn dot(self, mut acc: Self::Acc, weights: Self::Weights, word: int8x16_t) -> Self::Acc {
        for i in 0..4 {
            // SAFETY: the code runs inside a function compiled for `M`.
            acc[i] = unsafe { self.0.dot::<0>(acc[i], weights[i], word) };
        }
        acc
    }
    #[inline(always)]
    fn add_scaled(self, acc: Self::Acc, scale: f32, mut total: Self::Floats) -> Self::Floats {
        for i in 0..4 {
            // SAFETY: NEON is there, as the type guarantees.
            total[i] = unsafe { vfmaq_n_f32(total[i], vcvtq_f32_s32(acc[i]), scale) };
        }
        total
    }
    #[inline(always)]
    unsafe fn read(self, p: *const f32) -> Self::Floats {
        // SAFETY: NEON is there; 16 readable floats (`# Safety`).
        unsafe { [vld1q_f32(p), vld1q_f32(p.add(4)), vld1q_f32(p.add(8)), vld1q_f32(p.add(12))] }
    }
    #[inline(always)]
    fn fma(self, a: Self::Floats, b: Self::Floats, mut c: Self::Floats) -> Self::Floats {
        for i in 0..4 {
            // SAFETY: NEON is there, as the type guarantees.
            c[i] = unsafe { vfmaq_f32(c[i], a[i], b[i]) };
        }
        c
    }
    #[inline(always)]
    fn add(self, mut a: Self::Floats, b: Self::Floats) -> Self::Floats {
        for i in 0..4 {
            // SAFETY: NEON is there, as the type guarantees.
            a[i] = unsafe { vaddq_f32(a[i], b[i]) };
        }
        a
    }
    #[inline(always)]
    unsafe fn write(self, a: Self::Floats, p: *mut f32) {
        for i in 0..4 {
            // SAFETY: NEON is there; room for 16 floats (`# Safety`).
            unsafe { vst1q_f32(p.add(4 * i), a[i]) };
        }
    }
}
