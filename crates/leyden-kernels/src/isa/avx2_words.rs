//! [`Dot`] on AVX2 for signed codes of panels that were taken apart ahead: everything is [`Avx2Dot`](super::avx2_dot::Avx2Dot)'s
//! but that codes are integers of 16 bits, two of a row in a lane.
//!
//! `vpmaddubsw` multiplies bytes without sign by bytes with one. Of signed ones it takes magnitudes, and `vpsignb` to give the
//! activations the weights' signs, and as two products fill 16 bits, `vpmaddwd` to widen them: three instructions for 32
//! products, all of which share the multiply ports. `vpmaddwd` alone multiplies 16 words and widens them: two.

use super::avx2_dot::{V, both, with};
use super::avx2_steps;
use super::dot::{Dot, Unpack, Whole};
use super::x86::{join_max, join_sum};
use std::arch::x86_64::*;
use std::ops::Range;

/// Token that code runs inside a function compiled for AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx2Words(());

impl Avx2Words {
    /// The token; being callable only inside such a function is what makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c")]
    #[inline]
    pub(crate) fn in_feature_region() -> Self {
        Avx2Words(())
    }
}

impl Dot for Avx2Words {
    super::avx2_dot::two_registers!();

    const NARROW: bool = false;
    const SIGNED_ZERO: i32 = 0;
    const WIDTH: usize = 2;

    #[inline(always)]
    fn widen(self, a: V) -> [V; 2] {
        [
            both!(|h| _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(a[h]))),
            both!(|h| _mm256_srai_epi16::<8>(a[h])),
        ]
    }
    #[inline(always)]
    fn times(self, a: V, scales: V) -> V {
        both!(|h| _mm256_mullo_epi16(a[h], scales[h]))
    }
    #[inline(always)]
    unsafe fn start(self, _sum: *const i32, _zero: i32) -> V {
        self.none()
    }
    #[inline(always)]
    unsafe fn products<U: Unpack, const SIGNED: bool, const C: usize, const P: usize>(
        self,
        s: &mut [[V; C]; P],
        groups: Range<usize>,
        w: *const u8,
        a: *const i8,
    ) {
        const { assert!(SIGNED, "what is widened is signed") };
        const { assert!(U::APART && avx2_steps::has(C)) };
        // Two steps for each group; those of the last 16 values follow those of the first.
        let steps = 2 * groups.start..2 * groups.end;
        // SAFETY: the caller's promise.
        unsafe {
            avx2_steps::steps!(true, &mut s[0], w, a, steps, 0 1 2 3 4 5 6 7);
            let steps = steps.start + 8..steps.end + 8;
            avx2_steps::steps!(true, &mut s[P - 1], w, a, steps, 8 9 10 11 12 13 14 15);
        }
    }
    #[inline(always)]
    fn add<const SIGNED: bool>(self, total: V, part: V) -> V {
        both!(|h| _mm256_add_epi32(total[h], part[h]))
    }
    #[inline(always)]
    unsafe fn finish(self, total: V, _sum: *const i32, _zero: i32) -> V {
        total
    }
    #[inline(always)]
    fn scale<const HOW: u8>(self, bytes: __m128i, signed: bool) -> V {
        self.pairs(bytes, bytes, signed)
    }
    #[inline(always)]
    fn add_scaled<const SIGNED: bool, const HOW: u8>(self, total: V, part: V, scale: V) -> V {
        // The low half of each pair, sign extended, is the scale.
        both!(|h| {
            let product = _mm256_mullo_epi32(part[h], _mm256_srai_epi32::<16>(scale[h]));
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

impl Whole for Avx2Words {
    super::avx2_dot::two_registers_whole!();
}
