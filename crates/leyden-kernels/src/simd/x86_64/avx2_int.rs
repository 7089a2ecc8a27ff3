//! [`IntSimd`] on AVX2: 16 rows as two registers of 8.
//!
//! Unsigned quantised values are multiplied by `vpmaddubsw` and summed in 16 bits as long as they fit
//! (`gemm::microkernel` counts); the widening `vpmaddwd` also applies the scale. Signed quantised values are multiplied
//! through absolute values and `vpsignb`, which shares the multiply ports, and are widened at once. Tiles of many
//! columns have loops of their own ([`avx2_lanes`](crate::gemm::microkernel::x86_64::avx2_maddubs)).

use crate::simd::int::{F32Simd, IntSimd, ReadQuants};
use crate::simd::x86_64::common::{join_max, join_sum};
use std::arch::x86_64::*;
use std::ops::Range;

/// Token that code runs inside a function compiled for AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx2Int(());

impl Avx2Int {
    /// Returns the token; it can only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        Avx2Int(())
    }
}

/// 32-bit lanes of 16 rows.
pub(crate) type V = [__m256i; 2];

/// Evaluates an expression of intrinsics on both halves.
macro_rules! both {
    (|$h:ident| $e:expr) => {{
        // SAFETY: the token proves AVX2, FMA and F16C; pointers are readable by the method's contract.
        unsafe {
            [
                {
                    let $h = 0;
                    $e
                },
                {
                    let $h = 1;
                    $e
                },
            ]
        }
    }};
}
pub(super) use both;

/// Evaluates an expression of intrinsics.
macro_rules! with {
    ($e:expr) => {{
        // SAFETY: the token proves AVX2, FMA and F16C; pointers are readable by the method's contract.
        unsafe { $e }
    }};
}
pub(crate) use with;

impl Avx2Int {
    /// Adds the products with the four activations at `word`.
    #[inline(always)]
    unsafe fn dot(self, signed: bool, part: V, quants: V, word: *const i8) -> V {
        let y = with!(_mm256_set1_epi32(word.cast::<i32>().read_unaligned()));
        if signed {
            both!(|h| {
                let p = _mm256_maddubs_epi16(_mm256_abs_epi8(quants[h]), _mm256_sign_epi8(y, quants[h]));
                _mm256_add_epi32(part[h], _mm256_madd_epi16(p, _mm256_set1_epi16(1)))
            })
        } else {
            both!(|h| _mm256_add_epi16(part[h], _mm256_maddubs_epi16(quants[h], y)))
        }
    }
}

/// Implements the methods that all AVX2 tokens share: vectors of 16 rows as two registers of 8, their bytes and their
/// floats.
macro_rules! two_registers {
    () => {
        type Quants = V;
        type Acc = V;
        type Ints = V;
        type Scale = V;
        type Pairs = V;
        type Bytes = __m128i;
        type Floats = [__m256; 2];
        const COLUMNS: usize = 1;
        const SIDE_BY_SIDE: usize = 2;

        #[inline(always)]
        unsafe fn load(self, p: *const u8) -> V {
            both!(|h| _mm256_loadu_si256(p.add(32 * h).cast()))
        }
        #[inline(always)]
        fn and(self, a: V, mask: u8) -> V {
            both!(|h| _mm256_and_si256(a[h], _mm256_set1_epi8(mask as i8)))
        }
        #[inline(always)]
        fn or(self, a: V, b: V) -> V {
            both!(|h| _mm256_or_si256(a[h], b[h]))
        }
        #[inline(always)]
        fn shr<const N: u32>(self, a: V) -> V {
            both!(|h| _mm256_srl_epi16(a[h], _mm_cvtsi32_si128(N as i32)))
        }
        #[inline(always)]
        fn shl<const N: u32>(self, a: V) -> V {
            both!(|h| _mm256_sll_epi16(a[h], _mm_cvtsi32_si128(N as i32)))
        }
        #[inline(always)]
        fn look_up(self, a: V, table: &[u8; 16]) -> V {
            both!(|h| {
                let t = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.as_ptr().cast()));
                _mm256_shuffle_epi8(t, a[h])
            })
        }
        #[inline(always)]
        unsafe fn store_codes(self, a: V, p: *mut u8) {
            both!(|h| _mm256_storeu_si256(p.add(32 * h).cast(), a[h]));
        }
        #[inline(always)]
        fn none(self) -> V {
            with!([_mm256_setzero_si256(); 2])
        }
        #[inline(always)]
        fn ints(self) -> V {
            self.none()
        }
        #[inline(always)]
        fn pairs(self, low: __m128i, high: __m128i, signed: bool) -> V {
            with!({
                let (a, b) = (_mm_unpacklo_epi8(low, high), _mm_unpackhi_epi8(low, high));
                if signed {
                    [_mm256_cvtepi8_epi16(a), _mm256_cvtepi8_epi16(b)]
                } else {
                    [_mm256_cvtepu8_epi16(a), _mm256_cvtepu8_epi16(b)]
                }
            })
        }
        #[inline(always)]
        fn sub_times(self, a: V, b: V, k: i32) -> V {
            if k == 0 {
                return a;
            }
            both!(|h| _mm256_sub_epi32(a[h], _mm256_mullo_epi32(b[h], _mm256_set1_epi32(k))))
        }

        crate::simd::x86_64::common::byte_operations!();

        #[inline(always)]
        fn half_powers(self, a: __m128i) -> [__m256; 2] {
            both!(|h| {
                let e = _mm256_cvtepu8_epi32(if h == 0 { a } else { _mm_srli_si128::<8>(a) });
                let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(e, _mm256_set1_epi32(1)));
                let small = _mm256_sllv_epi32(_mm256_set1_epi32(0x0020_0000), e);
                let is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
                _mm256_castsi256_ps(_mm256_blendv_epi8(normal, small, is_small))
            })
        }

        #[inline(always)]
        fn zeros(self) -> [__m256; 2] {
            with!([_mm256_setzero_ps(); 2])
        }
        #[inline(always)]
        unsafe fn halves(self, p: *const u8) -> [__m256; 2] {
            both!(|h| _mm256_cvtph_ps(_mm_loadu_si128(p.add(16 * h).cast())))
        }
        #[inline(always)]
        unsafe fn brain_floats<const COUNTED: bool>(self, p: *const u8) -> [__m256; 2] {
            with!({
                let bits = _mm256_loadu_si256(p.cast());
                let bits = if COUNTED { crate::simd::x86_64::common::flush_small_bf16(bits) } else { bits };
                [_mm256_castsi256_si128(bits), _mm256_extracti128_si256::<1>(bits)]
                    .map(|half| _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(half))))
            })
        }
        #[inline(always)]
        unsafe fn load_floats(self, p: *const u8) -> [__m256; 2] {
            both!(|h| _mm256_loadu_ps(p.add(32 * h).cast()))
        }
        #[inline(always)]
        unsafe fn splat(self, p: *const f32) -> [__m256; 2] {
            with!([_mm256_set1_ps(*p); 2])
        }
        #[inline(always)]
        unsafe fn splat_int(self, p: *const i32) -> [__m256; 2] {
            with!([_mm256_cvtepi32_ps(_mm256_set1_epi32(*p)); 2])
        }
        #[inline(always)]
        fn mul(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            both!(|h| _mm256_mul_ps(a[h], b[h]))
        }
        #[inline(always)]
        fn sum(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            both!(|h| _mm256_add_ps(a[h], b[h]))
        }
        #[inline(always)]
        fn fma(self, a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
            both!(|h| _mm256_fmadd_ps(a[h], b[h], c[h]))
        }
        #[inline(always)]
        fn fnma(self, a: [__m256; 2], b: [__m256; 2], c: [__m256; 2]) -> [__m256; 2] {
            both!(|h| _mm256_fnmadd_ps(a[h], b[h], c[h]))
        }
        #[inline(always)]
        unsafe fn store(self, a: [__m256; 2], p: *mut f32) {
            with!({
                _mm256_storeu_ps(p, a[0]);
                _mm256_storeu_ps(p.add(8), a[1]);
            });
        }
    };
}
pub(super) use two_registers;

/// Implements the attention methods that all AVX2 tokens share.
macro_rules! two_registers_whole {
    () => {
        #[inline(always)]
        fn max(self, a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
            both!(|h| _mm256_max_ps(b[h], a[h]))
        }
        #[inline(always)]
        fn join_sum(self, a: [__m256; 2]) -> f32 {
            with!(join_sum(_mm256_add_ps(a[0], a[1])))
        }
        #[inline(always)]
        fn join_max(self, a: [__m256; 2]) -> f32 {
            with!(join_max(_mm256_max_ps(a[1], a[0])))
        }
        // Written out, because closures in `from_fn` are compiled without these instructions.
        #[inline(always)]
        fn join_sums(self, a: &[[__m256; 2]; 16]) -> [f32; 16] {
            let mut out = [0.0; 16];
            for half in 0..2 {
                with!({
                    let mut v = [_mm256_setzero_ps(); 8];
                    for r in 0..8 {
                        let [low, high] = a[8 * half + r];
                        v[r] = _mm256_add_ps(low, high);
                    }
                    let joined =
                        crate::simd::x86_64::common::join_rows_of_8!(v, |low, high| _mm256_add_ps(low, high));
                    _mm256_storeu_ps(out[8 * half..].as_mut_ptr(), joined);
                });
            }
            out
        }
        #[inline(always)]
        fn join_maxima(self, a: &[[__m256; 2]; 16]) -> [f32; 16] {
            let mut out = [0.0; 16];
            for half in 0..2 {
                with!({
                    let mut v = [_mm256_setzero_ps(); 8];
                    for r in 0..8 {
                        let [low, high] = a[8 * half + r];
                        v[r] = _mm256_max_ps(high, low);
                    }
                    let joined =
                        crate::simd::x86_64::common::join_rows_of_8!(v, |low, high| _mm256_max_ps(high, low));
                    _mm256_storeu_ps(out[8 * half..].as_mut_ptr(), joined);
                });
            }
            out
        }
        #[inline(always)]
        fn signed_bytes(self, a: __m128i) -> [__m256; 2] {
            both!(|h| {
                let half = if h == 0 { a } else { _mm_srli_si128::<8>(a) };
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(half))
            })
        }
        #[inline(always)]
        fn add_exponent(self, a: [__m256; 2], n: [__m256; 2]) -> [__m256; 2] {
            both!(|h| {
                let n = _mm256_slli_epi32::<23>(_mm256_castps_si256(n[h]));
                _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a[h]), n))
            })
        }
        #[inline(always)]
        unsafe fn code_pairs(self, p: *const u8) -> V {
            with!([0, 1].map(|h| _mm256_cvtepi8_epi16(p.cast::<__m128i>().add(h).read_unaligned())))
        }
        #[inline(always)]
        unsafe fn store_words(self, a: [__m256; 2], p: *mut i16) {
            with!({
                // The packed halves of each vector, which are then put in order.
                let words = _mm256_packs_epi32(_mm256_cvtps_epi32(a[0]), _mm256_cvtps_epi32(a[1]));
                p.cast::<__m256i>().write_unaligned(_mm256_permute4x64_epi64::<0b11_01_10_00>(words));
            });
        }
    };
}
pub(super) use two_registers_whole;

impl IntSimd for Avx2Int {
    crate::simd::x86_64::avx2_int::two_registers!();

    const NARROW: bool = true;
    const SIGNED_ZERO: i32 = 0;
    const PARTS_TOGETHER: usize = 2;

    #[inline(always)]
    unsafe fn start(self, _sum: *const i32, _zero: i32) -> V {
        self.none()
    }
    #[inline(always)]
    unsafe fn products<U: ReadQuants, const SIGNED: bool, const C: usize, const P: usize>(
        self,
        s: &mut [[V; C]; P],
        groups: Range<usize>,
        w: *const u8,
        a: *const i8,
    ) {
        // With few registers, a column's sums are loaded once for both groups.
        for g in groups {
            // SAFETY: the caller's weights are 32 values of 16 rows.
            let (low, high) = unsafe { U::pair(self, w, g) };
            for c in 0..C {
                // SAFETY: the caller's activations hold C words at each of eight k-groups.
                unsafe {
                    s[0][c] = self.dot(SIGNED, s[0][c], low, a.add((g * C + c) * 4));
                    s[P - 1][c] = self.dot(SIGNED, s[P - 1][c], high, a.add(((g + 4) * C + c) * 4));
                }
            }
        }
    }

    crate::simd::x86_64::common::products_of_part!(SIGNED);

    #[inline(always)]
    fn add<const SIGNED: bool>(self, total: V, part: V) -> V {
        both!(|h| {
            let wide = if SIGNED { part[h] } else { _mm256_madd_epi16(part[h], _mm256_set1_epi16(1)) };
            _mm256_add_epi32(total[h], wide)
        })
    }
    #[inline(always)]
    unsafe fn finish(self, total: V, sum: *const i32, zero: i32) -> V {
        if zero == 0 {
            return total;
        }
        both!(|h| _mm256_sub_epi32(total[h], _mm256_set1_epi32((*sum).wrapping_mul(zero))))
    }
    #[inline(always)]
    fn scale<const HOW: u8>(self, bytes: __m128i, signed: bool) -> V {
        self.pairs(bytes, bytes, signed)
    }
    #[inline(always)]
    fn add_scaled<const SIGNED: bool, const HOW: u8>(self, total: V, part: V, scale: V) -> V {
        both!(|h| {
            let product = if SIGNED {
                // The low half of each pair, sign-extended, is the scale.
                let s = _mm256_srai_epi32::<16>(scale[h]);
                _mm256_mullo_epi32(part[h], s)
            } else {
                _mm256_madd_epi16(part[h], scale[h])
            };
            _mm256_add_epi32(total[h], product)
        })
    }
    #[inline(always)]
    unsafe fn add_pairs(self, total: V, pairs: V, word: *const i32) -> V {
        both!(|h| _mm256_add_epi32(total[h], _mm256_madd_epi16(pairs[h], _mm256_set1_epi32(*word))))
    }
    #[inline(always)]
    fn floats<const HOW: u8>(self, a: V) -> [__m256; 2] {
        both!(|h| _mm256_cvtepi32_ps(a[h]))
    }
}

impl F32Simd for Avx2Int {
    crate::simd::x86_64::avx2_int::two_registers_whole!();
}
