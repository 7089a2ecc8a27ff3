//! Code shared by all Arm tiers: macros over registers of four rows, widening, half-precision and bfloat16 loads.

use crate::types::SMALLEST_BF16;
use std::arch::aarch64::*;
use std::arch::asm;

/// Evaluates an expression of intrinsics.
macro_rules! with {
    ($e:expr) => {{
        // SAFETY: the token proves the features; pointers are readable by the method's contract.
        unsafe { $e }
    }};
}
pub(super) use with;

/// Runs a statement for each column below `$n`, with its lane (0 to 3) of a register.
macro_rules! by_lane {
    ($n:expr, |$c:ident, $lane:ident| $e:expr) => {
        by_lane!(@ $n, $c, $lane, $e, 0 0, 1 1, 2 2, 3 3, 4 0, 5 1, 6 2, 7 3)
    };
    (@ $n:expr, $c:ident, $lane:ident, $e:expr, $($column:literal $in:literal),*) => {
        $(if $n > $column {
            const $c: usize = $column;
            const $lane: i32 = $in;
            $e;
        })*
    };
}
pub(super) use by_lane;

/// Runs a block for each k-group of 32 values with the group as a constant: the position of a group's bits depends on
/// it.
macro_rules! by_group {
    ($groups:expr, |$g:ident| $body:block) => {
        by_group!($groups, [0, 1, 2, 3], |$g| $body)
    };
    ($groups:expr, [$($number:literal),*], |$g:ident| $body:block) => {{
        assert!($groups == (0..4), "sums of 32 bits take all groups at once");
        $({
            const $g: usize = $number;
            $body
        })*
    }};
}
pub(super) use by_group;

/// Shifts quantised values or bytes by a constant number of bits; zeros are shifted in (the trait allows any bits).
macro_rules! shift {
    ($a:expr, $n:expr, $by:ident) => {
        match $n {
            0 => $a,
            1 => with!($by::<1>($a)),
            2 => with!($by::<2>($a)),
            3 => with!($by::<3>($a)),
            4 => with!($by::<4>($a)),
            5 => with!($by::<5>($a)),
            6 => with!($by::<6>($a)),
            _ => with!($by::<7>($a)),
        }
    };
}
pub(super) use shift;

/// Implements the byte operations of [`IntSimd`] and those on quantised values, 16 bytes per register on every Arm
/// tier.
macro_rules! byte_operations {
    () => {
        #[inline(always)]
        fn and(self, a: Self::Quants, mask: u8) -> Self::Quants {
            a.map(|a| with!(vandq_u8(a, vdupq_n_u8(mask))))
        }
        #[inline(always)]
        fn or(self, mut a: Self::Quants, b: Self::Quants) -> Self::Quants {
            for q in 0..a.len() {
                a[q] = with!(vorrq_u8(a[q], b[q]));
            }
            a
        }
        #[inline(always)]
        fn shr<const N: u32>(self, a: Self::Quants) -> Self::Quants {
            a.map(|a| shift!(a, N, vshrq_n_u8))
        }
        #[inline(always)]
        fn shl<const N: u32>(self, a: Self::Quants) -> Self::Quants {
            a.map(|a| shift!(a, N, vshlq_n_u8))
        }
        #[inline(always)]
        fn look_up(self, a: Self::Quants, table: &[u8; 16]) -> Self::Quants {
            a.map(|a| with!(vqtbl1q_u8(vld1q_u8(table.as_ptr()), a)))
        }
        #[inline(always)]
        fn byte_and(self, a: uint8x16_t, mask: u8) -> uint8x16_t {
            with!(vandq_u8(a, vdupq_n_u8(mask)))
        }
        #[inline(always)]
        fn byte_or(self, a: uint8x16_t, b: uint8x16_t) -> uint8x16_t {
            with!(vorrq_u8(a, b))
        }
        #[inline(always)]
        fn byte_shr<const N: i32>(self, a: uint8x16_t) -> uint8x16_t {
            shift!(a, N, vshrq_n_u8)
        }
        #[inline(always)]
        fn byte_shl<const N: i32>(self, a: uint8x16_t) -> uint8x16_t {
            shift!(a, N, vshlq_n_u8)
        }
        #[inline(always)]
        fn byte_sub(self, a: uint8x16_t, b: u8) -> uint8x16_t {
            with!(vsubq_u8(a, vdupq_n_u8(b)))
        }
    };
}
pub(super) use byte_operations;

/// Evaluates an expression for each of `Q` registers, with `$q` as its index.
macro_rules! each {
    (|$q:ident| $e:expr) => {{
        let mut all = [{
            let $q = 0;
            // SAFETY: the token proves the features; pointers are readable by the method's contract.
            unsafe { $e }
        }; Q];
        for $q in 1..Q {
            // SAFETY: as above.
            all[$q] = unsafe { $e };
        }
        all
    }};
}
pub(super) use each;

/// Loads `n` words (1 to 4) into a register of 16 bytes.
///
/// # Safety
/// `p` points at `n` readable words.
#[inline(always)]
pub(super) unsafe fn words(p: *const u8, n: usize) -> uint8x16_t {
    // SAFETY: `p` points at `n` readable words (`# Safety`).
    unsafe {
        let two =
            |low: u64, high: u64| vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
        match n {
            1 => two(u64::from(p.cast::<u32>().read_unaligned()), 0),
            2 => two(p.cast::<u64>().read_unaligned(), 0),
            3 => two(p.cast::<u64>().read_unaligned(), u64::from(p.add(8).cast::<u32>().read_unaligned())),
            _ => vld1q_u8(p),
        }
    }
}

/// Loads the words of `C` columns (1 to 8), four per register.
///
/// # Safety
/// `p` points at `C` readable words.
#[inline(always)]
pub(super) unsafe fn row_of_words<const C: usize>(p: *const u8) -> [uint8x16_t; 2] {
    const { assert!(C >= 1 && C <= 8) };
    // SAFETY: `p` points at `C` readable words (`# Safety`).
    unsafe {
        let first = words(p, C);
        [first, if C > 4 { words(p.add(16), C - 4) } else { first }]
    }
}

/// Hides from the compiler that the returned pointer equals `p`, so that values read through it are loaded again
/// instead of being kept in registers, of which there are too few.
#[inline(always)]
#[expect(clippy::pointers_in_nomem_asm_block, reason = "the pointer is handed on and nothing is read")]
pub(super) fn read_again(mut p: *const u8) -> *const u8 {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* {0} */", inout(reg) p, options(pure, nomem, nostack, preserves_flags)) };
    p
}

/// Widens the eight bytes from `8 * half` on to 16-bit integers.
///
/// # Safety
/// The code runs inside a function compiled for NEON.
#[inline(always)]
pub(super) unsafe fn widen(bytes: uint8x16_t, half: usize, signed: bool) -> int16x8_t {
    with!(match (half, signed) {
        (0, false) => vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes))),
        (0, true) => vmovl_s8(vget_low_s8(vreinterpretq_s8_u8(bytes))),
        (_, false) => vreinterpretq_s16_u16(vmovl_high_u8(bytes)),
        (_, true) => vmovl_high_s8(vreinterpretq_s8_u8(bytes)),
    })
}

/// Widens four of the rows of [`widen`] to 32-bit integers.
///
/// # Safety
/// The code runs inside a function compiled for NEON.
#[inline(always)]
pub(super) unsafe fn widen_four(bytes: uint8x16_t, q: usize, signed: bool) -> int32x4_t {
    // SAFETY: the code runs inside a function compiled for NEON (`# Safety`).
    let wide = unsafe { widen(bytes, q / 2, signed) };
    with!(if q.is_multiple_of(2) { vmovl_s16(vget_low_s16(wide)) } else { vmovl_high_s16(wide) })
}

/// Computes `2^(e - 128)` of four exponents, exactly, subnormal numbers included.
///
/// # Safety
/// The code runs inside a function compiled for NEON.
#[inline(always)]
pub(super) unsafe fn half_power(e: int32x4_t) -> float32x4_t {
    with!({
        let normal = vshlq_n_s32::<23>(vsubq_s32(e, vdupq_n_s32(1)));
        let small = vshlq_s32(vdupq_n_s32(0x0020_0000), e);
        vreinterpretq_f32_s32(vbslq_s32(vcltq_s32(e, vdupq_n_s32(2)), small, normal))
    })
}

/// Converts the low or high four of eight 16-bit floats to f32.
#[inline(always)]
pub(super) fn half_of(h: uint16x8_t, high: bool) -> float32x4_t {
    with!({
        let h = vreinterpretq_f16_u16(h);
        if high { vcvt_high_f32_f16(h) } else { vcvt_f32_f16(vget_low_f16(h)) }
    })
}

/// Converts the low or high four of eight bfloat16 to f32.
#[inline(always)]
pub(super) fn brain_half_of(h: uint16x8_t, high: bool) -> float32x4_t {
    with!({
        let zero = vdupq_n_u16(0);
        vreinterpretq_f32_u16(if high { vzip2q_u16(zero, h) } else { vzip1q_u16(zero, h) })
    })
}

/// Loads eight bfloat16; with `COUNTED`, values too small to count become zero.
///
/// # Safety
/// NEON is there, and `p` points at eight bfloat16.
#[inline(always)]
pub(super) unsafe fn brain_floats<const COUNTED: bool>(p: *const u16) -> uint16x8_t {
    // SAFETY: NEON is there, and `p` points at eight bfloat16 (`# Safety`).
    unsafe {
        let bits = vld1q_u16(p);
        if !COUNTED {
            return bits;
        }
        let magnitudes = vandq_u16(bits, vdupq_n_u16(0x7fff));
        vandq_u16(bits, vcgeq_u16(magnitudes, vdupq_n_u16(SMALLEST_BF16)))
    }
}
