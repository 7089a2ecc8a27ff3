//! [`IntSimd`] on AVX-512 for two consecutive panels: an activation is broadcast once for both.
//!
//! A tile of one panel loads an activation for every product. Processors that execute as many products per cycle as
//! loads, such as Zen 5 with 512-bit vectors, then wait for the loads. All results are those of two single panels,
//! computed in the same order.

use crate::cpu::isa::AccInit;
use crate::prefetch::{MEMORY_BOUND_TOKENS, prefetch_following};
use crate::simd::int::{IntSimd, ReadQuants};
use crate::simd::x86_64::avx512_int::Avx512Int;
use crate::types::PANEL_ROWS;
use std::arch::x86_64::*;
use std::ops::Range;

/// Values of both panels.
type Both<T> = [T; 2];

/// Token for two panels and some columns of a tile; [`Avx512Int`] is for one panel and all columns.
#[derive(Clone, Copy)]
pub(crate) struct Avx512Pair {
    one: Avx512Int,
    /// Distance between the panels in bytes.
    panel: usize,
    /// Number of columns of the tile; `first` is the index of the first one to multiply.
    of: usize,
    first: usize,
}

impl Avx512Pair {
    /// Returns the token for panels of `panel` bytes and the columns from `first` on of a tile of `of` columns; it can
    /// only be created inside such a function, which makes its methods sound.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    #[inline]
    pub(crate) fn in_feature_region(panel: usize, of: usize, first: usize) -> Self {
        Avx512Pair { one: Avx512Int::in_feature_region(), panel, of, first }
    }

    /// Returns the distance between the panels in bytes.
    pub(crate) fn panel(self) -> usize {
        self.panel
    }
}

/// Evaluates an expression for each panel: `$i` is 0 and 1, `$one` the token of one panel.
macro_rules! both {
    ($self:ident, |$one:ident, $i:ident| $e:expr) => {{
        let $one = $self.one;
        [
            {
                let $i = 0;
                $e
            },
            {
                let $i = 1;
                $e
            },
        ]
    }};
}

/// Evaluates [`both`] with pointers that the caller keeps valid.
macro_rules! both_at {
    ($self:ident, |$one:ident, $i:ident| $e:expr) => {
        // SAFETY: the caller's pointers are those of the first panel, and the second is at the token's distance.
        both!($self, |$one, $i| unsafe { $e })
    };
}

impl IntSimd for Avx512Pair {
    type Quants = Both<__m512i>;
    type Acc = Both<__m512i>;
    type Ints = Both<__m512i>;
    type Scale = Both<__m512i>;
    type Pairs = Both<__m512i>;
    type Bytes = Both<__m128i>;
    type Floats = Both<__m512>;
    const COLUMNS: usize = 1;
    const PANELS: usize = 2;
    // The chains of one column of two panels fill the registers as those of two columns of one panel do.
    const SIDE_BY_SIDE: usize = 0;
    const PARTS_TOGETHER: usize = 0;
    const NARROW: bool = <Avx512Int>::NARROW;
    const SIGNED_ZERO: i32 = <Avx512Int>::SIGNED_ZERO;
    const ACC_INIT: AccInit = <Avx512Int>::ACC_INIT;
    const WORDS: bool = <Avx512Int>::WORDS;
    const BIASED: bool = <Avx512Int>::BIASED;
    const BRAIN_PAIRS: bool = <Avx512Int>::BRAIN_PAIRS;

    #[inline(always)]
    fn of<const C: usize>(self) -> usize {
        self.of
    }
    #[inline(always)]
    fn first(self) -> usize {
        self.first
    }

    #[inline(always)]
    unsafe fn load(self, p: *const u8) -> Self::Quants {
        both_at!(self, |one, i| one.load(p.add(i * self.panel)))
    }
    #[inline(always)]
    fn prefetch_following(self, p: *const u8, columns: usize) {
        for panel in 0..Self::PANELS {
            let p = p.wrapping_add(panel * self.panel);
            prefetch_following(Self::TO_L1, Self::AGAIN && columns <= MEMORY_BOUND_TOKENS, p, Self::PANELS);
        }
    }
    #[inline(always)]
    fn and(self, a: Self::Quants, mask: u8) -> Self::Quants {
        both!(self, |one, i| one.and(a[i], mask))
    }
    #[inline(always)]
    fn or(self, a: Self::Quants, b: Self::Quants) -> Self::Quants {
        both!(self, |one, i| one.or(a[i], b[i]))
    }
    #[inline(always)]
    fn shr<const N: u32>(self, a: Self::Quants) -> Self::Quants {
        both!(self, |one, i| one.shr::<N>(a[i]))
    }
    #[inline(always)]
    fn shl<const N: u32>(self, a: Self::Quants) -> Self::Quants {
        both!(self, |one, i| one.shl::<N>(a[i]))
    }
    #[inline(always)]
    fn look_up(self, a: Self::Quants, table: &[u8; 16]) -> Self::Quants {
        both!(self, |one, i| one.look_up(a[i], table))
    }
    #[inline(always)]
    unsafe fn store_codes(self, a: Self::Quants, p: *mut u8) {
        both_at!(self, |one, i| one.store_codes(a[i], p.add(i * self.panel)));
    }

    #[inline(always)]
    unsafe fn begin(self, start: *const i32, zero: i32) -> Self::Acc {
        // SAFETY: the trait method's `# Safety`.
        [unsafe { self.one.begin(start, zero) }; 2]
    }
    #[inline(always)]
    unsafe fn start(self, sum: *const i32, zero: i32) -> Self::Acc {
        // SAFETY: the trait method's `# Safety`.
        [unsafe { self.one.start(sum, zero) }; 2]
    }
    #[inline(always)]
    fn none(self) -> Self::Acc {
        [self.one.none(); 2]
    }
    #[inline(always)]
    unsafe fn products<U: ReadQuants, const SIGNED: bool, const C: usize, const P: usize>(
        self,
        s: &mut [[Self::Acc; C]; P],
        groups: Range<usize>,
        w: *const u8,
        a: *const i8,
    ) {
        const { assert!(U::UNPACKED || !SIGNED, "quantised values of two packed panels are unsigned") };
        for g in groups {
            // SAFETY: the caller's weights are 32 values of 16 rows, its activations a word of each column for each of
            // eight k-groups.
            unsafe {
                let (low, high) = U::pair(self, w, g);
                self.add_group(&mut s[0], low, a.add(g * self.of * 4));
                self.add_group(&mut s[P - 1], high, a.add((g + 4) * self.of * 4));
            }
        }
    }
    #[inline(always)]
    unsafe fn products_of_part<U: ReadQuants, const SIGNED: bool, const C: usize, const HIGH: bool>(
        self,
        from: [Self::Acc; C],
        w: *const u8,
        a: *const i8,
    ) -> [Self::Acc; C] {
        const { assert!(U::UNPACKED || !SIGNED, "quantised values of two packed panels are unsigned") };
        let mut s = from;
        for g in 0..4 {
            // SAFETY: as in `products`.
            unsafe {
                let (low, high) = U::pair(self, w, g);
                let (quants, group) = if HIGH { (high, g + 4) } else { (low, g) };
                self.add_group(&mut s, quants, a.add(group * self.of * 4));
            }
        }
        s
    }

    #[inline(always)]
    fn ints(self) -> Self::Ints {
        [self.one.ints(); 2]
    }
    #[inline(always)]
    fn biased_floats(self, a: Self::Ints) -> Self::Floats {
        both!(self, |one, i| one.biased_floats(a[i]))
    }
    #[inline(always)]
    fn add<const SIGNED: bool>(self, total: Self::Ints, part: Self::Acc) -> Self::Ints {
        both!(self, |one, i| one.add::<SIGNED>(total[i], part[i]))
    }
    #[inline(always)]
    unsafe fn finish(self, total: Self::Ints, sum: *const i32, zero: i32) -> Self::Ints {
        both_at!(self, |one, i| one.finish(total[i], sum, zero))
    }
    #[inline(always)]
    fn scale<const HOW: u8>(self, bytes: Self::Bytes, signed: bool) -> Self::Scale {
        both!(self, |one, i| one.scale::<HOW>(bytes[i], signed))
    }
    #[inline(always)]
    fn add_scaled<const SIGNED: bool, const HOW: u8>(
        self,
        total: Self::Ints,
        part: Self::Acc,
        scale: Self::Scale,
    ) -> Self::Ints {
        both!(self, |one, i| one.add_scaled::<SIGNED, HOW>(total[i], part[i], scale[i]))
    }
    #[inline(always)]
    fn pairs(self, low: Self::Bytes, high: Self::Bytes, signed: bool) -> Self::Pairs {
        both!(self, |one, i| one.pairs(low[i], high[i], signed))
    }
    #[inline(always)]
    unsafe fn add_pairs(self, total: Self::Ints, pairs: Self::Pairs, word: *const i32) -> Self::Ints {
        both_at!(self, |one, i| one.add_pairs(total[i], pairs[i], word))
    }
    #[inline(always)]
    fn sub_times(self, a: Self::Ints, b: Self::Ints, k: i32) -> Self::Ints {
        both!(self, |one, i| one.sub_times(a[i], b[i], k))
    }
    #[inline(always)]
    fn floats<const HOW: u8>(self, a: Self::Ints) -> Self::Floats {
        both!(self, |one, i| one.floats::<HOW>(a[i]))
    }

    #[inline(always)]
    unsafe fn bytes(self, p: *const u8) -> Self::Bytes {
        both_at!(self, |one, i| one.bytes(p.add(i * self.panel)))
    }
    #[inline(always)]
    fn byte_and(self, a: Self::Bytes, mask: u8) -> Self::Bytes {
        both!(self, |one, i| one.byte_and(a[i], mask))
    }
    #[inline(always)]
    fn byte_or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        both!(self, |one, i| one.byte_or(a[i], b[i]))
    }
    #[inline(always)]
    fn byte_shr<const N: i32>(self, a: Self::Bytes) -> Self::Bytes {
        both!(self, |one, i| one.byte_shr::<N>(a[i]))
    }
    #[inline(always)]
    fn byte_shl<const N: i32>(self, a: Self::Bytes) -> Self::Bytes {
        both!(self, |one, i| one.byte_shl::<N>(a[i]))
    }
    #[inline(always)]
    fn byte_sub(self, a: Self::Bytes, b: u8) -> Self::Bytes {
        both!(self, |one, i| one.byte_sub(a[i], b))
    }
    #[inline(always)]
    fn half_powers(self, a: Self::Bytes) -> Self::Floats {
        both!(self, |one, i| one.half_powers(a[i]))
    }

    #[inline(always)]
    fn zeros(self) -> Self::Floats {
        [self.one.zeros(); 2]
    }
    #[inline(always)]
    unsafe fn halves(self, p: *const u8) -> Self::Floats {
        both_at!(self, |one, i| one.halves(p.add(i * self.panel)))
    }
    #[inline(always)]
    unsafe fn brain_floats<const COUNTED: bool>(self, p: *const u8) -> Self::Floats {
        both_at!(self, |one, i| one.brain_floats::<COUNTED>(p.add(i * self.panel)))
    }
    #[inline(always)]
    unsafe fn brain_float_pair(self, p: *const u8) -> [Self::Floats; 2] {
        let [a, b] = both_at!(self, |one, i| one.brain_float_pair(p.add(i * self.panel)));
        [[a[0], b[0]], [a[1], b[1]]]
    }
    #[inline(always)]
    unsafe fn load_floats(self, p: *const u8) -> Self::Floats {
        both_at!(self, |one, i| one.load_floats(p.add(i * self.panel)))
    }
    #[inline(always)]
    unsafe fn splat(self, p: *const f32) -> Self::Floats {
        // SAFETY: the trait method's `# Safety`.
        [unsafe { self.one.splat(p) }; 2]
    }
    #[inline(always)]
    unsafe fn splat_int(self, p: *const i32) -> Self::Floats {
        // SAFETY: the trait method's `# Safety`.
        [unsafe { self.one.splat_int(p) }; 2]
    }
    #[inline(always)]
    fn mul(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        both!(self, |one, i| one.mul(a[i], b[i]))
    }
    #[inline(always)]
    fn sum(self, a: Self::Floats, b: Self::Floats) -> Self::Floats {
        both!(self, |one, i| one.sum(a[i], b[i]))
    }
    #[inline(always)]
    fn fma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        both!(self, |one, i| one.fma(a[i], b[i], c[i]))
    }
    #[inline(always)]
    fn fnma(self, a: Self::Floats, b: Self::Floats, c: Self::Floats) -> Self::Floats {
        both!(self, |one, i| one.fnma(a[i], b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn store(self, a: Self::Floats, p: *mut f32) {
        both_at!(self, |one, i| one.store(a[i], p.add(i * self.of * PANEL_ROWS)));
    }
}

impl Avx512Pair {
    /// Adds the products of one k-group of both panels with the words of the columns at `a`.
    ///
    /// # Safety
    /// `a` points at a word of each column.
    #[inline(always)]
    unsafe fn add_group<const C: usize>(
        self,
        s: &mut [Both<__m512i>; C],
        quants: Both<__m512i>,
        a: *const i8,
    ) {
        for c in 0..C {
            // SAFETY: the token proves the features; the word is readable (`# Safety`).
            unsafe {
                let word = _mm512_set1_epi32(a.add(c * 4).cast::<i32>().read_unaligned());
                for p in 0..2 {
                    s[c][p] = _mm512_dpbusd_epi32(s[c][p], quants[p], word);
                }
            }
        }
    }
}
