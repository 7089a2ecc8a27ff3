//! [`SparseDot`] on NEON, by widening or by the dot-product extension, with windows of 16 places. Both multiply signed
//! bytes.

use crate::gemm::microkernel::aarch64_dot::NeonDot;
use crate::gemm::microkernel::sparse_dot::SparseDot;
use crate::simd::aarch64::neon_int::Multiply;
use std::arch::aarch64::*;

/// [`SparseDot`] by the operation `M`, inside a function compiled for it.
#[derive(Clone, Copy)]
pub(crate) struct ChooseNeon<M>(pub(crate) M);

impl<M: Multiply> SparseDot for ChooseNeon<M> {
    type Dense = NeonDot<M>;
    type Places = [uint8x16_t; 4];
    type Chosen = [int8x16_t; 4];
    const TOKENS: [usize; 2] = [4, 1];
    const UNSIGNED: bool = false;

    #[inline(always)]
    fn dense(self) -> NeonDot<M> {
        NeonDot(self.0)
    }
    #[inline(always)]
    unsafe fn sums(self, p: *const u8) -> [int32x4_t; 4] {
        // SAFETY: NEON is there; 64 readable bytes (`# Safety`).
        unsafe {
            let p = p.cast::<i32>();
            [vld1q_s32(p), vld1q_s32(p.add(4)), vld1q_s32(p.add(8)), vld1q_s32(p.add(12))]
        }
    }
    #[inline(always)]
    unsafe fn places(self, p: *const u8) -> [uint8x16_t; 4] {
        // SAFETY: NEON is there; 64 readable bytes (`# Safety`).
        unsafe { [vld1q_u8(p), vld1q_u8(p.add(16)), vld1q_u8(p.add(32)), vld1q_u8(p.add(48))] }
    }
    #[inline(always)]
    unsafe fn choose(self, places: [uint8x16_t; 4], window: *const u8) -> [int8x16_t; 4] {
        // SAFETY: NEON is there; 16 readable bytes (`# Safety`).
        unsafe {
            let window = vld1q_s8(window.cast());
            let [a, b, c, d] = places;
            [vqtbl1q_s8(window, a), vqtbl1q_s8(window, b), vqtbl1q_s8(window, c), vqtbl1q_s8(window, d)]
        }
    }
    #[inline(always)]
    unsafe fn add_products(
        self,
        mut sums: [int32x4_t; 4],
        chosen: [int8x16_t; 4],
        weights: *const u8,
    ) -> [int32x4_t; 4] {
        for i in 0..4 {
            // SAFETY: the code runs inside a function compiled for `M`; 64 readable bytes (`# Safety`).
            sums[i] =
                unsafe { self.0.dot_each(sums[i], vld1q_s8(weights.cast::<i8>().add(16 * i)), chosen[i]) };
        }
        sums
    }
}
