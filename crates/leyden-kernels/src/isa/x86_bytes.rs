//! Sixteen bytes, one per row, which are one 128-bit register on every x86 instruction set.

/// The byte operations of [`super::dot::Dot`], for a token that proves at least AVX2.
macro_rules! byte_operations {
    () => {
        #[inline(always)]
        unsafe fn bytes(self, p: *const u8) -> __m128i {
            // SAFETY: the token proves AVX2; a pointer is the caller's promise.
            unsafe { _mm_loadu_si128(p.cast()) }
        }
        #[inline(always)]
        fn byte_and(self, a: __m128i, mask: u8) -> __m128i {
            // SAFETY: the token proves AVX2; a pointer is the caller's promise.
            unsafe { _mm_and_si128(a, _mm_set1_epi8(mask as i8)) }
        }
        #[inline(always)]
        fn byte_or(self, a: __m128i, b: __m128i) -> __m128i {
            // SAFETY: the token proves AVX2; a pointer is the caller's promise.
            unsafe { _mm_or_si128(a, b) }
        }
        #[inline(always)]
        fn byte_shr<const N: i32>(self, a: __m128i) -> __m128i {
            // SAFETY: the token proves AVX2; a pointer is the caller's promise.
            unsafe { _mm_srli_epi16::<N>(a) }
        }
        #[inline(always)]
        fn byte_shl<const N: i32>(self, a: __m128i) -> __m128i {
            // SAFETY: the token proves AVX2; a pointer is the caller's promise.
            unsafe { _mm_slli_epi16::<N>(a) }
        }
        #[inline(always)]
        fn byte_sub(self, a: __m128i, b: u8) -> __m128i {
            // SAFETY: the token proves AVX2; a pointer is the caller's promise.
            unsafe { _mm_sub_epi8(a, _mm_set1_epi8(b as i8)) }
        }
    };
}
pub(super) use byte_operations;
