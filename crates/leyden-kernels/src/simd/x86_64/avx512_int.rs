//! [`IntSimd`] on AVX-512 with VNNI: 16 rows in one register, activations as embedded broadcasts.
//!
//! `vpdpbusd` multiplies unsigned quantised values with signed activations and adds four products without saturation,
//! so signed quantised values are offset by 128. `vpmulld` takes the time of two instructions and needs an addition.
//! Sums that fit 16 bits are instead scaled and added by one `vpdpwssd`; otherwise, where scaled totals stay below
//! 2^24, they are kept in f32, exactly, by a conversion and a fused multiply-add.

use crate::cpu::isa::LOW_HALF_BIAS;
use crate::simd::int::{F32Simd, FLOATS, IntSimd, ReadQuants, WORDS};
use crate::simd::x86_64::common::{join_max, join_sum};
use crate::types::SMALLEST_BF16;
use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

/// Token that code runs inside a function compiled for AVX-512 F, BW, DQ, VL and VNNI. With `TO_L1`, weights are
/// prefetched into L1.
#[derive(Clone, Copy)]
pub(crate) struct Avx512Int<const TO_L1: bool = false>(());

impl<const TO_L1: bool> Avx512Int<TO_L1> {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        Avx512Int(())
    }
}

/// Implements [`IntSimd::hold`]: the compiler only sees that the quantised values are in a register here.
#[target_feature(enable = "avx512f")]
#[inline]
fn held(quants: __m512i) -> __m512i {
    let mut held = quants;
    // SAFETY: no instruction.
    unsafe { asm!("/* {0} */", inout(zmm_reg) held, options(nomem, nostack, preserves_flags)) };
    held
}

/// Evaluates an expression of intrinsics.
macro_rules! with {
    ($e:expr) => {{
        // SAFETY: the token proves the features; pointers are readable by the method's contract.
        unsafe { $e }
    }};
}

/// Replaces those of 32 bfloat16 that are too small to count by zero.
///
/// # Safety
/// AVX-512 BW is there.
#[inline(always)]
pub(crate) unsafe fn flush_small_bf16(bits: __m512i) -> __m512i {
    with!({
        // Doubling the bits drops the sign.
        let magnitudes = _mm512_add_epi16(bits, bits);
        let flush_small_bf16 =
            _mm512_cmpge_epu16_mask(magnitudes, _mm512_set1_epi16((SMALLEST_BF16 << 1) as i16));
        _mm512_maskz_mov_epi16(flush_small_bf16, bits)
    })
}

/// Adds the products of each lane's two 16-bit integers with those of the word at `word` to `total`. In assembly: the
/// compiler turns the intrinsic into a multiplication and an addition, which have less latency but are two
/// instructions, and the number of instructions bounds a tile.
///
/// # Safety
/// `word` can be read.
#[target_feature(enable = "avx512f,avx512vnni")]
#[inline]
pub(crate) unsafe fn add_products(total: __m512i, pairs: __m512i, word: *const i32) -> __m512i {
    let mut sums = total;
    // SAFETY: this function's features; the word is readable (`# Safety`).
    unsafe {
        asm!(
            "vpdpwssd {sums}, {pairs}, dword ptr [{word}]{{1to16}}",
            sums = inout(zmm_reg) sums,
            pairs = in(zmm_reg) pairs,
            word = in(reg) word,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    sums
}

/// Reduces the lanes of 16 vectors to the lanes of one, lane i and i + 8, then + 4, + 2, + 1: after each step two
/// vectors fit in one, so 16 vectors take 15 operations instead of 64.
macro_rules! join_rows {
    ($a:expr, |$low:ident, $high:ident| $join:expr) => {
        with!({
            let a: &[__m512; 16] = $a;
            let mut eights = [_mm512_setzero_ps(); 8];
            for i in 0..8 {
                let $low = _mm512_shuffle_f32x4::<0x44>(a[2 * i], a[2 * i + 1]);
                let $high = _mm512_shuffle_f32x4::<0xee>(a[2 * i], a[2 * i + 1]);
                eights[i] = $join;
            }
            let mut fours = [_mm512_setzero_ps(); 4];
            for i in 0..4 {
                let $low = _mm512_shuffle_f32x4::<0x88>(eights[2 * i], eights[2 * i + 1]);
                let $high = _mm512_shuffle_f32x4::<0xdd>(eights[2 * i], eights[2 * i + 1]);
                fours[i] = $join;
            }
            let mut twos = [_mm512_setzero_ps(); 2];
            for i in 0..2 {
                let [x, y] = [fours[2 * i], fours[2 * i + 1]].map(|v| _mm512_castps_pd(v));
                let $low = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
                let $high = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
                twos[i] = $join;
            }
            let $low = _mm512_shuffle_ps::<0x88>(twos[0], twos[1]);
            let $high = _mm512_shuffle_ps::<0xdd>(twos[0], twos[1]);
            // Row 4 i + l is now element i of quarter l.
            let places = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            let mut out = [0.0; 16];
            _mm512_storeu_ps(out.as_mut_ptr(), _mm512_permutexvar_ps(places, $join));
            out
        })
    };
}

impl<const TO_L1: bool> Avx512Int<TO_L1> {
    /// Adds the products with the four activations at `word`; with `shift` quantised values are signed.
    #[inline(always)]
    unsafe fn dot(self, shift: bool, part: __m512i, quants: __m512i, word: *const i8) -> __m512i {
        with!({
            let quants = if shift { _mm512_xor_si512(quants, _mm512_set1_epi8(i8::MIN)) } else { quants };
            _mm512_dpbusd_epi32(part, quants, _mm512_set1_epi32(word.cast::<i32>().read_unaligned()))
        })
    }
}

impl<const TO_L1: bool> IntSimd for Avx512Int<TO_L1> {
    type Quants = __m512i;
    type Acc = __m512i;
    type Ints = __m512i;
    type Scale = __m512i;
    type Pairs = __m512i;
    type Bytes = __m128i;
    type Floats = __m512;
    const COLUMNS: usize = 1;
    const SIDE_BY_SIDE: usize = 2;
    const PARTS_TOGETHER: usize = 8;
    const BRAIN_PAIRS: bool = true;
    const TO_L1: bool = TO_L1;
    const AGAIN: bool = !TO_L1;
    // Equal to `Tier::single_multiply_port`.
    const PACKS_TWO_SUMS: bool = !TO_L1;
    const WINOGRAD_INNER_PRODUCT: bool = !TO_L1;

    crate::simd::x86_64::common::unsigned_products!();

    #[inline(always)]
    unsafe fn load(self, p: *const u8) -> __m512i {
        with!(_mm512_loadu_si512(p.cast()))
    }
    #[inline(always)]
    fn hold(self, quants: __m512i) -> __m512i {
        // SAFETY: the token proves the features.
        unsafe { held(quants) }
    }
    #[inline(always)]
    fn and(self, a: __m512i, mask: u8) -> __m512i {
        with!(_mm512_and_si512(a, _mm512_set1_epi8(mask as i8)))
    }
    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        with!(_mm512_or_si512(a, b))
    }
    #[inline(always)]
    fn shr<const N: u32>(self, a: __m512i) -> __m512i {
        with!(_mm512_srli_epi16::<N>(a))
    }
    #[inline(always)]
    fn shl<const N: u32>(self, a: __m512i) -> __m512i {
        with!(_mm512_slli_epi16::<N>(a))
    }
    #[inline(always)]
    fn look_up(self, a: __m512i, table: &[u8; 16]) -> __m512i {
        with!({
            let t = _mm512_broadcast_i32x4(_mm_loadu_si128(table.as_ptr().cast()));
            _mm512_shuffle_epi8(t, a)
        })
    }

    #[inline(always)]
    unsafe fn store_codes(self, a: __m512i, p: *mut u8) {
        with!(_mm512_storeu_si512(p.cast(), a));
    }
    #[inline(always)]
    fn shift(self, a: __m512i, b: u8) -> __m512i {
        with!(_mm512_add_epi8(a, _mm512_set1_epi8(b as i8)))
    }
    #[inline(always)]
    fn winograd_products(self, part: __m512i, x: __m512i, y: __m512i) -> __m512i {
        with!(_mm512_dpbusd_epi32(part, x, y))
    }
    #[inline(always)]
    unsafe fn store_less(self, part: __m512i, p: *mut u8) {
        with!(_mm512_storeu_si512(p.cast(), _mm512_sub_epi32(self.none(), part)));
    }
    #[inline(always)]
    fn add_squares(self, total: __m512i, quants: __m512i) -> __m512i {
        with!({
            let magnitudes = _mm512_abs_epi8(quants);
            _mm512_dpbusd_epi32(total, magnitudes, magnitudes)
        })
    }
    #[inline(always)]
    unsafe fn begin(self, start: *const i32, _zero: i32) -> __m512i {
        with!(_mm512_set1_epi32(*start))
    }
    #[inline(always)]
    fn none(self) -> __m512i {
        with!(_mm512_setzero_si512())
    }
    #[inline(always)]
    fn ints(self) -> __m512i {
        self.none()
    }
    #[inline(always)]
    fn biased_floats(self, a: __m512i) -> __m512 {
        with!(_mm512_castsi512_ps(a))
    }
    #[inline(always)]
    fn add<const SIGNED: bool>(self, total: __m512i, part: __m512i) -> __m512i {
        with!(_mm512_add_epi32(total, part))
    }
    #[inline(always)]
    fn scale<const HOW: u8>(self, bytes: __m128i, signed: bool) -> __m512i {
        with!({
            let wide = if signed { _mm512_cvtepi8_epi32(bytes) } else { _mm512_cvtepu8_epi32(bytes) };
            match HOW {
                FLOATS => _mm512_castps_si512(_mm512_cvtepi32_ps(wide)),
                // The high half of a sum is its sign and must not be multiplied.
                WORDS => _mm512_and_si512(wide, _mm512_set1_epi32(0xffff)),
                _ => wide,
            }
        })
    }
    #[inline(always)]
    fn add_scaled<const SIGNED: bool, const HOW: u8>(
        self,
        total: __m512i,
        part: __m512i,
        scale: __m512i,
    ) -> __m512i {
        with!(match HOW {
            FLOATS => {
                let (scale, total) = (_mm512_castsi512_ps(scale), _mm512_castsi512_ps(total));
                _mm512_castps_si512(_mm512_fmadd_ps(_mm512_cvtepi32_ps(part), scale, total))
            }
            WORDS => _mm512_dpwssd_epi32(total, part, scale),
            _ => _mm512_add_epi32(total, _mm512_mullo_epi32(part, scale)),
        })
    }
    #[inline(always)]
    unsafe fn make_room(self, part: __m512i, start: Option<*const i32>) -> __m512i {
        with!({
            let start = start.map_or(LOW_HALF_BIAS, |start| *start);
            _mm512_add_epi32(_mm512_slli_epi32::<16>(part), _mm512_set1_epi32(start))
        })
    }
    #[inline(always)]
    fn add_shared(self, total: __m512i, part: __m512i, scales: __m512i) -> __m512i {
        with!(_mm512_dpwssd_epi32(total, _mm512_xor_si512(part, _mm512_set1_epi32(LOW_HALF_BIAS)), scales))
    }
    #[inline(always)]
    fn pairs(self, low: __m128i, high: __m128i, signed: bool) -> __m512i {
        with!({
            let bytes = _mm256_set_m128i(_mm_unpackhi_epi8(low, high), _mm_unpacklo_epi8(low, high));
            if signed { _mm512_cvtepi8_epi16(bytes) } else { _mm512_cvtepu8_epi16(bytes) }
        })
    }
    #[inline(always)]
    unsafe fn add_pairs(self, total: __m512i, pairs: __m512i, word: *const i32) -> __m512i {
        with!(add_products(total, pairs, word))
    }
    #[inline(always)]
    fn sub_times(self, a: __m512i, b: __m512i, k: i32) -> __m512i {
        if k == 0 {
            return a;
        }
        with!(_mm512_sub_epi32(a, _mm512_mullo_epi32(b, _mm512_set1_epi32(k))))
    }
    #[inline(always)]
    fn floats<const HOW: u8>(self, a: __m512i) -> __m512 {
        with!(if HOW == FLOATS { _mm512_castsi512_ps(a) } else { _mm512_cvtepi32_ps(a) })
    }

    crate::simd::x86_64::common::byte_operations!();

    #[inline(always)]
    fn half_powers(self, a: __m128i) -> __m512 {
        with!({
            let e = _mm512_cvtepu8_epi32(a);
            let normal = _mm512_slli_epi32::<23>(_mm512_sub_epi32(e, _mm512_set1_epi32(1)));
            let small = _mm512_sllv_epi32(_mm512_set1_epi32(0x0020_0000), e);
            let is_small = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(2));
            _mm512_castsi512_ps(_mm512_mask_blend_epi32(is_small, normal, small))
        })
    }

    #[inline(always)]
    fn zeros(self) -> __m512 {
        with!(_mm512_setzero_ps())
    }
    #[inline(always)]
    unsafe fn halves(self, p: *const u8) -> __m512 {
        with!(_mm512_cvtph_ps(_mm256_loadu_si256(p.cast())))
    }
    #[inline(always)]
    unsafe fn brain_floats<const COUNTED: bool>(self, p: *const u8) -> __m512 {
        with!({
            let bits = _mm256_loadu_si256(p.cast());
            let wide = if COUNTED {
                _mm512_cvtepu16_epi32(crate::simd::x86_64::common::flush_small_bf16(bits))
            } else {
                _mm512_cvtepu16_epi32(bits)
            };
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        })
    }
    #[inline(always)]
    unsafe fn brain_float_pair(self, p: *const u8) -> [__m512; 2] {
        /// Mask of the upper halves of the lanes.
        const UPPER: u32 = 0xaaaa_aaaa;
        with!({
            let words = flush_small_bf16(_mm512_loadu_si512(p.cast()));
            // Moves row r's word, of one k or the other, to the upper half of lane r, with zeros below: its value as
            // f32.
            let first = _mm512_set_epi32(
                0xf_0000, 0xe_0000, 0xd_0000, 0xc_0000, 0xb_0000, 0xa_0000, 0x9_0000, 0x8_0000, 0x7_0000,
                0x6_0000, 0x5_0000, 0x4_0000, 0x3_0000, 0x2_0000, 0x1_0000, 0,
            );
            let second = _mm512_or_si512(first, _mm512_set1_epi32(0x10_0000));
            [
                _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(UPPER, first, words)),
                _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(UPPER, second, words)),
            ]
        })
    }
    #[inline(always)]
    unsafe fn load_floats(self, p: *const u8) -> __m512 {
        with!(_mm512_loadu_ps(p.cast()))
    }
    #[inline(always)]
    unsafe fn splat(self, p: *const f32) -> __m512 {
        with!(_mm512_set1_ps(*p))
    }
    #[inline(always)]
    unsafe fn splat_int(self, p: *const i32) -> __m512 {
        with!(_mm512_cvtepi32_ps(_mm512_set1_epi32(*p)))
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        with!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn sum(self, a: __m512, b: __m512) -> __m512 {
        with!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        with!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn fnma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        with!(_mm512_fnmadd_ps(a, b, c))
    }
    #[inline(always)]
    unsafe fn store(self, a: __m512, p: *mut f32) {
        with!(_mm512_storeu_ps(p, a));
    }
}

impl<const TO_L1: bool> F32Simd for Avx512Int<TO_L1> {
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        with!(_mm512_max_ps(b, a))
    }
    #[inline(always)]
    fn join_sum(self, a: __m512) -> f32 {
        with!(join_sum(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a))))
    }
    #[inline(always)]
    fn join_max(self, a: __m512) -> f32 {
        with!(join_max(_mm256_max_ps(_mm512_extractf32x8_ps::<1>(a), _mm512_castps512_ps256(a))))
    }
    #[inline(always)]
    fn join_sums(self, a: &[__m512; 16]) -> [f32; 16] {
        join_rows!(a, |low, high| _mm512_add_ps(low, high))
    }
    #[inline(always)]
    fn join_maxima(self, a: &[__m512; 16]) -> [f32; 16] {
        join_rows!(a, |low, high| _mm512_max_ps(high, low))
    }
    #[inline(always)]
    fn signed_bytes(self, a: __m128i) -> __m512 {
        with!(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(a)))
    }
    #[inline(always)]
    fn add_exponent(self, a: __m512, n: __m512) -> __m512 {
        with!({
            let n = _mm512_slli_epi32::<23>(_mm512_castps_si512(n));
            _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), n))
        })
    }
    #[inline(always)]
    unsafe fn code_pairs(self, p: *const u8) -> __m512i {
        with!(_mm512_cvtepi8_epi16(p.cast::<__m256i>().read_unaligned()))
    }
    #[inline(always)]
    unsafe fn store_words(self, a: __m512, p: *mut i16) {
        with!(p.cast::<__m256i>().write_unaligned(_mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(a))));
    }
}
