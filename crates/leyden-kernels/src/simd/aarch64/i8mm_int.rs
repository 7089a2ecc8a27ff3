//! [`IntSimd`] on the int8 matrix extension: eight rows, and two columns in each set of sums.
//!
//! `smmla` multiplies two rows with two columns, eight k of each, into the four sums of one register. Panels hold four
//! k of a row together, so the registers of two neighbouring k-groups are zipped into rows of eight; activations of an
//! even number of columns come in runs of eight k (`Level::run`). Everything after the products keeps that arrangement,
//! lanes (row, column), (row, column + 1), (row + 1, column), (row + 1, column + 1), until the results are written.

use crate::simd::aarch64::neon_common::{
    by_group, byte_operations, half_power, read_again, shift, widen, widen_four, with,
};
use crate::simd::int::{IntSimd, ReadQuants};
use std::arch::aarch64::*;
use std::arch::asm;
use std::ops::Range;

/// Token that code runs inside a function compiled for NEON and I8MM, for eight rows of the panel.
#[derive(Clone, Copy)]
pub(crate) struct I8mmInt {
    first: usize,
}

impl I8mmInt {
    /// Returns the token for the rows from `first` on; it can only be created inside such a function, which makes its
    /// methods sound.
    #[target_feature(enable = "neon,dotprod,i8mm")]
    #[inline]
    pub(crate) fn in_feature_region(first: usize) -> Self {
        I8mmInt { first }
    }
}

/// Adds the products of two rows with two columns. The intrinsic is not stable, hence assembly.
///
/// # Safety
/// The code runs inside a function compiled for I8MM.
#[inline(always)]
unsafe fn smmla(mut sum: int32x4_t, rows: int8x16_t, columns: int8x16_t) -> int32x4_t {
    // SAFETY: the caller runs where the extension is; registers in, register out.
    unsafe {
        asm!(
            "smmla {0:v}.4s, {1:v}.16b, {2:v}.16b",
            inout(vreg) sum,
            in(vreg) rows,
            in(vreg) columns,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// Duplicates every row for both columns, from four rows in each of two registers.
#[inline(always)]
fn both_columns(rows: [float32x4_t; 2]) -> [float32x4_t; 4] {
    let [a, b] = rows;
    with!([vzip1q_f32(a, a), vzip2q_f32(a, a), vzip1q_f32(b, b), vzip2q_f32(b, b)])
}

/// Loads two 32-bit values, twice.
///
/// # Safety
/// `p` points at two readable values.
#[inline(always)]
unsafe fn two(p: *const i32) -> int32x4_t {
    // SAFETY: `p` points at two readable values (`# Safety`).
    with!(vreinterpretq_s32_u64(vdupq_n_u64(p.cast::<u64>().read_unaligned())))
}

/// Combines two k-groups into eight k of eight rows, two rows per register.
#[inline(always)]
fn rows_of_eight(prefetches_to_l1: [uint8x16_t; 2], far: [uint8x16_t; 2]) -> [int8x16_t; 4] {
    with!({
        let prefetches_to_l1 = prefetches_to_l1.map(|v| vreinterpretq_s32_u8(v));
        let far = far.map(|v| vreinterpretq_s32_u8(v));
        [
            vzip1q_s32(prefetches_to_l1[0], far[0]),
            vzip2q_s32(prefetches_to_l1[0], far[0]),
            vzip1q_s32(prefetches_to_l1[1], far[1]),
            vzip2q_s32(prefetches_to_l1[1], far[1]),
        ]
        .map(|v| vreinterpretq_s8_s32(v))
    })
}

/// Adds the products of eight k for every two columns.
///
/// # Safety
/// The code runs inside a function compiled for I8MM; `a` points at eight k of `2 * C` columns.
#[inline(always)]
unsafe fn eight<const C: usize>(s: &mut [[int32x4_t; 4]; C], rows: [int8x16_t; 4], a: *const i8) {
    for c in 0..C {
        // SAFETY: the code runs inside a function compiled for I8MM (`# Safety`).
        let columns = unsafe { vld1q_s8(a.add(c * 16)) };
        for q in 0..4 {
            // SAFETY: the code runs inside a function compiled for I8MM (`# Safety`).
            s[c][q] = unsafe { smmla(s[c][q], rows[q], columns) };
        }
    }
}

/// Evaluates an expression of intrinsics on each of four registers.
macro_rules! each {
    (|$q:ident| $e:expr) => {{
        // SAFETY: the token proves the features; pointers are readable by the method's contract.
        unsafe {
            [
                {
                    let $q = 0;
                    $e
                },
                {
                    let $q = 1;
                    $e
                },
                {
                    let $q = 2;
                    $e
                },
                {
                    let $q = 3;
                    $e
                },
            ]
        }
    }};
}

impl IntSimd for I8mmInt {
    type Quants = [uint8x16_t; 2];
    type Acc = [int32x4_t; 4];
    type Ints = [int32x4_t; 4];
    type Scale = [int32x4_t; 4];
    /// Every row for both columns: low numbers, then high ones, of the first and of the last four rows.
    type Pairs = [[int16x8_t; 2]; 2];
    type Bytes = uint8x16_t;
    type Floats = [float32x4_t; 4];
    const COLUMNS: usize = 2;
    const NARROW: bool = false;
    const SIGNED_ZERO: i32 = 0;
    const SIDE_BY_SIDE: usize = 1;

    byte_operations!();

    #[inline(always)]
    unsafe fn load(self, p: *const u8) -> Self::Quants {
        let p = p.wrapping_add(self.first * 4);
        with!([vld1q_u8(p), vld1q_u8(p.add(16))])
    }

    #[inline(always)]
    unsafe fn store_codes(self, a: Self::Quants, p: *mut u8) {
        let p = p.wrapping_add(self.first * 4);
        with!({
            vst1q_u8(p, a[0]);
            vst1q_u8(p.add(16), a[1]);
        });
    }
    #[inline(always)]
    unsafe fn start(self, sum: *const i32, zero: i32) -> Self::Acc {
        if zero == 0 {
            return self.none();
        }
        with!([vmulq_n_s32(two(sum), -zero); 4])
    }
    #[inline(always)]
    fn none(self) -> Self::Acc {
        with!([vdupq_n_s32(0); 4])
    }
    #[inline(always)]
    unsafe fn products<U: ReadQuants, const SIGNED: bool, const C: usize, const P: usize>(
        self,
        s: &mut [[Self::Acc; C]; P],
        groups: Range<usize>,
        w: *const u8,
        a: *const i8,
    ) {
        let run = C * 16;
        // SAFETY: the caller's weights hold eight k-groups and its activations four runs of eight k.
        unsafe {
            if P * C <= 4 {
                by_group!(groups, [0, 2], |G| {
                    let (prefetches_to_l1, far) = (U::pair(self, w, G), U::pair(self, w, G + 1));
                    eight(&mut s[0], rows_of_eight(prefetches_to_l1.0, far.0), a.add(G / 2 * run));
                    eight(&mut s[P - 1], rows_of_eight(prefetches_to_l1.1, far.1), a.add((G / 2 + 2) * run));
                });
            } else {
                // There are registers for the sums of one part only.
                by_group!(groups, [0, 2], |G| {
                    let rows = rows_of_eight(U::pair(self, w, G).0, U::pair(self, w, G + 1).0);
                    eight(&mut s[0], rows, a.add(G / 2 * run));
                });
                let w = read_again(w);
                by_group!(groups, [0, 2], |G| {
                    let rows = rows_of_eight(U::pair(self, w, G).1, U::pair(self, w, G + 1).1);
                    eight(&mut s[P - 1], rows, a.add((G / 2 + 2) * run));
                });
            }
        }
    }

    #[inline(always)]
    fn ints(self) -> Self::Ints {
        self.none()
    }
    #[inline(always)]
    fn add<const SIGNED: bool>(self, total: Self::Ints, part: Self::Acc) -> Self::Ints {
        each!(|q| vaddq_s32(total[q], part[q]))
    }
    #[inline(always)]
    unsafe fn finish(self, total: Self::Ints, _sum: *const i32, _zero: i32) -> Self::Ints {
        total
    }
    #[inline(always)]
    fn scale<const HOW: u8>(self, bytes: uint8x16_t, signed: bool) -> Self::Scale {
        with!({
            let (a, b) = (widen_four(bytes, 0, signed), widen_four(bytes, 1, signed));
            [vzip1q_s32(a, a), vzip2q_s32(a, a), vzip1q_s32(b, b), vzip2q_s32(b, b)]
        })
    }
    #[inline(always)]
    fn add_scaled<const SIGNED: bool, const HOW: u8>(
        self,
        total: Self::Ints,
        part: Self::Acc,
        scale: Self::Scale,
    ) -> Self::Ints {
        each!(|q| vmlaq_s32(total[q], part[q], scale[q]))
    }
    #[inline(always)]
    fn pairs(self, low: uint8x16_t, high: uint8x16_t, signed: bool) -> Self::Pairs {
        [low, high].map(|bytes| {
            with!({
                let rows = widen(bytes, 0, signed);
                [vzip1q_s16(rows, rows), vzip2q_s16(rows, rows)]
            })
        })
    }
    #[inline(always)]
    unsafe fn add_pairs(self, total: Self::Ints, pairs: Self::Pairs, word: *const i32) -> Self::Ints {
        with!({
            let word = vreinterpretq_s16_s32(two(word));
            let (low, high) = (vuzp1q_s16(word, word), vuzp2q_s16(word, word));
            let mut total = total;
            for i in 0..2 {
                let (l, h) = (pairs[0][i], pairs[1][i]);
                let first = vmlal_s16(total[2 * i], vget_low_s16(l), vget_low_s16(low));
                total[2 * i] = vmlal_s16(first, vget_low_s16(h), vget_low_s16(high));
                let last = vmlal_high_s16(total[2 * i + 1], l, low);
                total[2 * i + 1] = vmlal_high_s16(last, h, high);
            }
            total
        })
    }
    #[inline(always)]
    fn sub_times(self, a: Self::Ints, b: Self::Ints, k: i32) -> Self::Ints {
        each!(|q| vmlsq_n_s32(a[q], b[q], k))
    }
    #[inline(always)]
    fn floats<const HOW: u8>(self, a: Self::Ints) -> Self::Floats {
        each!(|q| vcvtq_f32_s32(a[q]))
    }

    #[inline(always)]
    unsafe fn bytes(self, p: *const u8) -> uint8x16_t {
        with!(vcombine_u8(vld1_u8(p.add(self.first)), vdup_n_u8(0)))
    }
    #[inline(always)]
    fn half_powers(self, a: uint8x16_t) -> Self::Floats {
        both_columns(with!([0, 1].map(|q| half_power(widen_four(a, q, false)))))
    }

    #[inline(always)]
    fn zeros(self) -> Self::Floats {
        with!([vdupq_n_f32(0.0); 4])
    }
    #[inline(always)]
    unsafe fn halves(self, p: *const u8) -> Self::Floats {
        with!({
            let h = vreinterpretq_f16_u16(vld1q_u16(p.cast::<u16>().add(self.first)));
            both_columns([vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)])
        })
    }
    #[inline(always)]
    unsafe fn brain_floats<const COUNTED: bool>(self, p: *const u8) -> Self::Floats {
        with!({
            let h =
                crate::simd::aarch64::neon_common::brain_floats::<COUNTED>(p.cast::<u16>().add(self.first));
            let zero = vdupq_n_u16(0);
            both_columns([vzip1q_u16(zero, h), vzip2q_u16(zero, h)].map(|v| vreinterpretq_f32_u16(v)))
        })
    }
    #[inline(always)]
    unsafe fn load_floats(self, p: *const u8) -> Self::Floats {
        let p = p.cast::<f32>().wrapping_add(self.first);
        both_columns(with!([vld1q_f32(p), vld1q_f32(p.add(4))]))
    }
    #[inline(always)]
    unsafe fn splat(self, p: *const f32) -> Self::Floats {
        with!([vreinterpretq_f32_s32(two(p.cast())); 4])
    }
    #[inline(always)]
    unsafe fn splat_int(self, p: *const i32) -> Self::Floats {
        with!([vcvtq_f32_s32(two(p)); 4])
    }
    #[inline(always)]
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        each!(|q| vmulq_f32(a[q], b[q]))
    }
    #[inline(always)]
    fn sum(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        each!(|q| vaddq_f32(a[q], b[q]))
    }
    #[inline(always)]
    fn fma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        each!(|q| vfmaq_f32(c[q], a[q], b[q]))
    }
    #[inline(always)]
    fn fnma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        each!(|q| vfmsq_f32(c[q], a[q], b[q]))
    }
    #[inline(always)]
    unsafe fn fma_columns<const C: usize>(self, w: Self::Floats, x: *const f32, y: &mut [Self::Floats; C]) {
        for c in 0..C {
            // SAFETY: the caller's activations hold two floats for each pair of columns.
            y[c] = self.fma(w, unsafe { self.splat(x.add(2 * c)) }, y[c]);
        }
    }
    #[inline(always)]
    unsafe fn store(self, a: Self::Floats, p: *mut f32) {
        let p = p.wrapping_add(self.first);
        for i in 0..2 {
            with!({
                vst1q_f32(p.add(4 * i), vuzp1q_f32(a[2 * i], a[2 * i + 1]));
                vst1q_f32(p.add(16 + 4 * i), vuzp2q_f32(a[2 * i], a[2 * i + 1]));
            });
        }
    }
}
