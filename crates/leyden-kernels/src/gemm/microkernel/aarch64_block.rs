//! [`BlockDot`] on NEON.

use crate::gemm::microkernel::aarch64_dot::NeonDot;
use crate::gemm::microkernel::sparse_blocks::BlockDot;
use crate::simd::aarch64::neon_int::Multiply;
use std::arch::aarch64::*;

impl<M: Multiply> BlockDot for NeonDot<M> {
    const TILES: usize = 2;

    #[inline(always)]
    fn join(self, mut a: [int32x4_t; 4], b: [int32x4_t; 4]) -> [int32x4_t; 4] {
        for i in 0..4 {
            // SAFETY: NEON is there, as the type guarantees.
            a[i] = unsafe { vaddq_s32(a[i], b[i]) };
        }
        a
    }
    #[inline(always)]
    unsafe fn transpose(self, from: &[*const u32; 16], to: *mut u32, stride: usize) {
        for i in (0..16).step_by(4) {
            for j in (0..16).step_by(4) {
                // SAFETY: NEON is there; 16 vectors of 16 words, and room for as many (`# Safety`).
                unsafe {
                    let (a, b) = (vld1q_u32(from[i].add(j)), vld1q_u32(from[i + 1].add(j)));
                    let (c, d) = (vld1q_u32(from[i + 2].add(j)), vld1q_u32(from[i + 3].add(j)));
                    let (ac, bd) = (vzip1q_u32(a, c), vzip1q_u32(b, d));
                    let (ac_high, bd_high) = (vzip2q_u32(a, c), vzip2q_u32(b, d));
                    vst1q_u32(to.add(j * stride + i), vzip1q_u32(ac, bd));
                    vst1q_u32(to.add((j + 1) * stride + i), vzip2q_u32(ac, bd));
                    vst1q_u32(to.add((j + 2) * stride + i), vzip1q_u32(ac_high, bd_high));
                    vst1q_u32(to.add((j + 3) * stride + i), vzip2q_u32(ac_high, bd_high));
                }
            }
        }
    }
}
