//! SIMD: the operations of every instruction set, and the dispatch from a tier to code compiled for it.
//!
//! A [`Tier`](crate::cpu::Tier) is a proof that detection found its level's features, so calling a function compiled
//! for them is sound. Elementwise code is written once over arrays of 16 lanes and instantiated per tier by
//! `dispatch!`; the compiler vectorises the arrays. Rust never reassociates floating-point arithmetic and
//! `f32::mul_add` is always fused, so one source gives the same bits on every tier. Matrix products are written over
//! the vectors of [`int::IntSimd`], attention over those of [`int::F32Simd`].

use crate::simd::int::F32Simd;
#[cfg(target_arch = "aarch64")]
pub(crate) mod aarch64;
pub(crate) mod dispatch;
pub(crate) mod int;
pub(crate) mod scalar;
pub(crate) mod winograd;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;

/// Operations whose fast form needs intrinsics. Everything else is plain array code.
pub(crate) trait Simd: Copy {
    /// True if 16 vectors of 16 sums fit the registers.
    const WIDE_REGISTER_FILE: bool = false;

    /// Computes `rounds` rounds of independent products of 8-bit integers in registers, at the instruction set's
    /// maximum rate; returns the number of products.
    #[inline(always)]
    fn int8_products(self, rounds: u64) -> u64 {
        const CHAINS: usize = 16;
        let mut sums = std::hint::black_box([1_i32; CHAINS]);
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = i32::from(*sum as i8).wrapping_mul(3).wrapping_add(*sum);
            }
        }
        std::hint::black_box(sums);
        rounds * CHAINS as u64
    }
    /// Computes [`Simd::int8_products`] for 32-bit floats.
    #[inline(always)]
    fn f32_products(self, rounds: u64) -> u64 {
        const CHAINS: usize = 16;
        let x = std::hint::black_box(0.5_f32);
        let mut sums = [1.0_f32; CHAINS];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = sum.mul_add(x, x);
            }
        }
        std::hint::black_box(sums);
        rounds * CHAINS as u64
    }
    /// Returns the greatest bit pattern of the magnitudes of whole vectors: bit patterns of non-negative floats have
    /// the order of the floats, with NaN above all.
    #[inline(always)]
    fn greatest_magnitude(self, x: &[f32]) -> u32 {
        let mut lanes = [0_u32; 16];
        for chunk in x.as_chunks::<16>().0 {
            for i in 0..16 {
                lanes[i] = lanes[i].max(chunk[i].to_bits() & 0x7fff_ffff);
            }
        }
        lanes.iter().fold(0, |a, &b| a.max(b))
    }
    /// Returns the greatest bit pattern of whole vectors after a bitwise and with `mask`.
    #[inline(always)]
    fn greatest_masked(self, x: &[f32], mask: &[u32]) -> u32 {
        let mut lanes = [0_u32; 16];
        for (chunk, mask) in x.as_chunks::<16>().0.iter().zip(mask.as_chunks::<16>().0) {
            for i in 0..16 {
                lanes[i] = lanes[i].max(chunk[i].to_bits() & mask[i]);
            }
        }
        lanes.iter().fold(0, |a, &b| a.max(b))
    }
    /// Returns the sum of 16 quantised values.
    #[inline(always)]
    fn sum_codes(self, quants: &[i8; 16]) -> i32 {
        quants.iter().map(|&v| i32::from(v)).sum()
    }
    /// Returns the sum of a multiple of 16 quantised values.
    #[inline(always)]
    fn sum_all_codes(self, quants: &[i8]) -> i32 {
        let mut lanes = [0_i32; 16];
        for quants in quants.as_chunks::<16>().0 {
            for i in 0..16 {
                lanes[i] = lanes[i].wrapping_add(i32::from(quants[i]));
            }
        }
        lanes.iter().fold(0, |sum, lane| sum.wrapping_add(*lane))
    }
    /// Stores 16 quantised values in groups of four, `stride` bytes apart.
    #[inline(always)]
    fn store_fours(self, quants: &[i8; 16], out: &mut [i8], stride: usize) {
        for (four, out) in quants.as_chunks::<4>().0.iter().zip(out.chunks_mut(stride)) {
            out[..4].copy_from_slice(four);
        }
    }
    /// Returns two sums of 32 quantised values: of the first two of each four, and of the last two.
    #[inline(always)]
    fn sums_of_lanes(self, quants: &[i8; 32]) -> [i32; 2] {
        let mut sums = [0; 2];
        for (i, &code) in quants.iter().enumerate() {
            sums[i / 2 % 2] += i32::from(code);
        }
        sums
    }
    /// Returns the sum of the first eight of each 16 quantised values.
    #[inline(always)]
    fn sums_of_first_eights(self, quants: &[i8; 128]) -> [i32; 8] {
        std::array::from_fn(|i| quants[16 * i..16 * i + 8].iter().map(|&v| i32::from(v)).sum())
    }
    /// Returns the sums of each 16 of 128 quantised values, of their magnitudes and of their squares; no value is -128.
    #[inline(always)]
    fn moments(self, quants: &[i8; 128]) -> Moments {
        let sixteens = quants.as_chunks::<16>().0;
        let each = |f: fn(i32) -> i32| {
            std::array::from_fn(|i| sixteens[i].iter().fold(0_i32, |sum, &v| sum + f(i32::from(v))))
        };
        Moments { sums: each(|v| v), magnitudes: each(i32::abs), squares: each(|v| v * v) }
    }
    /// Returns the initial values of Winograd inner products for each 32 quantised values, none of them beyond 120
    /// ([`winograd`]).
    #[inline(always)]
    fn winograd_corrections(self, quants: &[i8; 128]) -> [i32; 4] {
        std::array::from_fn(|b| winograd::start(&quants.as_chunks().0[b]))
    }
    /// Converts half-precision bit patterns to f32.
    fn f16_to_f32(self, h: &[u16; 16]) -> [f32; 16];
    /// Converts f32 to half precision, rounding to nearest even.
    fn f32_to_f16(self, x: &[f32; 16]) -> [u16; 16];
    /// Stores 16 values, non-temporally if they are a whole cache line, so that no cache fetches memory that is
    /// overwritten anyway. Other threads see them only after [`store_fence`].
    #[inline(always)]
    fn store_non_temporal(self, out: &mut [f32; 16], values: &[f32; 16]) {
        #[cfg(target_arch = "x86_64")]
        if out.as_ptr().addr().is_multiple_of(64) {
            use std::arch::x86_64::{_mm_loadu_ps, _mm_stream_ps};
            for i in (0..16).step_by(4) {
                // SAFETY: every x86-64 processor has SSE; four values from i on are in bounds, and the destination is
                // aligned to 16 bytes.
                unsafe { _mm_stream_ps(out.as_mut_ptr().add(i), _mm_loadu_ps(values.as_ptr().add(i))) };
            }
            return;
        }
        *out = *values;
    }
}

/// Token with vectors of 16 floats.
pub(crate) trait VectorSimd: Simd {
    /// Token of the vector operations of the same instruction set.
    type Vectors: F32Simd;
    /// Returns that token.
    fn vectors(self) -> Self::Vectors;
}

/// Sums over each 16 of 128 quantised values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moments {
    pub(crate) sums: [i32; 8],
    pub(crate) magnitudes: [i32; 8],
    pub(crate) squares: [i32; 8],
}

/// Aligns the stack frame of the function that this is inlined into to cache lines. The compiler aligns a frame for the
/// declared variables, and spills vectors to it later: without this a spilled vector of 32 or 64 bytes may cross a
/// cache line.
#[inline(always)]
pub(crate) fn align_spilled() {
    #[cfg(target_arch = "x86_64")]
    {
        #[repr(align(64))]
        struct Line(#[expect(dead_code, reason = "alignment only, never read")] [u8; 64]);
        let line = std::mem::MaybeUninit::<Line>::uninit();
        // SAFETY: no instruction; it takes the address so that the variable is kept.
        unsafe {
            std::arch::asm!("/* {0} */", in(reg) line.as_ptr(), options(readonly, nostack, preserves_flags));
        }
    }
}

/// Orders this thread's non-temporal stores ([`Simd::store_non_temporal`]) before its later stores, among them the
/// signal that its work is done.
#[inline(always)]
pub(crate) fn store_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Tier;
    use crate::simd::dispatch::dispatch;

    #[test]
    fn moments_agree_on_every_tier() {
        #[inline(always)]
        fn of<I: Simd>(isa: I, quants: &[i8; 128]) -> Moments {
            isa.moments(quants)
        }
        dispatch!(fn of_on => of(quants: &[i8; 128]) -> Moments);
        let mut state = 1_u32;
        for tier in Tier::available() {
            for fill in 0..64 {
                let quants = std::array::from_fn(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    match fill {
                        0 => -127,
                        1 => 127,
                        _ => ((state >> 24) as i32 % 128 * if state & 1 << 20 == 0 { 1 } else { -1 }) as i8,
                    }
                });
                assert_eq!(of_on(tier, &quants), of_on(Tier::SCALAR, &quants), "{}", tier.level());
            }
        }
    }

    #[test]
    fn what_sums_of_products_begin_at_agrees_on_every_tier() {
        #[inline(always)]
        fn of<I: Simd>(isa: I, quants: &[i8; 128]) -> [i32; 4] {
            isa.winograd_corrections(quants)
        }
        dispatch!(fn of_on => of(quants: &[i8; 128]) -> [i32; 4]);
        let some = |by: usize| std::array::from_fn(|i| ((i * by) % 241) as i32 - 120).map(|v| v as i8);
        for quants in [[-120; 128], [120; 128], some(89), some(7), some(1)] {
            for tier in Tier::available() {
                assert_eq!(of_on(tier, &quants), of_on(Tier::SCALAR, &quants), "{}", tier.level());
            }
        }
    }

    #[test]
    fn sums_of_first_eights_agree_on_every_tier() {
        #[inline(always)]
        fn of<I: Simd>(isa: I, quants: &[i8; 128]) -> [i32; 8] {
            isa.sums_of_first_eights(quants)
        }
        dispatch!(fn of_on => of(quants: &[i8; 128]) -> [i32; 8]);
        for quants in [[-127; 128], [127; 128], std::array::from_fn(|i| ((i * 89) % 255) as u8 as i8)] {
            for tier in Tier::available() {
                assert_eq!(of_on(tier, &quants), of_on(Tier::SCALAR, &quants), "{}", tier.level());
            }
        }
        let quants: [i8; 128] = std::array::from_fn(|i| i as i8);
        assert_eq!(of_on(Tier::SCALAR, &quants), [28, 156, 284, 412, 540, 668, 796, 924]);
    }

    #[test]
    fn sums_of_lanes_agree_on_every_tier() {
        #[inline(always)]
        fn of<I: Simd>(isa: I, quants: &[i8; 32]) -> [i32; 2] {
            isa.sums_of_lanes(quants)
        }
        dispatch!(fn of_on => of(quants: &[i8; 32]) -> [i32; 2]);
        for quants in [[-127; 32], [127; 32], std::array::from_fn(|i| ((i * 89) % 255) as u8 as i8)] {
            for tier in Tier::available() {
                assert_eq!(of_on(tier, &quants), of_on(Tier::SCALAR, &quants), "{}", tier.level());
            }
        }
        let quants: [i8; 32] = std::array::from_fn(|i| i as i8);
        assert_eq!(of_on(Tier::SCALAR, &quants), [232, 264]);
    }

    #[test]
    fn f16_conversions_agree_on_every_tier() {
        #[inline(always)]
        fn up<I: Simd>(isa: I, h: &[u16; 16], out: &mut [f32; 16]) {
            *out = isa.f16_to_f32(h);
        }
        #[inline(always)]
        fn down<I: Simd>(isa: I, x: &[f32; 16], out: &mut [u16; 16]) {
            *out = isa.f32_to_f16(x);
        }
        dispatch!(fn up_on => up(h: &[u16; 16], out: &mut [f32; 16]));
        dispatch!(fn down_on => down(x: &[f32; 16], out: &mut [u16; 16]));
        for tier in Tier::available() {
            for base in (0..=u16::MAX).step_by(16) {
                let h: [u16; 16] = std::array::from_fn(|i| base + i as u16);
                let (mut want, mut got) = ([0.0; 16], [0.0; 16]);
                up_on(Tier::SCALAR, &h, &mut want);
                up_on(tier, &h, &mut got);
                let (mut wh, mut gh) = ([0; 16], [0; 16]);
                // A value between this half and the next exercises rounding.
                let mid: [f32; 16] = std::array::from_fn(|i| want[i] * 1.000_3);
                down_on(Tier::SCALAR, &mid, &mut wh);
                down_on(tier, &mid, &mut gh);
                for i in 0..16 {
                    assert!(want[i].to_bits() == got[i].to_bits() || want[i].is_nan() && got[i].is_nan());
                    assert!(wh[i] == gh[i] || mid[i].is_nan(), "{} {:x} {:x}", mid[i], wh[i], gh[i]);
                }
            }
        }
    }
}
