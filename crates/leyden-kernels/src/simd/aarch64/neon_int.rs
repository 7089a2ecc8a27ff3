//! [`IntSimd`] on NEON: `Q` registers of four rows, one lane per row.
//!
//! The activations of up to four columns are adjacent in one register, and a multiplication selects its column by lane.
//! All integers are 32 bits wide: there is no offset for signed quantised values, and nothing overflows.
//!
//! The products are a [`Multiply`]: plain NEON widens to 16 bits, adds neighbours and widens again (four instructions
//! for 16 products); processors with the dot-product extension need one. The 32 registers hold the sums of 16 rows and
//! four columns beside their operands, or of eight rows and eight columns, which unpacks each weight for twice as many
//! products: `Q` is 4 or 2, and a token of two registers holds the first row of its half of the panel.

use crate::simd::aarch64::neon_common::{
    brain_floats, brain_half_of, by_group, by_lane, byte_operations, each, half_of, half_power, read_again,
    row_of_words, shift, widen, widen_four, with,
};
use crate::simd::int::{F32Simd, IntSimd, ReadQuants};
use std::arch::aarch64::*;
use std::arch::asm;
use std::ops::Range;

/// Multiplication of four signed quantised values per lane with four activations.
pub(crate) trait Multiply: Copy {
    /// Adds the products of each lane's four quantised values with word `LANE` of `words` to `sum`.
    ///
    /// # Safety
    /// The code runs inside a function compiled for the instructions of this multiplication.
    unsafe fn dot<const LANE: i32>(self, sum: int32x4_t, quants: int8x16_t, words: int8x16_t) -> int32x4_t;

    /// Adds the products of each lane's four quantised values with the same lane of `others` to `sum`.
    ///
    /// # Safety
    /// As in [`Multiply::dot`].
    unsafe fn dot_each(self, sum: int32x4_t, quants: int8x16_t, others: int8x16_t) -> int32x4_t;

    /// Computes two calls of [`Multiply::dot`]. Quantised values that are not `SIGNED` are at most 63.
    ///
    /// # Safety
    /// As in [`Multiply::dot`].
    #[inline(always)]
    unsafe fn dot_two<const SIGNED: bool, const LANE: i32>(
        self,
        sum: int32x4_t,
        quants: [int8x16_t; 2],
        words: [int8x16_t; 2],
    ) -> int32x4_t {
        // SAFETY: as in `Multiply::dot` (`# Safety`).
        unsafe { self.dot::<LANE>(self.dot::<LANE>(sum, quants[0], words[0]), quants[1], words[1]) }
    }
}

/// Multiplication by widening, on every NEON.
#[derive(Clone, Copy)]
pub(crate) struct Widen;

impl Multiply for Widen {
    #[inline(always)]
    unsafe fn dot<const LANE: i32>(self, sum: int32x4_t, quants: int8x16_t, words: int8x16_t) -> int32x4_t {
        // Two products of magnitudes up to 128 and 127 fit 16 bits.
        // SAFETY: the trait method's `# Safety`.
        unsafe {
            let word = vreinterpretq_s8_s32(vdupq_laneq_s32::<LANE>(vreinterpretq_s32_s8(words)));
            let low = vmull_s8(vget_low_s8(quants), vget_low_s8(word));
            vpadalq_s16(sum, vpaddq_s16(low, vmull_high_s8(quants, word)))
        }
    }

    #[inline(always)]
    unsafe fn dot_each(self, sum: int32x4_t, quants: int8x16_t, others: int8x16_t) -> int32x4_t {
        // SAFETY: as in `dot`; magnitudes are the same.
        unsafe {
            let low = vmull_s8(vget_low_s8(quants), vget_low_s8(others));
            vpadalq_s16(sum, vpaddq_s16(low, vmull_high_s8(quants, others)))
        }
    }

    #[inline(always)]
    unsafe fn dot_two<const SIGNED: bool, const LANE: i32>(
        self,
        sum: int32x4_t,
        quants: [int8x16_t; 2],
        words: [int8x16_t; 2],
    ) -> int32x4_t {
        // SAFETY: the trait method's `# Safety`.
        unsafe {
            if SIGNED {
                return self.dot::<LANE>(self.dot::<LANE>(sum, quants[0], words[0]), quants[1], words[1]);
            }
            // Four products of magnitudes up to 63 and 127 fit 16 bits.
            let word = words.map(|w| vreinterpretq_s8_s32(vdupq_laneq_s32::<LANE>(vreinterpretq_s32_s8(w))));
            let low = vmull_s8(vget_low_s8(quants[0]), vget_low_s8(word[0]));
            let low = vmlal_s8(low, vget_low_s8(quants[1]), vget_low_s8(word[1]));
            let high = vmlal_high_s8(vmull_high_s8(quants[0], word[0]), quants[1], word[1]);
            vpadalq_s16(sum, vpaddq_s16(low, high))
        }
    }
}

/// Multiplication by the dot-product extension. The intrinsics are not stable, hence assembly.
#[derive(Clone, Copy)]
pub(crate) struct Sdot;

impl Multiply for Sdot {
    #[inline(always)]
    unsafe fn dot<const LANE: i32>(
        self,
        mut sum: int32x4_t,
        quants: int8x16_t,
        words: int8x16_t,
    ) -> int32x4_t {
        // SAFETY: the caller runs on a processor with the extension; registers in, register out.
        unsafe {
            asm!(
                "sdot {0:v}.4s, {1:v}.16b, {2:v}.4b[{3}]",
                inout(vreg) sum,
                in(vreg) quants,
                in(vreg) words,
                const LANE,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sum
    }

    #[inline(always)]
    unsafe fn dot_each(self, mut sum: int32x4_t, quants: int8x16_t, others: int8x16_t) -> int32x4_t {
        // SAFETY: as in `dot`.
        unsafe {
            asm!(
                "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
                inout(vreg) sum,
                in(vreg) quants,
                in(vreg) others,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        sum
    }
}

/// Token that code runs inside a function compiled for NEON and for `M`, for `4 * Q` rows of the panel.
#[derive(Clone, Copy)]
pub(crate) struct NeonInt<M, const Q: usize> {
    multiply: M,
    first: usize,
}

impl<const Q: usize> NeonInt<Widen, Q> {
    /// Returns the token for the rows from `first` on; it can only be created inside such a function, which makes its
    /// methods sound.
    #[target_feature(enable = "neon")]
    #[inline]
    pub(crate) fn in_feature_region(first: usize) -> Self {
        const { assert!(Q == 2 || Q == 4) };
        NeonInt { multiply: Widen, first }
    }
}

impl<const Q: usize> NeonInt<Sdot, Q> {
    /// Returns the token for the rows from `first` on, with the dot-product extension.
    #[target_feature(enable = "neon,dotprod")]
    #[inline]
    pub(crate) fn in_dotprod_region(first: usize) -> Self {
        const { assert!(Q == 2 || Q == 4) };
        NeonInt { multiply: Sdot, first }
    }
}

impl<M: Multiply, const Q: usize> NeonInt<M, Q> {
    /// Adds the products of one k-group with every column.
    #[inline(always)]
    unsafe fn columns<const C: usize>(
        self,
        s: &mut [[int32x4_t; Q]; C],
        quants: [uint8x16_t; Q],
        a: *const i8,
    ) {
        // SAFETY: the caller's activations hold C words at each k-group.
        unsafe {
            let words = row_of_words::<C>(a.cast()).map(|w| vreinterpretq_s8_u8(w));
            for q in 0..Q {
                let quants = vreinterpretq_s8_u8(quants[q]);
                by_lane!(C, |COLUMN, LANE| {
                    s[COLUMN][q] = self.multiply.dot::<LANE>(s[COLUMN][q], quants, words[COLUMN / 4]);
                });
            }
        }
    }
}

impl<M: Multiply, const Q: usize> IntSimd for NeonInt<M, Q> {
    type Quants = [uint8x16_t; Q];
    type Acc = [int32x4_t; Q];
    type Ints = [int32x4_t; Q];
    type Scale = [int32x4_t; Q];
    type Pairs = [[int16x4_t; 2]; Q];
    type Bytes = uint8x16_t;
    type Floats = [float32x4_t; Q];
    const COLUMNS: usize = 1;
    const NARROW: bool = false;
    const SIGNED_ZERO: i32 = 0;
    const SIDE_BY_SIDE: usize = 1;

    byte_operations!();

    #[inline(always)]
    unsafe fn load(self, p: *const u8) -> Self::Quants {
        each!(|q| vld1q_u8(p.add(self.first * 4 + q * 16)))
    }

    #[inline(always)]
    unsafe fn store_codes(self, a: Self::Quants, p: *mut u8) {
        each!(|q| vst1q_u8(p.add(self.first * 4 + q * 16), a[q]));
    }
    #[inline(always)]
    unsafe fn start(self, sum: *const i32, zero: i32) -> Self::Acc {
        if zero == 0 {
            return self.none();
        }
        with!([vmulq_n_s32(vdupq_n_s32(*sum), -zero); Q])
    }
    #[inline(always)]
    fn none(self) -> Self::Acc {
        with!([vdupq_n_s32(0); Q])
    }
    #[inline(always)]
    unsafe fn products<U: ReadQuants, const SIGNED: bool, const C: usize, const P: usize>(
        self,
        s: &mut [[Self::Acc; C]; P],
        groups: Range<usize>,
        w: *const u8,
        a: *const i8,
    ) {
        // SAFETY: the caller's weights and activations hold eight k-groups.
        unsafe {
            if P == 1 {
                by_group!(groups, |G| {
                    let (low, high) = U::pair(self, w, G);
                    let prefetches_to_l1 =
                        row_of_words::<C>(a.add(G * C * 4).cast()).map(|w| vreinterpretq_s8_u8(w));
                    let far =
                        row_of_words::<C>(a.add((G + 4) * C * 4).cast()).map(|w| vreinterpretq_s8_u8(w));
                    for q in 0..Q {
                        let quants = [vreinterpretq_s8_u8(low[q]), vreinterpretq_s8_u8(high[q])];
                        by_lane!(C, |COLUMN, LANE| {
                            let words = [prefetches_to_l1[COLUMN / 4], far[COLUMN / 4]];
                            s[0][COLUMN][q] =
                                self.multiply.dot_two::<SIGNED, LANE>(s[0][COLUMN][q], quants, words);
                        });
                    }
                });
            } else if 2 * Q * C <= 16 {
                by_group!(groups, |G| {
                    let (low, high) = U::pair(self, w, G);
                    self.columns(&mut s[0], low, a.add(G * C * 4));
                    self.columns(&mut s[P - 1], high, a.add((G + 4) * C * 4));
                });
            } else {
                // There are registers for the sums of one part only.
                by_group!(groups, |G| {
                    self.columns(&mut s[0], U::pair(self, w, G).0, a.add(G * C * 4));
                });
                let w = read_again(w);
                by_group!(groups, |G| {
                    self.columns(&mut s[P - 1], U::pair(self, w, G).1, a.add((G + 4) * C * 4));
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
        each!(|q| widen_four(bytes, q, signed))
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
        each!(|q| {
            [low, high].map(|bytes| {
                let wide = widen(bytes, q / 2, signed);
                if q.is_multiple_of(2) { vget_low_s16(wide) } else { vget_high_s16(wide) }
            })
        })
    }
    #[inline(always)]
    unsafe fn add_pairs(self, total: Self::Ints, pairs: Self::Pairs, word: *const i32) -> Self::Ints {
        let word = with!(vreinterpret_s16_s32(vdup_n_s32(*word)));
        each!(|q| {
            let low = vmlal_lane_s16::<0>(total[q], pairs[q][0], word);
            vmlal_lane_s16::<1>(low, pairs[q][1], word)
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
        with!(if Q == 4 { vld1q_u8(p) } else { vcombine_u8(vld1_u8(p.add(self.first)), vdup_n_u8(0)) })
    }
    #[inline(always)]
    fn half_powers(self, a: uint8x16_t) -> Self::Floats {
        each!(|q| half_power(widen_four(a, q, false)))
    }

    #[inline(always)]
    fn zeros(self) -> Self::Floats {
        with!([vdupq_n_f32(0.0); Q])
    }
    #[inline(always)]
    unsafe fn halves(self, p: *const u8) -> Self::Floats {
        let p = p.cast::<u16>();
        each!(|q| half_of(vld1q_u16(p.add(self.first + q / 2 * 8)), q % 2 == 1))
    }
    #[inline(always)]
    unsafe fn brain_floats<const COUNTED: bool>(self, p: *const u8) -> Self::Floats {
        let p = p.cast::<u16>();
        each!(|q| brain_half_of(brain_floats::<COUNTED>(p.add(self.first + q / 2 * 8)), q % 2 == 1))
    }
    #[inline(always)]
    unsafe fn load_floats(self, p: *const u8) -> Self::Floats {
        let p = p.cast::<f32>();
        each!(|q| vld1q_f32(p.add(self.first + q * 4)))
    }
    #[inline(always)]
    unsafe fn splat(self, p: *const f32) -> Self::Floats {
        with!([vdupq_n_f32(*p); Q])
    }
    #[inline(always)]
    unsafe fn splat_int(self, p: *const i32) -> Self::Floats {
        with!([vcvtq_f32_s32(vdupq_n_s32(*p)); Q])
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
        // SAFETY: the caller's activations hold C floats.
        unsafe {
            let x = row_of_words::<C>(x.cast()).map(|x| vreinterpretq_f32_u8(x));
            for q in 0..Q {
                by_lane!(C, |COLUMN, LANE| {
                    y[COLUMN][q] = vfmaq_laneq_f32::<LANE>(y[COLUMN][q], w[q], x[COLUMN / 4]);
                });
            }
        }
    }
    #[inline(always)]
    unsafe fn store(self, a: Self::Floats, p: *mut f32) {
        for q in 0..Q {
            with!(vst1q_f32(p.add(self.first + q * 4), a[q]));
        }
    }
}

impl<M: Multiply> F32Simd for NeonInt<M, 4> {
    #[inline(always)]
    fn max(self, a: [float32x4_t; 4], b: [float32x4_t; 4]) -> [float32x4_t; 4] {
        with!([0, 1, 2, 3].map(|q| greater(a[q], b[q])))
    }
    #[inline(always)]
    fn join_sum(self, a: [float32x4_t; 4]) -> f32 {
        with!({
            let four = vaddq_f32(vaddq_f32(a[0], a[2]), vaddq_f32(a[1], a[3]));
            let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
            vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
        })
    }
    #[inline(always)]
    fn join_max(self, a: [float32x4_t; 4]) -> f32 {
        with!({
            let four = greater(greater(a[0], a[2]), greater(a[1], a[3]));
            let four = greater(four, vextq_f32::<2>(four, four));
            vgetq_lane_f32::<0>(greater(four, vextq_f32::<1>(four, four)))
        })
    }
    #[inline(always)]
    fn signed_bytes(self, a: uint8x16_t) -> [float32x4_t; 4] {
        with!([0, 1, 2, 3].map(|q| vcvtq_f32_s32(widen_four(a, q, true))))
    }
    #[inline(always)]
    fn add_exponent(self, a: [float32x4_t; 4], n: [float32x4_t; 4]) -> [float32x4_t; 4] {
        with!([0, 1, 2, 3].map(|q| {
            let n = vshlq_n_s32::<23>(vreinterpretq_s32_f32(n[q]));
            vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a[q]), n))
        }))
    }
    #[inline(always)]
    unsafe fn code_pairs(self, p: *const u8) -> Self::Pairs {
        let uint8x16x2_t(low, high) = with!(vld2q_u8(p));
        self.pairs(low, high, true)
    }
    #[inline(always)]
    unsafe fn store_words(self, a: [float32x4_t; 4], p: *mut i16) {
        with!({
            let words = a.map(|a| vqmovn_s32(vcvtnq_s32_f32(a)));
            vst1q_s16(p, vcombine_s16(words[0], words[1]));
            vst1q_s16(p.add(8), vcombine_s16(words[2], words[3]));
        });
    }
}

/// Returns, per lane, `b` if it is greater, else `a`.
///
/// # Safety
/// The code runs inside a function compiled for NEON.
#[inline(always)]
unsafe fn greater(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    with!(vbslq_f32(vcgtq_f32(b, a), b, a))
}
