//! Tiles of five and six columns on AVX2, on panels unpacked for them: each 32-bit lane holds two 16-bit sums.
//!
//! `vpmaddubsw` multiplies unsigned quantised values and adds two products per half of a lane. In formats with integer
//! scales one half holds values of one block of 32 and the other half those of the next, so that one `vpmaddwd` scales
//! and adds both: half as many as if both halves held values of one block. Each sum then has as many products as there
//! are values with one scale. The activations' bounds tell whether it fits 16 bits; if not, sums of half as many
//! products are scaled. Quantised values with a zero point fit without it: sums begin at its negated contribution, and
//! may wrap on the way.
//!
//! In formats with float scales per 32 values both halves hold values of one block, and signed quantised values become
//! 16-bit integers ([`avx2_words`](crate::gemm::microkernel::x86_64::avx2_madd)).

use crate::cpu::isa::AccInit;
use crate::gemm::format::overflow_bounds::i16_limit;
use crate::gemm::format::traits::{A, Block32, QuantFormat, Superblock, SuperblockScales};
use crate::gemm::microkernel::x86_64::avx2_asm::{Chunk, LESS_FOUR, LESS_TWO, MORE, RESULTS, SUMS, multiply};
use crate::gemm::unpack::panel::{self, Unpacked};
use crate::gemm::unpack::stream::prefetch;
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::simd::x86_64::avx2_int::{Avx2Int, V};
use crate::types::PANEL_ROWS;
use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Sums of 16 rows and `C` columns.
type Sums<const C: usize> = [MaybeUninit<V>; C];

/// Bytes of 16 floats, of 16 pairs of words (`PAIRS`), and of 64 quantised values of 16 rows (`UNIT`).
const FLOATS: usize = 4 * PANEL_ROWS;
const PAIRS: usize = 4 * PANEL_ROWS;
const UNIT: usize = 64 * PANEL_ROWS;

/// Number of sums of activations per column for each pair of blocks of 16 (`AccInit::of_block`).
const ACC_INIT: usize = AccInit::Lanes.of_block();

/// Panel of a superblock format. Per 256 values: `[16]` d, `[16]` dmin, for each two blocks of 32 the scales of their
/// parts as pairs, as many minima if there are any, and then the quantised values of each two blocks,
/// `[2 values of either][16]`.
pub(crate) struct Lanes<F>(PhantomData<F>);

impl<F: Superblock> Lanes<F> {
    const SCALES: usize = 2 * FLOATS;
    const MINIMA: usize = Self::SCALES + 4 * F::PARTS * PAIRS;
    const CODES: usize = Self::MINIMA + if F::MINIMUM { 4 * F::PARTS * PAIRS } else { 0 };
    const OF_256: usize = Self::CODES + 4 * UNIT;

    /// Returns the bytes of a panel of depth `k`; `None` on overflow.
    pub(crate) fn bytes(k: usize) -> Option<usize> {
        (k / 256).checked_mul(Self::OF_256)
    }
}

/// Interleaves the quantised values of two blocks: the first two values of each row's four, and the last two.
#[target_feature(enable = "avx2")]
#[inline]
fn in_pairs(one: V, other: V) -> [V; 2] {
    let first = |h: usize| _mm256_blend_epi16::<0b1010_1010>(one[h], _mm256_slli_epi32::<16>(other[h]));
    let last = |h: usize| _mm256_blend_epi16::<0b1010_1010>(_mm256_srli_epi32::<16>(one[h]), other[h]);
    [[first(0), first(1)], [last(0), last(1)]]
}

/// Unpacks a panel of a superblock format.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn unpack_superblock<F: Superblock>(panel: &[u8], k: usize, out: &mut [u8], _norms: &mut [f32]) {
    const { assert!(!F::SIGNED && !F::UNPACKED) };
    let d = Avx2Int::in_feature_region();
    assert!(F::panel_bytes(k) == Some(panel.len()) && Lanes::<F>::bytes(k) == Some(out.len()));
    for sb in 0..k / 256 {
        // SAFETY: the lengths checked above cover superblock sb.
        unsafe {
            let f: SuperblockScales<Avx2Int> = F::factors(d, panel.as_ptr(), k, sb);
            let to = out.as_mut_ptr().add(sb * Lanes::<F>::OF_256);
            d.store(f.d, to.cast());
            d.store(f.dmin, to.add(FLOATS).cast());
            for i in 0..4 * F::PARTS {
                let (unit, part) = (i / F::PARTS, i % F::PARTS);
                let one = unit * 2 * F::PARTS + part;
                let scales = d.pairs(F::scale(d, &f, one), F::scale(d, &f, one + F::PARTS), F::SIGNED_SCALES);
                d.store_codes(scales, to.add(Lanes::<F>::SCALES + i * PAIRS));
                if F::MINIMUM {
                    let minima = d.pairs(F::minimum(d, &f, one), F::minimum(d, &f, one + F::PARTS), false);
                    d.store_codes(minima, to.add(Lanes::<F>::MINIMA + i * PAIRS));
                }
            }
            for unit in 0..4 {
                let (one, to) = (f.quants.add(2 * unit * F::BYTES), to.add(Lanes::<F>::CODES + unit * UNIT));
                let other = one.add(F::BYTES);
                for g in 0..4 {
                    prefetch::<_, F>(d, one, g, 1);
                    prefetch::<_, F>(d, other, g, 1);
                    let (a, b) = (F::pair(d, one, g), F::pair(d, other, g));
                    for (at, quants) in [(2 * g, in_pairs(a.0, b.0)), (2 * g + 8, in_pairs(a.1, b.1))] {
                        d.store_codes(quants[0], to.add(at * 64));
                        d.store_codes(quants[1], to.add((at + 1) * 64));
                    }
                }
            }
        }
    }
}

/// Multiplies a panel of a superblock format, unpacked by [`unpack_superblock`], with `C` columns of a tile;
/// `microkernel::superblock` defines the result.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn superblocks<F: Superblock, const C: usize>(
    panel: &[u8],
    k: usize,
    t: &Tile<'_>,
    out: &mut [f32],
) {
    let n = k / 128;
    assert!(Lanes::<F>::bytes(k) == Some(panel.len()));
    assert!(t.c == C && out.len() >= C * PANEL_ROWS && t.lanes.len() == k * C && t.scales.len() == n * C);
    assert!(
        t.acc_init.len() == n * 4 * ACC_INIT * C
            && t.pairs.len() == n * 2 * C
            && t.overflow_bounds.len() == n
    );
    let begins = F::ZERO != 0;
    const { assert!((F::ZERO != 0) != F::MINIMUM && (F::PARTS == 2 || F::MINIMUM)) };
    let (limit, peak) = const { i16_limit::<F>(F::ZERO != 0) };
    // In formats with a scale per 32 values, sums of 16 products may fit where those of 32 do not. Sums of eight always
    // fit.
    let (peak_of_16, always) = (peak % 2, limit >= 16 * A);
    const { assert!(i16_limit::<F>(F::ZERO != 0).0 >= 8 * A, "sums of eight products overflow 16 bits") };
    let out = &mut out[..C * PANEL_ROWS];
    out.fill(0.0);
    let out = out.as_mut_ptr();
    for i in 0..n {
        // SAFETY: the lengths checked above cover half i of the panel and of the tile; `out` has 16 results of each
        // column.
        unsafe {
            let p = panel.as_ptr().add(i / 2 * Lanes::<F>::OF_256);
            let half = Half::<F, C>::new(p, t, i);
            let of_16_fit = always || t.overflow_bounds[i].sums[peak_of_16] <= limit;
            if F::PARTS == 1 {
                if t.overflow_bounds[i].sums[peak] <= limit {
                    half.chunks::<16, false, LESS_TWO>(out);
                } else if of_16_fit {
                    half.chunks::<8, false, LESS_TWO>(out);
                } else {
                    half.chunks::<4, false, LESS_TWO>(out);
                }
            } else {
                match (begins, F::MINIMUM, of_16_fit) {
                    (false, true, true) => half.chunks::<8, false, LESS_FOUR>(out),
                    (false, true, false) => half.chunks::<4, false, LESS_FOUR>(out),
                    (true, false, true) => half.chunks::<8, true, RESULTS>(out),
                    (true, false, false) => half.chunks::<4, true, RESULTS>(out),
                    _ => unreachable!(),
                }
            }
        }
    }
}

/// Half of a superblock, 128 values, of a panel and of a tile of `C` columns.
struct Half<'a, F, const C: usize> {
    p: *const u8,
    t: &'a Tile<'a>,
    i: usize,
    of: PhantomData<F>,
}

impl<'a, F: Superblock, const C: usize> Half<'a, F, C> {
    /// Creates half `i`.
    ///
    /// # Safety
    /// `p` points at its superblock of 256 values in a panel; the tile has that half, and passed all checks of
    /// `superblocks`.
    #[inline(always)]
    unsafe fn new(p: *const u8, t: &'a Tile<'a>, i: usize) -> Self {
        Half { p, t, i, of: PhantomData }
    }

    /// Returns the address of the pairs of chunk `j` of the half: of scales or of minima, which begin at `first`.
    #[inline(always)]
    fn pairs(&self, first: usize, j: usize) -> *const u8 {
        self.p.wrapping_add(first + (self.i % 2 * 2 * F::PARTS + j) * PAIRS)
    }

    /// Returns the address of the columns' sums of activations of chunk `j`: of pairs of blocks of 32 values, or of 16.
    #[inline(always)]
    fn words(&self, j: usize) -> *const i32 {
        if F::PARTS == 1 {
            self.t.pairs.as_ptr().wrapping_add((self.i * 2 + j) * C)
        } else {
            self.t.acc_init.as_ptr().wrapping_add((self.i * 4 + j) * ACC_INIT * C)
        }
    }

    /// Returns the addresses of the quantised values of chunk `j` of the half, and of its activations.
    #[inline(always)]
    fn quants(&self, j: usize) -> (*const u8, *const i8) {
        let at = self.i % 2 * 2 * F::PARTS + j;
        (
            self.p.wrapping_add(Lanes::<F>::CODES + at * (UNIT / F::PARTS)),
            self.t.lanes.as_ptr().wrapping_add((self.i * 2 * F::PARTS + j) * (64 / F::PARTS) * C),
        )
    }

    /// Adds the products of the half to the results, `STEPS` steps at a time: the values of one scale of two blocks, or
    /// half of them.
    ///
    /// # Safety
    /// The processor has AVX2 and FMA; the sums of so many steps fit 16 bits; `out` has 16 results of each column.
    #[inline(always)]
    unsafe fn chunks<const STEPS: usize, const BEGIN: bool, const END: usize>(&self, out: *mut f32) {
        let each = 16 / F::PARTS;
        assert!(each.is_multiple_of(STEPS) && (!BEGIN || STEPS * 2 >= each));
        let mut sums: Sums<C> = [MaybeUninit::uninit(); C];
        let last = 32 / STEPS - 1;
        for i in 0..=last {
            let (j, step) = (i * STEPS / each, i * STEPS % each);
            let (w, a) = self.quants(j);
            let of = Chunk {
                w: w.wrapping_add(step * 64),
                a: a.wrapping_add(step * 4 * C),
                // The sums of all steps are followed by those of the first half, and of the last half.
                words: match (BEGIN, STEPS == each) {
                    (true, true) => self.words(j),
                    (true, false) => self.words(j).wrapping_add((1 + step / STEPS) * C),
                    (false, _) => self.words(0),
                },
                offset: -F::ZERO,
                scales: self.pairs(Lanes::<F>::SCALES, j),
                before: sums.as_ptr().cast(),
                p: self.p,
                minima: self.pairs(Lanes::<F>::MINIMA, 0),
                by: self.t.scales.as_ptr().wrapping_add(self.i * C),
                out: if i == last { out.cast() } else { sums.as_mut_ptr().cast() },
            };
            // SAFETY: features, bounds and room are given (`# Safety`), and `new` was given a valid half.
            unsafe {
                if i == 0 {
                    multiply::<false, C, STEPS, BEGIN, true, false, SUMS>(of);
                } else if i < last {
                    multiply::<false, C, STEPS, BEGIN, true, true, SUMS>(of);
                } else {
                    multiply::<false, C, STEPS, BEGIN, true, true, END>(of);
                }
            }
        }
    }
}

/// Unpacks a panel of a Block32 format of unsigned quantised values.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn unpack_block32<F: Block32>(panel: &[u8], k: usize, out: &mut [u8], _norms: &mut [f32]) {
    panel::block32::<_, F>(Avx2Int::in_feature_region(), panel, k, out);
}

/// Returns the number of steps whose sums fit 16 bits whatever the activations: all eight of a block of 32 values, or
/// half.
const fn steps<F: QuantFormat>() -> usize {
    let most = if F::ZERO > F::MAX - F::ZERO { F::ZERO } else { F::MAX - F::ZERO };
    let all = 16 * most * A <= i16::MAX as i32;
    assert!(all || F::ZERO == 0 && 8 * most * A <= i16::MAX as i32, "sums of four steps overflow 16 bits");
    if all { 8 } else { 4 }
}

/// Multiplies a panel of a Block32 format, unpacked by [`unpack_block32`], with `C` columns of a tile;
/// `microkernel::block32` defines the result.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn block32<F: Block32, const C: usize>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let blocks = k / 32;
    let (first, stride) = Unpacked::<F>::scale_bytes(k);
    assert!(panel::block32_bytes::<F>(k) == Some(panel.len()));
    assert!(
        t.c == C && out.len() >= C * PANEL_ROWS && t.quants.len() == k * C && t.scales.len() == blocks * C
    );
    assert!(t.sums.len() == blocks * C && t.acc_init.len() == blocks * C);
    let begins = F::ZERO != 0;
    let steps = const { steps::<F>() };
    let out = &mut out[..C * PANEL_ROWS];
    out.fill(0.0);
    let mut sums: Sums<C> = [MaybeUninit::uninit(); C];
    for b in 0..blocks {
        let p = panel.as_ptr().wrapping_add(b * stride);
        let of = Chunk {
            w: panel.as_ptr().wrapping_add(first + b * Unpacked::<F>::BYTES),
            a: t.quants.as_ptr().wrapping_add(b * 32 * C),
            words: if begins { t.acc_init.as_ptr() } else { t.sums.as_ptr() }.wrapping_add(b * C),
            offset: -F::ZERO,
            scales: ONES.as_ptr().cast(),
            before: sums.as_ptr().cast(),
            p,
            minima: p.wrapping_add(if F::MINIMUM { FLOATS } else { 0 }),
            by: t.scales.as_ptr().wrapping_add(b * C),
            out: out.as_mut_ptr().cast(),
        };
        // SAFETY: the lengths checked above cover block b of the panel and of the tile, and 16 results of each column;
        // the sums of so many steps fit 16 bits.
        unsafe {
            if steps == 8 {
                match (begins, F::MINIMUM) {
                    (true, _) => multiply::<false, C, 8, true, true, false, RESULTS>(of),
                    (false, true) => multiply::<false, C, 8, false, true, false, MORE>(of),
                    (false, false) => multiply::<false, C, 8, false, true, false, RESULTS>(of),
                }
            } else {
                let first = Chunk { out: sums.as_mut_ptr().cast(), ..of };
                multiply::<false, C, 4, false, true, false, SUMS>(first);
                let last = Chunk { w: of.w.wrapping_add(4 * 64), a: of.a.wrapping_add(4 * 4 * C), ..of };
                if F::MINIMUM {
                    multiply::<false, C, 4, false, true, true, MORE>(last);
                } else {
                    multiply::<false, C, 4, false, true, true, RESULTS>(last);
                }
            }
        }
    }
}

/// Pairs of ones: `vpmaddwd` with them only adds the two sums of a lane.
static ONES: [i16; 2 * PANEL_ROWS] = [1; 2 * PANEL_ROWS];
