//! Code shared by AVX2 and AVX-512: operations on 16 bytes, one per row, in a 128-bit register; and reductions of
//! lanes.

use crate::types::SMALLEST_BF16;
use std::arch::x86_64::*;

/// Implements the byte operations of [`crate::simd::int::IntSimd`] for a token that proves at least AVX2.
macro_rules! byte_operations {
    () => {
        #[inline(always)]
        unsafe fn bytes(self, p: *const u8) -> __m128i {
            // SAFETY: the token proves AVX2; pointers are readable by the method's contract.
            unsafe { _mm_loadu_si128(p.cast()) }
        }
        #[inline(always)]
        fn byte_and(self, a: __m128i, mask: u8) -> __m128i {
            // SAFETY: the token proves AVX2; pointers are readable by the method's contract.
            unsafe { _mm_and_si128(a, _mm_set1_epi8(mask as i8)) }
        }
        #[inline(always)]
        fn byte_or(self, a: __m128i, b: __m128i) -> __m128i {
            // SAFETY: the token proves AVX2; pointers are readable by the method's contract.
            unsafe { _mm_or_si128(a, b) }
        }
        #[inline(always)]
        fn byte_shr<const N: i32>(self, a: __m128i) -> __m128i {
            // SAFETY: the token proves AVX2; pointers are readable by the method's contract.
            unsafe { _mm_srli_epi16::<N>(a) }
        }
        #[inline(always)]
        fn byte_shl<const N: i32>(self, a: __m128i) -> __m128i {
            // SAFETY: the token proves AVX2; pointers are readable by the method's contract.
            unsafe { _mm_slli_epi16::<N>(a) }
        }
        #[inline(always)]
        fn byte_sub(self, a: __m128i, b: u8) -> __m128i {
            // SAFETY: the token proves AVX2; pointers are readable by the method's contract.
            unsafe { _mm_sub_epi8(a, _mm_set1_epi8(b as i8)) }
        }
    };
}
pub(super) use byte_operations;

/// Implements [`crate::simd::int::IntSimd::products_of_part`] by the token's own `dot`, which gets `$signed`.
macro_rules! products_of_part {
    ($signed:expr) => {
        #[inline(always)]
        unsafe fn products_of_part<U: ReadQuants, const SIGNED: bool, const C: usize, const HIGH: bool>(
            self,
            from: [Self::Acc; C],
            w: *const u8,
            a: *const i8,
        ) -> [Self::Acc; C] {
            let mut s = from;
            for g in 0..4 {
                // SAFETY: the caller's weights are 32 values of 16 rows.
                let (low, high) = unsafe { U::pair(self, w, g) };
                let (quants, group) = if HIGH { (high, g + 4) } else { (low, g) };
                for c in 0..C {
                    // SAFETY: the caller's activations hold C words at each of eight k-groups.
                    s[c] = unsafe { self.dot($signed, s[c], quants, a.add((group * C + c) * 4)) };
                }
            }
            s
        }
    };
}
pub(super) use products_of_part;

/// Implements the products of [`crate::simd::int::IntSimd`] by `vpdpbusd`, which adds the products of unsigned
/// quantised values and signed activations without saturation: signed quantised values are offset by 128, and no sum is
/// narrow. The token's own `dot` adds four products to each lane.
macro_rules! unsigned_products {
    () => {
        const NARROW: bool = false;
        const SIGNED_ZERO: i32 = 128;
        const ACC_INIT: $crate::cpu::isa::AccInit = $crate::cpu::isa::AccInit::Shift;
        const WORDS: bool = true;
        const BIASED: bool = true;

        #[inline(always)]
        unsafe fn start(self, sum: *const i32, zero: i32) -> Self::Acc {
            // SAFETY: the trait method's `# Safety`.
            unsafe {
                self.begin(&(*sum).wrapping_mul(-zero).wrapping_add($crate::simd::int::BIAS_BITS), zero)
            }
        }
        #[inline(always)]
        unsafe fn products<U: ReadQuants, const SIGNED: bool, const C: usize, const P: usize>(
            self,
            s: &mut [[Self::Acc; C]; P],
            groups: Range<usize>,
            w: *const u8,
            a: *const i8,
        ) {
            let shift = SIGNED && !U::UNPACKED;
            if U::LINES && Self::AGAIN && P == 1 && C <= $crate::prefetch::MEMORY_BOUND_TOKENS {
                // Few columns are bound by memory, which is faster in order of addresses. Each line's k-group and the
                // one four lines later are prefetched in both loops.
                for g in groups.clone() {
                    // SAFETY: the caller's weights are 32 values of 16 rows.
                    let (low, _) = unsafe { U::pair(self, w, g) };
                    for c in 0..C {
                        // SAFETY: the caller's activations hold C words at each of eight k-groups.
                        s[0][c] = unsafe { self.dot(shift, s[0][c], low, a.add((g * C + c) * 4)) };
                    }
                }
                for g in groups {
                    // SAFETY: as above.
                    let (_, high) = unsafe { U::pair(self, w, g) };
                    for c in 0..C {
                        // SAFETY: as above.
                        s[0][c] = unsafe { self.dot(shift, s[0][c], high, a.add(((g + 4) * C + c) * 4)) };
                    }
                }
                return;
            }
            if U::HELD && Self::AGAIN && P == 1 && groups == (0..4) {
                // Loads first: loads between products would wait for free scheduler entries, taken by products that
                // wait for weights.
                // SAFETY: the caller's weights are 32 values of 16 rows.
                let pairs = unsafe {
                    let pair = |g| self.held_pair::<U>(w, g);
                    [pair(0), pair(1), pair(2), pair(3)]
                };
                for (g, (low, high)) in pairs.into_iter().enumerate() {
                    for (quants, g) in [(low, g), (high, g + 4)] {
                        for c in 0..C {
                            // SAFETY: the caller's activations hold C words at each of eight k-groups.
                            s[0][c] = unsafe { self.dot(shift, s[0][c], quants, a.add((g * C + c) * 4)) };
                        }
                    }
                }
                return;
            }
            // Long chains: the other columns' products are executed between two additions to one sum.
            for g in groups {
                // SAFETY: the caller's weights are 32 values of 16 rows.
                let (low, high) = unsafe { U::pair(self, w, g) };
                for c in 0..C {
                    // SAFETY: the caller's activations hold C words at each of eight k-groups.
                    s[0][c] = unsafe { self.dot(shift, s[0][c], low, a.add((g * C + c) * 4)) };
                }
                for c in 0..C {
                    // SAFETY: as above.
                    s[P - 1][c] = unsafe { self.dot(shift, s[P - 1][c], high, a.add(((g + 4) * C + c) * 4)) };
                }
            }
        }
        crate::simd::x86_64::common::products_of_part!(SIGNED && !U::UNPACKED);

        #[inline(always)]
        unsafe fn finish(self, total: Self::Ints, _sum: *const i32, _zero: i32) -> Self::Ints {
            total
        }
    };
}
pub(super) use unsigned_products;

/// Replaces those of 16 bfloat16 that are too small to count by zero.
///
/// # Safety
/// AVX2 is there.
#[inline(always)]
pub(crate) unsafe fn flush_small_bf16(bits: __m256i) -> __m256i {
    // SAFETY: AVX2 is there (`# Safety`).
    unsafe {
        let magnitudes = _mm256_and_si256(bits, _mm256_set1_epi16(i16::MAX));
        _mm256_and_si256(bits, _mm256_cmpgt_epi16(magnitudes, _mm256_set1_epi16(SMALLEST_BF16 as i16 - 1)))
    }
}

/// Returns the sum of eight lanes, reduced by halves.
///
/// # Safety
/// The processor has AVX.
#[inline(always)]
pub(super) unsafe fn join_sum(a: __m256) -> f32 {
    // SAFETY: the processor has AVX (`# Safety`); the rest is SSE.
    unsafe {
        let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
        _mm_cvtss_f32(_mm_add_ss(a, _mm_shuffle_ps::<1>(a, a)))
    }
}

/// Returns the maximum of eight lanes, reduced by halves; a later lane replaces an earlier one if it is greater.
///
/// # Safety
/// The processor has AVX.
#[inline(always)]
pub(super) unsafe fn join_max(a: __m256) -> f32 {
    // SAFETY: the processor has AVX (`# Safety`); the rest is SSE.
    unsafe {
        let a = _mm_max_ps(_mm256_extractf128_ps::<1>(a), _mm256_castps256_ps128(a));
        let a = _mm_max_ps(_mm_movehl_ps(a, a), a);
        _mm_cvtss_f32(_mm_max_ss(_mm_shuffle_ps::<1>(a, a), a))
    }
}

/// Reduces the lanes of eight vectors, each in the order of [`join_sum`] and [`join_max`], by `$of` of the earlier and
/// the later lanes: after the first step two vectors share one, then four.
macro_rules! join_rows_of_8 {
    ($v:expr, |$low:ident, $high:ident| $of:expr) => {{
        let v = $v;
        let of = |$low: __m256, $high: __m256| $of;
        let (mut fours, mut twos) = ([v[0]; 4], [v[0]; 2]);
        for r in 0..4 {
            let (low, high) = (
                _mm256_permute2f128_ps::<0x20>(v[r], v[r + 4]),
                _mm256_permute2f128_ps::<0x31>(v[r], v[r + 4]),
            );
            fours[r] = of(low, high);
        }
        for r in 0..2 {
            let [a, b] = [fours[2 * r], fours[2 * r + 1]].map(|a| _mm256_castps_pd(a));
            let (low, high) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
            twos[r] = of(_mm256_castpd_ps(low), _mm256_castpd_ps(high));
        }
        of(_mm256_shuffle_ps::<0x88>(twos[0], twos[1]), _mm256_shuffle_ps::<0xdd>(twos[0], twos[1]))
    }};
}
pub(super) use join_rows_of_8;

/// Returns the greatest of eight unsigned integers.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn join_greatest(a: __m256i) -> u32 {
    // SAFETY: the processor has AVX2 (`# Safety`).
    unsafe {
        let a = _mm_max_epu32(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a));
        let a = _mm_max_epu32(a, _mm_shuffle_epi32::<0b1110>(a));
        _mm_cvtsi128_si32(_mm_max_epu32(a, _mm_shuffle_epi32::<1>(a))).cast_unsigned()
    }
}

/// Stores 16 quantised values in groups of four, `stride` bytes apart. From a vector, because the compiler turns copies
/// in a loop into the slow `vpscatterdd`.
///
/// # Panics
/// If `out` has no room for them.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn store_fours(quants: &[i8; 16], out: &mut [i8], stride: usize) {
    assert!(out.len() >= 4 && (out.len() - 4) / 3 >= stride, "room for four words");
    let to = out.as_mut_ptr().cast::<i32>();
    // SAFETY: the processor has AVX2 (`# Safety`); `quants` is 16 bytes; the last group ends at most 3 * stride + 4
    // bytes from the start.
    unsafe {
        let quants = _mm_loadu_si128(quants.as_ptr().cast());
        to.write_unaligned(_mm_extract_epi32::<0>(quants));
        to.byte_add(stride).write_unaligned(_mm_extract_epi32::<1>(quants));
        to.byte_add(2 * stride).write_unaligned(_mm_extract_epi32::<2>(quants));
        to.byte_add(3 * stride).write_unaligned(_mm_extract_epi32::<3>(quants));
    }
}

/// Returns the sum of 16 quantised values.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn sum_codes(quants: &[i8; 16]) -> i32 {
    // SAFETY: the processor has AVX2 (`# Safety`); `quants` is 16 bytes.
    unsafe {
        // Unsigned bytes are summed by one instruction: 128 is added to each, and subtracted from the sum.
        let unsigned = _mm_xor_si128(_mm_loadu_si128(quants.as_ptr().cast()), _mm_set1_epi8(i8::MIN));
        let halves = _mm_sad_epu8(unsigned, _mm_setzero_si128());
        _mm_cvtsi128_si32(halves) + _mm_extract_epi32::<2>(halves) - 16 * 128
    }
}

/// Returns the sum of a multiple of 16 quantised values.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn sum_all_codes(quants: &[i8]) -> i32 {
    let mut sums = [0; 2];
    // Vectors of 16: values just quantised were stored 16 at a time, and a wider load would wait until they are in L1.
    let (pairs, rest) = quants.as_chunks::<32>();
    // SAFETY: the processor has AVX2 (`# Safety`); half a chunk is one vector.
    unsafe {
        let mut totals = [_mm_setzero_si128(); 2];
        for pair in pairs {
            for i in 0..2 {
                // As in `sum_codes`.
                let half = _mm_loadu_si128(pair.as_ptr().add(16 * i).cast());
                let unsigned = _mm_xor_si128(half, _mm_set1_epi8(i8::MIN));
                totals[i] = _mm_add_epi64(totals[i], _mm_sad_epu8(unsigned, _mm_setzero_si128()));
            }
        }
        for i in 0..2 {
            sums[i] = _mm_cvtsi128_si32(totals[i]).wrapping_add(_mm_extract_epi32::<2>(totals[i]));
        }
        let sum = sums[0].wrapping_add(sums[1]).wrapping_sub(128 * 32 * pairs.len() as i32);
        rest.first_chunk().map_or(sum, |rest| sum.wrapping_add(sum_codes(rest)))
    }
}
