//! Instruction-set tiers: what this machine can run, and the bridge from generic code to it.
//!
//! On x86-64 there are AVX2, its products of int8, AVX-512 and its products of bfloat16, on 64-bit Arm NEON, its dot products
//! and its int8 matrices.
//!
//! A [`Tier`] is a proof: holding `Tier` with level `Avx2` means that detection saw AVX2, FMA and F16C on this
//! machine, so calling a function compiled for those features is sound. Elementwise code is written once
//! over arrays of 16 lanes and instantiated per tier by `dispatch!`; the compiler vectorises the arrays.
//! Rust never reassociates floating-point arithmetic and `f32::mul_add` is always fused, so one source gives
//! the same bits on every tier.

use crate::attention::codes::{self, Block, Weights};
use crate::attention::loops::{self, Keys, Row, Seen, Values};
use crate::attention::merge::Destination;
use crate::matmul::format::TileFn;
use crate::matmul::many::Many;
use crate::matmul::mixed;

mod ahead;
#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
mod amx_state;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_bf16;
#[cfg(target_arch = "x86_64")]
mod avx2_chunk;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2_dot;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2_lanes;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2_words;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_bf16;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512_dot;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512_mixed;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512_pair;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avxvnni_dot;
pub(crate) mod dot;
#[cfg(target_arch = "aarch64")]
pub(crate) mod i8mm_dot;
mod level;
mod many;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon_dot;
pub(crate) mod scalar;
mod vendor;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use ahead::{FEW, fetch_for_writing, prefetch, prefetch_lines, prefetch_near};
pub use level::{Level, Tier};
pub(crate) use level::{MIDDLE, Starts};
#[cfg(target_arch = "x86_64")]
pub(crate) use many::DEEP;
pub(crate) use many::{lanes_many, matrix_many, simd_many};

/// What a level has that multiplies pairs of bfloat16 by an instruction of their own.
#[derive(Debug)]
pub(crate) struct Bf16Kernels {
    /// The tiles of BF16 weights, by number of columns less one: those that fetch weights into the second cache, and those that
    /// do so into the first.
    pub(crate) tiles: [[TileFn; Level::VECTOR_COLUMNS]; 2],
    /// Those for many columns.
    pub(crate) many: Many,
    /// Makes so many rounds of independent products in registers, and says how many those were; to be called where the
    /// level is there.
    products: unsafe fn(rounds: u64) -> u64,
}

/// The kernels of BF16 weights of a level with instructions for them.
pub(crate) fn bf16_kernels(level: Level) -> Option<&'static Bf16Kernels> {
    #[cfg(target_arch = "x86_64")]
    if level.bf16_pairs() {
        return Some(&avx512_bf16::KERNELS);
    }
    let _ = level;
    None
}

/// The kernels of BF16 weights for many columns of a level without such instructions.
pub(crate) fn bf16_many(level: Level) -> Option<&'static Many> {
    #[cfg(target_arch = "x86_64")]
    if level.common() == Level::Avx2 {
        return Some(&avx2_bf16::MANY);
    }
    let _ = level;
    None
}

/// As [`Isa::f32_products`], of bfloat16, where the tier has instructions for them.
pub(crate) fn bf16_products(tier: Tier) -> Option<impl Fn(u64) -> u64 + Sync> {
    // SAFETY: the Tier proves the features.
    bf16_kernels(tier.level()).map(|kernels| |rounds| unsafe { (kernels.products)(rounds) })
}

/// As [`Isa::int8_products`], of matrices, where the tier has instructions for them.
pub(crate) fn matrix_products(tier: Tier) -> Option<impl Fn(u64) -> u64 + Sync> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the Tier proves the features.
    let products = |rounds| unsafe { amx::products(rounds) };
    #[cfg(not(target_arch = "x86_64"))]
    let products = |rounds| rounds;
    tier.level().matrices().then_some(products)
}

/// The operations whose fast form needs intrinsics. Everything else is plain array code.
pub(crate) trait Isa: Copy {
    /// Whether sixteen sums of sixteen floats stay in registers.
    const MANY_REGISTERS: bool = false;

    /// Scores of attention; see [`loops::plain_scores`], which defines them.
    #[inline(always)]
    fn scores<const R: usize, const G: usize>(
        self,
        keys: Keys<'_>,
        queries: &[f32],
        group: usize,
        scale: f32,
        out: &mut [Row],
    ) {
        loops::plain_scores::<Self, R, G>(self, keys, queries, group, scale, out);
    }
    /// Weighted values of attention; see [`loops::plain_weigh`], which defines them.
    #[inline(always)]
    fn weigh<const R: usize, const G: usize>(
        self,
        values: Values<'_>,
        tokens: usize,
        at: usize,
        p: &[Row],
        to: &mut Destination<'_>,
    ) {
        loops::plain_weigh::<Self, R, G>(self, values, tokens, at, p, to);
    }
    /// Softmax numerators of attention; see [`loops::plain_numerators`], which defines them.
    #[inline(always)]
    fn numerators(self, s: &mut Row, seen: Seen) -> (f32, f32) {
        loops::plain_numerators(s, seen)
    }
    /// [`Isa::numerators`] of sixteen rows: all maximum scores, and all sums.
    #[inline(always)]
    fn numerators_of_16(self, s: &mut [Row; 16], seen: [Seen; 16]) -> [[f32; 16]; 2] {
        let mut tops = [[0.0; 16]; 2];
        for r in 0..16 {
            (tops[0][r], tops[1][r]) = self.numerators(&mut s[r], seen[r]);
        }
        tops
    }
    /// Sixteen floats times one.
    #[inline(always)]
    fn scaled(self, x: &[f32; 16], by: f32) -> [f32; 16] {
        x.map(|x| x * by)
    }
    /// Weights of quantised values; see [`codes::plain_weights`], which defines them.
    #[inline(always)]
    fn code_weights(self, p: &Row, shares: &Row, out: &mut Weights) {
        codes::plain_weights(p, shares, out);
    }
    /// Weighted quantised values; see [`codes::plain_weigh`], which defines them.
    #[inline(always)]
    fn weigh_codes<const R: usize>(
        self,
        values: Block<'_>,
        tokens: usize,
        weights: (&[Weights], &[f32]),
        place: (usize, usize),
        to: &mut Destination<'_>,
    ) {
        codes::plain_weigh::<R>(values, tokens, weights, place, to);
    }

    /// Makes `rounds` rounds of independent products of 8-bit integers in registers, as many a cycle as the
    /// instruction set can; returns how many.
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
    /// As [`Isa::int8_products`], of 32-bit floats.
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
    /// The greatest bit pattern of the magnitudes of whole vectors of values: bit patterns of non-negative floats order
    /// like the floats, and NaN sorts above all.
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
    /// The sum of sixteen codes.
    #[inline(always)]
    fn sum_codes(self, codes: &[i8; 16]) -> i32 {
        codes.iter().map(|&v| i32::from(v)).sum()
    }
    /// Writes sixteen codes by fours, each `stride` behind the one before, into as much as that takes.
    #[inline(always)]
    fn store_fours(self, codes: &[i8; 16], out: &mut [i8], stride: usize) {
        for (four, out) in codes.as_chunks::<4>().0.iter().zip(out.chunks_mut(stride)) {
            out[..4].copy_from_slice(four);
        }
    }
    /// The sums of 32 codes: of the first two of each four, and of the others.
    #[inline(always)]
    fn sums_of_lanes(self, codes: &[i8; 32]) -> [i32; 2] {
        let mut sums = [0; 2];
        for (i, &code) in codes.iter().enumerate() {
            sums[i / 2 % 2] += i32::from(code);
        }
        sums
    }
    /// The sums of the first eight of each sixteen codes.
    #[inline(always)]
    fn sums_of_first_eights(self, codes: &[i8; 128]) -> [i32; 8] {
        std::array::from_fn(|i| codes[16 * i..16 * i + 8].iter().map(|&v| i32::from(v)).sum())
    }
    /// What each sixteen of 128 codes sum up to, their magnitudes and their squares; no code is -128.
    #[inline(always)]
    fn moments(self, codes: &[i8; 128]) -> Moments {
        let sixteens = codes.as_chunks::<16>().0;
        let each = |f: fn(i32) -> i32| {
            std::array::from_fn(|i| sixteens[i].iter().fold(0_i32, |sum, &v| sum + f(i32::from(v))))
        };
        Moments { sums: each(|v| v), magnitudes: each(i32::abs), squares: each(|v| v * v) }
    }
    /// What sums of products of sums begin at for each 32 codes, none of them beyond 120 ([`mixed`]).
    #[inline(always)]
    fn mixed_starts(self, codes: &[i8; 128]) -> [i32; 4] {
        std::array::from_fn(|b| mixed::start(&codes.as_chunks().0[b]))
    }
    /// Sixteen half-precision bit patterns to f32.
    fn f16_to_f32(self, h: &[u16; 16]) -> [f32; 16];
    /// Sixteen f32 to half precision, rounding to nearest even.
    fn f32_to_f16(self, x: &[f32; 16]) -> [u16; 16];
    /// Writes sixteen values past the caches where they are a whole line of memory, and else as usual: no cache fetches first
    /// what is overwritten anyhow. Other threads see them only after [`publish`].
    #[inline(always)]
    fn write_past_caches(self, out: &mut [f32; 16], values: &[f32; 16]) {
        #[cfg(target_arch = "x86_64")]
        if out.as_ptr().addr().is_multiple_of(64) {
            use std::arch::x86_64::{_mm_loadu_ps, _mm_stream_ps};
            for i in (0..16).step_by(4) {
                // SAFETY: every x86-64 has SSE; four values from i on are in bounds, and those written are aligned to 16
                // bytes.
                unsafe { _mm_stream_ps(out.as_mut_ptr().add(i), _mm_loadu_ps(values.as_ptr().add(i))) };
            }
            return;
        }
        *out = *values;
    }
}

/// Sums over each sixteen of 128 codes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moments {
    pub(crate) sums: [i32; 8],
    pub(crate) magnitudes: [i32; 8],
    pub(crate) squares: [i32; 8],
}

/// Makes the function that this is inlined into keep the vectors for which it has no registers in whole cache lines. The
/// compiler aligns a function's memory for what the function declares, and only afterwards finds out what it has to put there:
/// without this a vector of 32 or 64 bytes crosses a line or not by where the caller's memory ends, and prompts take up to
/// a fifth longer.
#[inline(always)]
pub(crate) fn align_spilled() {
    #[cfg(target_arch = "x86_64")]
    {
        #[repr(align(64))]
        struct Line(#[expect(dead_code, reason = "room, never read")] [u8; 64]);
        let line = std::mem::MaybeUninit::<Line>::uninit();
        // SAFETY: no instruction; it takes the address so that there is one.
        unsafe {
            std::arch::asm!("/* {0} */", in(reg) line.as_ptr(), options(readonly, nostack, preserves_flags));
        }
    }
}

/// Orders what this thread wrote past the caches ([`Isa::write_past_caches`]) before what it writes next, the word that its work is done among it.
#[inline(always)]
pub(crate) fn publish() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// The loops of attention over the vectors of `$dot`, an implementation of `Whole`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! vector_attention {
    (|$token:ident| $dot:expr) => {
        #[inline(always)]
        fn scores<const R: usize, const G: usize>(
            self,
            keys: Keys<'_>,
            queries: &[f32],
            group: usize,
            scale: f32,
            out: &mut [Row],
        ) {
            let $token = self;
            loops::vector_scores::<_, R, G>($dot, keys, queries, group, scale, out);
        }
        #[inline(always)]
        fn weigh<const R: usize, const G: usize>(
            self,
            values: Values<'_>,
            tokens: usize,
            at: usize,
            p: &[Row],
            to: &mut $crate::attention::merge::Destination<'_>,
        ) {
            let $token = self;
            loops::vector_weigh::<_, R, G>($dot, values, tokens, at, p, to);
        }
        #[inline(always)]
        fn numerators(self, s: &mut Row, seen: loops::Seen) -> (f32, f32) {
            let $token = self;
            loops::vector_numerators($dot, s, seen)
        }
        #[inline(always)]
        fn numerators_of_16(self, s: &mut [Row; 16], seen: [loops::Seen; 16]) -> [[f32; 16]; 2] {
            let $token = self;
            if Self::MANY_REGISTERS {
                loops::vector_numerators_of_16::<_, 8>($dot, s, seen)
            } else {
                loops::vector_numerators_of_16::<_, 2>($dot, s, seen)
            }
        }
        #[inline(always)]
        fn scaled(self, x: &[f32; 16], by: f32) -> [f32; 16] {
            let $token = self;
            loops::vector_scaled($dot, x, by)
        }
        #[inline(always)]
        fn code_weights(self, p: &Row, shares: &Row, out: &mut Weights) {
            let $token = self;
            codes::vector_weights($dot, p, shares, out)
        }
        #[inline(always)]
        fn weigh_codes<const R: usize>(
            self,
            values: Block<'_>,
            tokens: usize,
            weights: (&[Weights], &[f32]),
            (at, dim): (usize, usize),
            to: &mut $crate::attention::merge::Destination<'_>,
        ) {
            let $token = self;
            if Self::MANY_REGISTERS || R <= 2 {
                codes::vector_weigh::<_, R, 2>($dot, values, tokens, weights, (at, dim), to);
            } else {
                for at in [at, at + codes::VALUES / 2] {
                    codes::vector_weigh::<_, R, 1>($dot, values, tokens, weights, (at, dim), to);
                }
            }
        }
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use vector_attention;

/// Makes `pub(crate) fn $name(tier, args…)` that runs the generic `$body::<I: Isa>(isa, args…)` compiled for
/// the tier. `$body` and all it calls must be `#[inline(always)]`, else the callee keeps baseline features.
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident => $body:ident ( $($arg:ident : $ty:ty),* $(,)? ) $(-> $ret:ty)?) => {
        $(#[$meta])*
        $vis fn $name(tier: $crate::isa::Tier, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn avx2($($arg: $ty),*) $(-> $ret)? {
                    $body($crate::isa::avx2::Avx2::in_feature_region(), $($arg),*)
                }
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn avx512($($arg: $ty),*) $(-> $ret)? {
                    $body($crate::isa::avx512::Avx512::in_feature_region(), $($arg),*)
                }
                match tier.level().common() {
                    // SAFETY: a Tier of this level exists only where detection saw these features.
                    $crate::isa::Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::isa::Level::Avx2 => return unsafe { avx2($($arg),*) },
                    _ => {}
                }
            }
            #[cfg(target_arch = "aarch64")]
            {
                #[target_feature(enable = "neon")]
                fn neon($($arg: $ty),*) $(-> $ret)? {
                    $body($crate::isa::neon::Neon::in_feature_region(), $($arg),*)
                }
                if tier.level() >= $crate::isa::Level::Neon {
                    // SAFETY: as above; every level from here on has NEON.
                    return unsafe { neon($($arg),*) };
                }
            }
            let _ = tier;
            $body($crate::isa::scalar::Scalar, $($arg),*)
        }
    };
}
pub(crate) use dispatch;

/// The tiles of a weight format on every level, by number of columns less one: `$scalar` is the definition on the
/// scalar tier; the SIMD tiers compile `$body`, generic over the instruction set `$d` and the number of columns
/// `$c` in units of [`dot::Dot::COLUMNS`]. `ints` or `floats` says what is multiplied.
macro_rules! simd_tiles {
    ($kind:ident $scalar:path, |$d:ident, $c:ident, $panel:ident, $k:ident, $t:ident, $out:ident| $body:expr) => {
        |tier: $crate::isa::Tier| -> &'static [TileFn] {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma,f16c")]
                fn avx2<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    let $d = $crate::isa::avx2_dot::Avx2Dot::in_feature_region();
                    $body
                }
                #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
                fn avx512<const $c: usize, const NEAR: bool>(
                    $panel: &[u8],
                    $k: usize,
                    $t: &Tile<'_>,
                    $out: &mut [f32],
                ) {
                    let $d = $crate::isa::avx512_dot::Avx512Dot::<NEAR>::in_feature_region();
                    $body
                }
                static AVX2: [TileFn; 6] = [avx2::<1>, avx2::<2>, avx2::<3>, avx2::<4>, avx2::<5>, avx2::<6>];
                const fn avx512_tiles<const NEAR: bool>() -> [TileFn; 12] {
                    [
                        avx512::<1, NEAR>,
                        avx512::<2, NEAR>,
                        avx512::<3, NEAR>,
                        avx512::<4, NEAR>,
                        avx512::<5, NEAR>,
                        avx512::<6, NEAR>,
                        avx512::<7, NEAR>,
                        avx512::<8, NEAR>,
                        avx512::<9, NEAR>,
                        avx512::<10, NEAR>,
                        avx512::<11, NEAR>,
                        avx512::<12, NEAR>,
                    ]
                }
                static AVX512: [[TileFn; 12]; 2] = [avx512_tiles::<false>(), avx512_tiles::<true>()];
                match tier.level() {
                    $crate::isa::Level::Avx2 => return &AVX2,
                    $crate::isa::Level::AvxVnni => {
                        $crate::isa::avxvnni_tiles!($kind, |$d, $c, $panel, $k, $t, $out| $body)
                    }
                    $crate::isa::Level::Avx512 | $crate::isa::Level::Avx512Bf16 | $crate::isa::Level::Amx => {
                        return &AVX512[usize::from(tier.near())];
                    }
                    _ => {}
                }
            }
            #[cfg(target_arch = "aarch64")]
            {
                use $crate::isa::neon_dot::{NeonDot, Sdot, Widen};
                #[target_feature(enable = "neon")]
                fn neon<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    let $d = NeonDot::<Widen, 4>::in_feature_region(0);
                    $body
                }
                #[target_feature(enable = "neon,dotprod")]
                fn dotprod<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    let $d = NeonDot::<Sdot, 4>::in_dotprod_region(0);
                    $body
                }
                /// Eight rows after eight: the second time the panel lies in the first cache.
                #[target_feature(enable = "neon,dotprod")]
                fn wide<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
                    for first in [0, 8] {
                        let $d = NeonDot::<Sdot, 2>::in_dotprod_region(first);
                        $body
                    }
                }
                static NEON: [TileFn; 4] = [neon::<1>, neon::<2>, neon::<3>, neon::<4>];
                static DOTPROD: [TileFn; 8] = [
                    dotprod::<1>,
                    dotprod::<2>,
                    dotprod::<3>,
                    dotprod::<4>,
                    wide::<5>,
                    wide::<6>,
                    wide::<7>,
                    wide::<8>,
                ];
                match tier.level() {
                    $crate::isa::Level::Neon => return &NEON,
                    $crate::isa::Level::DotProd => return &DOTPROD,
                    $crate::isa::Level::I8mm => {
                        $crate::isa::i8mm_tiles!($kind, |$d, $c, $panel, $k, $t, $out| $body)
                    }
                    _ => {}
                }
            }
            let _ = tier;
            &[$scalar as TileFn; 4]
        }
    };
}
pub(crate) use simd_tiles;

/// The tiles of the AVX-VNNI level, inside [`simd_tiles`]. It has nothing for floats.
#[cfg(target_arch = "x86_64")]
macro_rules! avxvnni_tiles {
    (ints, |$d:ident, $c:ident, $panel:ident, $k:ident, $t:ident, $out:ident| $body:expr) => {{
        #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
        fn avxvnni<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
            let $d = $crate::isa::avxvnni_dot::AvxVnniDot::in_feature_region();
            $body
        }
        static AVXVNNI: [TileFn; 6] =
            [avxvnni::<1>, avxvnni::<2>, avxvnni::<3>, avxvnni::<4>, avxvnni::<5>, avxvnni::<6>];
        return &AVXVNNI;
    }};
    (floats, $($body:tt)*) => {
        return &AVX2
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use avxvnni_tiles;

/// The tiles of the I8MM level, inside [`simd_tiles`]: of an even number of columns by products of matrices, of an
/// odd number as without the extension. It has nothing for floats.
#[cfg(target_arch = "aarch64")]
macro_rules! i8mm_tiles {
    (ints, |$d:ident, $c:ident, $panel:ident, $k:ident, $t:ident, $out:ident| $body:expr) => {{
        #[target_feature(enable = "neon,dotprod,i8mm")]
        fn i8mm<const $c: usize>($panel: &[u8], $k: usize, $t: &Tile<'_>, $out: &mut [f32]) {
            for first in [0, 8] {
                let $d = $crate::isa::i8mm_dot::I8mmDot::in_feature_region(first);
                $body
            }
        }
        static I8MM: [TileFn; 8] =
            [dotprod::<1>, i8mm::<1>, dotprod::<3>, i8mm::<2>, wide::<5>, i8mm::<3>, wide::<7>, i8mm::<4>];
        return &I8MM;
    }};
    (floats, $($body:tt)*) => {
        return &DOTPROD
    };
}
#[cfg(target_arch = "aarch64")]
pub(crate) use i8mm_tiles;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_agree_on_every_tier() {
        #[inline(always)]
        fn of<I: Isa>(isa: I, codes: &[i8; 128]) -> Moments {
            isa.moments(codes)
        }
        dispatch!(fn of_on => of(codes: &[i8; 128]) -> Moments);
        let mut state = 1_u32;
        for tier in Tier::available() {
            for fill in 0..64 {
                let codes = std::array::from_fn(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    match fill {
                        0 => -127,
                        1 => 127,
                        _ => ((state >> 24) as i32 % 128 * if state & 1 << 20 == 0 { 1 } else { -1 }) as i8,
                    }
                });
                assert_eq!(of_on(tier, &codes), of_on(Tier::SCALAR, &codes), "{}", tier.level());
            }
        }
    }

    #[test]
    fn what_sums_of_products_begin_at_agrees_on_every_tier() {
        #[inline(always)]
        fn of<I: Isa>(isa: I, codes: &[i8; 128]) -> [i32; 4] {
            isa.mixed_starts(codes)
        }
        dispatch!(fn of_on => of(codes: &[i8; 128]) -> [i32; 4]);
        let some = |by: usize| std::array::from_fn(|i| ((i * by) % 241) as i32 - 120).map(|v| v as i8);
        for codes in [[-120; 128], [120; 128], some(89), some(7), some(1)] {
            for tier in Tier::available() {
                assert_eq!(of_on(tier, &codes), of_on(Tier::SCALAR, &codes), "{}", tier.level());
            }
        }
    }

    #[test]
    fn sums_of_first_eights_agree_on_every_tier() {
        #[inline(always)]
        fn of<I: Isa>(isa: I, codes: &[i8; 128]) -> [i32; 8] {
            isa.sums_of_first_eights(codes)
        }
        dispatch!(fn of_on => of(codes: &[i8; 128]) -> [i32; 8]);
        for codes in [[-127; 128], [127; 128], std::array::from_fn(|i| ((i * 89) % 255) as u8 as i8)] {
            for tier in Tier::available() {
                assert_eq!(of_on(tier, &codes), of_on(Tier::SCALAR, &codes), "{}", tier.level());
            }
        }
        let codes: [i8; 128] = std::array::from_fn(|i| i as i8);
        assert_eq!(of_on(Tier::SCALAR, &codes), [28, 156, 284, 412, 540, 668, 796, 924]);
    }

    #[test]
    fn sums_of_lanes_agree_on_every_tier() {
        #[inline(always)]
        fn of<I: Isa>(isa: I, codes: &[i8; 32]) -> [i32; 2] {
            isa.sums_of_lanes(codes)
        }
        dispatch!(fn of_on => of(codes: &[i8; 32]) -> [i32; 2]);
        for codes in [[-127; 32], [127; 32], std::array::from_fn(|i| ((i * 89) % 255) as u8 as i8)] {
            for tier in Tier::available() {
                assert_eq!(of_on(tier, &codes), of_on(Tier::SCALAR, &codes), "{}", tier.level());
            }
        }
        let codes: [i8; 32] = std::array::from_fn(|i| i as i8);
        assert_eq!(of_on(Tier::SCALAR, &codes), [232, 264]);
    }

    #[test]
    fn f16_conversions_agree_on_every_tier() {
        #[inline(always)]
        fn up<I: Isa>(isa: I, h: &[u16; 16], out: &mut [f32; 16]) {
            *out = isa.f16_to_f32(h);
        }
        #[inline(always)]
        fn down<I: Isa>(isa: I, x: &[f32; 16], out: &mut [u16; 16]) {
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
