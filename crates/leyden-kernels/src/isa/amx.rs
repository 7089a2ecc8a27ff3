//! AMX: products of matrices of int8, up to sixteen columns of a batch by sixteen rows of weights, 64 or 32 values deep.
//!
//! A matrix lies in a register of sixteen rows of 64 bytes, which is read from memory and written to it whole: what is done to sums
//! besides, AVX-512 does to what was written. A processor that multiplies matrices has one unit less for that, so all the sums of
//! 128 values of a format with integer scales are made by the products themselves: of weights times their scales, as a plane of
//! lower bytes and one of upper ones (`matmul::matrices`). Sums are the same integers, and floats in the same order, so the bits
//! are the same as everywhere.
//!
//! The instructions: Intel's Software Developer's Manual, volume 1, chapter 18.

use super::Level;
use super::avx512_dot::{Avx512Dot, add_products};
use super::dot::{BIAS, BIAS_BITS};
use crate::activations::Tile;
use crate::matmul::family::{Simple, Super};
use crate::matmul::format::ROWS;
use crate::matmul::many::Room;
use crate::matmul::matrices::{self, Blocks, Halves, Planes};
use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Columns that one product takes, which therefore lie side by side.
const COLUMNS: usize = Level::PART_COLUMNS;

/// How many rows and bytes of a row every matrix has.
#[repr(C, align(64))]
struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// The matrices of weights, of activations, and of their products.
const WEIGHTS: [usize; 4] = [0, 1, 2, 3];
const ACTIVATIONS: [usize; 2] = [4, 5];
const PRODUCTS: [usize; 2] = [6, 7];

impl Shapes {
    /// For products of so many columns, `depth` values deep.
    const fn new(columns: usize, depth: usize) -> Shapes {
        assert!(columns <= COLUMNS && depth <= 64 && depth.is_multiple_of(4));
        let mut shapes =
            Shapes { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        let mut i = 0;
        while i < 4 {
            (shapes.row_bytes[WEIGHTS[i]], shapes.rows[WEIGHTS[i]]) = (64, (depth / 4) as u8);
            i += 1;
        }
        let mut i = 0;
        while i < 2 {
            (shapes.row_bytes[ACTIVATIONS[i]], shapes.rows[ACTIVATIONS[i]]) = (depth as u16, columns as u8);
            (shapes.row_bytes[PRODUCTS[i]], shapes.rows[PRODUCTS[i]]) = (64, columns as u8);
            i += 1;
        }
        shapes
    }
}

/// Matrices in registers, until dropped.
struct Matrices(());

impl Matrices {
    #[inline(always)]
    fn new() -> Matrices {
        Matrices(())
    }

    /// # Safety
    /// The level was detected.
    #[inline(always)]
    unsafe fn shape(&self, shapes: &Shapes) {
        // SAFETY: the processor has the instruction; it reads 64 bytes, which describe shapes that there are.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) std::ptr::from_ref(shapes), options(readonly, nostack, preserves_flags))
        };
    }
}

impl Drop for Matrices {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: no memory; without it the system would keep eight thousand bytes of this thread's state.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}

/// Reads matrix `$n` from rows at `$p`, `$stride` bytes apart.
macro_rules! read {
    ($n:literal, $p:expr, $stride:expr) => {
        asm!(
            concat!("tileloadd tmm", $n, ", [{p} + {stride}]"),
            p = in(reg) $p,
            stride = in(reg) $stride,
            options(readonly, nostack, preserves_flags),
        )
    };
}
/// Writes matrix `$n` to rows at `$p`, of 64 bytes.
macro_rules! write {
    ($n:literal, $p:expr) => {
        asm!(
            concat!("tilestored [{p} + {stride}], tmm", $n),
            p = in(reg) $p,
            stride = in(reg) 64_usize,
            options(nostack, preserves_flags),
        )
    };
}
macro_rules! zero {
    ($n:literal) => {
        asm!(concat!("tilezero tmm", $n), options(nomem, nostack, preserves_flags))
    };
}
/// Adds to matrix `$n` the products of signed activations and weights, signed or not.
macro_rules! add {
    (signed, $n:literal, $a:literal, $w:literal) => {
        asm!(concat!("tdpbssd tmm", $n, ", tmm", $a, ", tmm", $w), options(nomem, nostack, preserves_flags))
    };
    (unsigned, $n:literal, $a:literal, $w:literal) => {
        asm!(concat!("tdpbsud tmm", $n, ", tmm", $a, ", tmm", $w), options(nomem, nostack, preserves_flags))
    };
}

/// What matrices of products are written to: those of one step, and of the one before.
#[repr(align(4096))]
struct Products([[MaybeUninit<i32>; 4 * COLUMNS * ROWS]; 2]);

impl Products {
    #[inline(always)]
    fn new() -> Products {
        Products([[MaybeUninit::uninit(); _]; 2])
    }

    /// Where they begin: those of one step, and of the one before.
    #[inline(always)]
    fn places(&mut self) -> [*mut i32; 2] {
        self.0.each_mut().map(|of| of.as_mut_ptr().cast())
    }
}

/// Scales and minima of 128 values, of a format with so many words of minima at most.
#[derive(Clone, Copy)]
struct Factors {
    d: __m512,
    dmin: __m512,
    /// Pairs of two blocks, as many as [`Halves::PAIRS`] says.
    minima: [__m512i; 4],
}

impl Factors {
    /// Those of 128 values at `w`.
    ///
    /// # Safety
    /// AVX-512 is there, and `w` points at 128 values of a panel of [`Halves`].
    #[inline(always)]
    unsafe fn of<F: Super>(w: *const u8) -> Factors {
        // SAFETY: the caller's promise.
        unsafe {
            let mut f = Factors {
                d: _mm512_loadu_ps(w.cast()),
                dmin: _mm512_setzero_ps(),
                minima: [_mm512_setzero_si512(); 4],
            };
            if F::MINIMUM {
                f.dmin = _mm512_loadu_ps(w.add(64).cast());
                for i in 0..Halves::<F>::PAIRS {
                    f.minima[i] = _mm512_loadu_si512(w.add(Halves::<F>::MINIMA + i * 64).cast());
                }
            }
            f
        }
    }
}

/// Integers below 2^22 in magnitude plus [`BIAS`], exactly. By additions: where matrices are multiplied one unit is left for products
/// of floats and for conversions, and two for these.
///
/// # Safety
/// AVX-512 is there.
#[inline(always)]
unsafe fn biased(a: __m512i) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { _mm512_castsi512_ps(_mm512_add_epi32(a, _mm512_set1_epi32(BIAS_BITS))) }
}

/// What was biased, as it is.
///
/// # Safety
/// AVX-512 is there.
#[inline(always)]
unsafe fn unbiased(a: __m512) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe { _mm512_sub_ps(a, _mm512_set1_ps(BIAS)) }
}

/// One column's results: `y` and what 128 values add to it, of products at `b`, of which there are two planes or one.
///
/// # Safety
/// AVX-512 is there, `b` points at a row of products of each plane, `words` at those of the column for all pairs of minima, `stride`
/// apart, and `scale` at its scale.
#[inline(always)]
unsafe fn half<F: Super>(
    y: __m512,
    f: &Factors,
    b: *const i32,
    (words, stride): (*const i32, usize),
    scale: *const f32,
) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let low = biased(_mm512_loadu_si512(b.cast()));
        let sum = if Halves::<F>::PLANES == 2 {
            let high = biased(_mm512_loadu_si512(b.add(COLUMNS * ROWS).cast()));
            // Exact, as it is a multiple of 256 below 2^32; so the sum of all products is rounded once.
            let high = _mm512_fmadd_ps(high, _mm512_set1_ps(256.0), _mm512_set1_ps(-257.0 * BIAS));
            _mm512_add_ps(high, low)
        } else {
            unbiased(low)
        };
        let mut u = _mm512_mul_ps(sum, f.d);
        if F::MINIMUM {
            let mut m = _mm512_set1_epi32(BIAS_BITS);
            for i in 0..Halves::<F>::PAIRS {
                m = add_products(m, f.minima[i], words.wrapping_add(i * stride));
            }
            u = _mm512_fnmadd_ps(unbiased(_mm512_castsi512_ps(m)), f.dmin, u);
        }
        _mm512_fmadd_ps(u, _mm512_set1_ps(*scale), y)
    }
}

/// Values of a packed panel that are taken apart at a time: they stay in the first cache beside activations.
const PART: usize = 512;

/// Where a group's numbers of 128 or 64 values lie: activations, scales, sums of activations, and results.
#[derive(Clone, Copy)]
struct Place {
    codes: *const i8,
    scales: *const f32,
    words: *const i32,
    out: *mut f32,
}

impl Place {
    /// The same of others, so many of each further on.
    #[inline(always)]
    fn after(self, codes: usize, scales: usize, words: usize, out: usize) -> Place {
        Place {
            codes: self.codes.wrapping_add(codes),
            scales: self.scales.wrapping_add(scales),
            words: self.words.wrapping_add(words),
            out: self.out.wrapping_add(out),
        }
    }
}

/// Multiplies a panel of [`Halves`] with a tile of any number of columns.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn superblocks<F: Super>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    assert!(Halves::<F>::bytes(k) == Some(panel.len()));
    let out = begin(k, t, out);
    // SAFETY: the length checked above is of all halves.
    unsafe { some_of_halves::<F>(panel.as_ptr(), 0..k / 128, k, t, out) };
}

/// As [`superblocks`], of a packed panel, of which a part after the other is taken apart.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn packed_superblocks<F: Super>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let (d, out) = (Avx512Dot::<false>::in_feature_region(), begin(k, t, out));
    let mut room = Room::of(PART / 128 * Halves::<F>::OF_128);
    for first in (0..k / 256).step_by(PART / 256) {
        let end = (k / 256).min(first + PART / 256);
        let part = &mut room.bytes()[..(end - first) * 2 * Halves::<F>::OF_128];
        matrices::superblocks::<_, F>(d, panel, k, first..end, part);
        // SAFETY: the part is of these halves.
        unsafe { some_of_halves::<F>(part.as_ptr(), 2 * first..2 * end, k, t, out) };
    }
}

/// Checks a tile, and begins its results.
#[inline(always)]
fn begin<'a>(k: usize, t: &Tile<'_>, out: &'a mut [f32]) -> &'a mut [f32] {
    assert!(t.codes.len() == t.c * k);
    let out = &mut out[..t.c * ROWS];
    out.fill(0.0);
    out
}

/// Adds the products of some halves, which begin at `panel`.
///
/// # Safety
/// The level is there; the panel has so many halves from there on.
#[inline(always)]
unsafe fn some_of_halves<F: Super>(
    panel: *const u8,
    range: Range<usize>,
    k: usize,
    t: &Tile<'_>,
    out: &mut [f32],
) {
    let halves = k / 128;
    assert!(out.len() == t.c * ROWS && range.end <= halves && t.codes.len() == t.c * k);
    assert!(
        t.scales.len() == halves * t.c
            && t.sums.len() == halves * 4 * t.c
            && t.pairs.len() == halves * 2 * t.c
    );
    let matrices = Matrices::new();
    let mut products = Products::new();
    let b = products.places();
    let (groups, rest) = (t.c / COLUMNS, t.c % COLUMNS);
    let words = if F::PARTS == 1 { t.pairs } else { t.sums };
    let at = Place {
        codes: t.codes.as_ptr(),
        scales: t.scales.as_ptr(),
        words: words.as_ptr(),
        out: out.as_mut_ptr(),
    };
    // Numbers of a column in all its halves, and of so many columns before those of the range.
    let of_column = [k, halves, halves * Halves::<F>::PAIRS, ROWS];
    let before = |columns: usize| {
        let halves = range.start * columns;
        at.after(halves * 128, halves, halves * Halves::<F>::PAIRS, 0)
    };
    // SAFETY: the lengths checked above cover the range's halves and the tile's columns, and the panel is the caller's promise.
    unsafe {
        if groups > 0 {
            matrices.shape(const { &Shapes::new(COLUMNS, 64) });
            let next = of_column.map(|numbers| numbers * COLUMNS);
            whole_halves::<F>(panel, (range.len(), groups), before(COLUMNS), next, b);
        }
        if rest > 0 {
            let first = of_column.map(|numbers| numbers * groups * COLUMNS);
            let at = before(rest).after(first[0], first[1], first[2], first[3]);
            matrices.shape(&Shapes::new(rest, 64));
            some_halves::<F>(panel, (range.len(), rest), at, b[0]);
        }
    }
}

/// Bytes of a plane of 128 values of 16 rows.
const PLANE: usize = 2 * 1024;

/// Reads the weights of 128 values, whose codes are at `$w`.
macro_rules! read_halves {
    ($f:ident, $w:expr) => {
        let w = $w;
        read!(0, w, 64_usize);
        read!(1, w.add(1024), 64_usize);
        if Halves::<$f>::PLANES == 2 {
            read!(2, w.add(PLANE), 64_usize);
            read!(3, w.add(PLANE + 1024), 64_usize);
        }
    };
}

/// All halves with whole groups. What is done to the products of one group stands between the products of the next, so that neither
/// waits for the other.
///
/// # Safety
/// The level and shapes of whole groups are there; panel and place have so many halves and groups.
#[inline(always)]
unsafe fn whole_halves<F: Super>(
    panel: *const u8,
    (halves, groups): (usize, usize),
    at: Place,
    next: [usize; 4],
    b: [*mut i32; 2],
) {
    let pairs = Halves::<F>::PAIRS * COLUMNS;
    // SAFETY: the caller's promise.
    unsafe {
        let (mut w, mut first, mut i) = (panel, at, 0);
        let mut f = Factors::of::<F>(w);
        // What the products before this one are of.
        let mut before = at;
        let mut b = b;
        // The results of a quarter of the columns.
        macro_rules! quarter {
            ($quarter:literal) => {
                for c in $quarter * 4..($quarter + 1) * 4 {
                    let y = before.out.add(c * ROWS);
                    let b = b[1].add(c * ROWS);
                    let words = (before.words.add(c), COLUMNS);
                    _mm512_storeu_ps(y, half::<F>(_mm512_loadu_ps(y), &f, b, words, before.scales.add(c)));
                }
            };
        }
        for _ in 0..halves {
            read_halves!(F, w.add(Halves::<F>::CODES));
            let mut place = first;
            for g in 0..groups {
                zero!(6);
                read!(4, place.codes, 64_usize);
                add!(unsigned, 6, 4, 0);
                if i > 0 {
                    quarter!(0);
                }
                if Halves::<F>::PLANES == 2 {
                    zero!(7);
                    add!(signed, 7, 4, 2);
                }
                if i > 0 {
                    quarter!(1);
                }
                read!(5, place.codes.wrapping_add(1024), 64_usize);
                add!(unsigned, 6, 5, 1);
                if i > 0 {
                    quarter!(2);
                }
                if Halves::<F>::PLANES == 2 {
                    add!(signed, 7, 5, 3);
                }
                if i > 0 {
                    quarter!(3);
                }
                write!(6, b[0]);
                if Halves::<F>::PLANES == 2 {
                    write!(7, b[0].add(COLUMNS * ROWS));
                }
                if g == 0 {
                    f = Factors::of::<F>(w);
                }
                (before, i) = (place, 1);
                b.swap(0, 1);
                place = place.after(next[0], next[1], next[2], next[3]);
            }
            w = w.wrapping_add(Halves::<F>::OF_128);
            first = first.after(128 * COLUMNS, COLUMNS, pairs, 0);
        }
        quarter!(0);
        quarter!(1);
        quarter!(2);
        quarter!(3);
    }
}

/// All halves with a group of fewer columns.
///
/// # Safety
/// The level and shapes of so many columns are there; panel and place have so many halves and columns.
#[inline(always)]
unsafe fn some_halves<F: Super>(panel: *const u8, (halves, columns): (usize, usize), at: Place, b: *mut i32) {
    // SAFETY: the caller's promise.
    unsafe {
        let (mut w, mut place) = (panel, at);
        for _ in 0..halves {
            let f = Factors::of::<F>(w);
            read_halves!(F, w.add(Halves::<F>::CODES));
            zero!(6);
            read!(4, place.codes, 64_usize);
            read!(5, place.codes.add(64 * columns), 64_usize);
            add!(unsigned, 6, 4, 0);
            add!(unsigned, 6, 5, 1);
            write!(6, b);
            if Halves::<F>::PLANES == 2 {
                zero!(7);
                add!(signed, 7, 4, 2);
                add!(signed, 7, 5, 3);
                write!(7, b.add(COLUMNS * ROWS));
            }
            for c in 0..columns {
                let y = place.out.add(c * ROWS);
                let words = (place.words.add(c), columns);
                let sum = half::<F>(_mm512_loadu_ps(y), &f, b.add(c * ROWS), words, place.scales.add(c));
                _mm512_storeu_ps(y, sum);
            }
            w = w.wrapping_add(Halves::<F>::OF_128);
            place = place.after(128 * columns, columns, Halves::<F>::PAIRS * columns, 0);
        }
    }
}

/// Scale and minimum of 32 values.
#[derive(Clone, Copy)]
struct Scales {
    d: __m512,
    /// Of [`BIAS`] in what is scaled, negated: exact, as halves have eleven significant bits.
    share: __m512,
    minimum: __m512,
}

impl Scales {
    /// Those at `w`.
    ///
    /// # Safety
    /// AVX-512 is there, and `w` points at 32 values of a panel of [`Blocks`].
    #[inline(always)]
    unsafe fn of<F: Simple>(w: *const u8) -> Scales {
        // SAFETY: the caller's promise.
        unsafe {
            let d = _mm512_loadu_ps(w.cast());
            let minimum = if F::MINIMUM { _mm512_loadu_ps(w.add(64).cast()) } else { _mm512_setzero_ps() };
            Scales { d, share: _mm512_mul_ps(d, _mm512_set1_ps(-BIAS)), minimum }
        }
    }
}

/// One column's results: `y` and what 32 values add to it, of products at `b`.
///
/// # Safety
/// AVX-512 is there, `b` points at a row of products, `scale` and `sum` at the column's.
#[inline(always)]
unsafe fn block<F: Simple>(
    y: __m512,
    f: Scales,
    b: *const i32,
    scale: *const f32,
    sum: *const i32,
) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let s = biased(_mm512_loadu_si512(b.cast()));
        // The product of sum and scale is rounded once either way.
        let mut u =
            if F::HALVES { _mm512_fmadd_ps(s, f.d, f.share) } else { _mm512_mul_ps(unbiased(s), f.d) };
        if F::MINIMUM {
            u = _mm512_fmadd_ps(f.minimum, unbiased(biased(_mm512_set1_epi32(*sum))), u);
        }
        _mm512_fmadd_ps(u, _mm512_set1_ps(*scale), y)
    }
}

/// Multiplies a panel of [`Blocks`] with a tile of any number of columns.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn simple<F: Simple>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    assert!(Blocks::<F>::bytes(k) == Some(panel.len()));
    let out = begin(k, t, out);
    // SAFETY: the length checked above is of all blocks.
    unsafe { some_of_blocks::<F>(panel.as_ptr(), 0..k / 32, k, t, out) };
}

/// As [`simple`], of a packed panel, of which a part after the other is taken apart.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn packed_simple<F: Simple>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let (d, out) = (Avx512Dot::<false>::in_feature_region(), begin(k, t, out));
    let mut room = Room::of(PART / 32 * Blocks::<F>::OF_32);
    for first in (0..k / 32).step_by(PART / 32) {
        let end = (k / 32).min(first + PART / 32);
        let part = &mut room.bytes()[..(end - first) * Blocks::<F>::OF_32];
        matrices::simple::<_, F>(d, panel, k, first..end, part);
        // SAFETY: the part is of these blocks.
        unsafe { some_of_blocks::<F>(part.as_ptr(), first..end, k, t, out) };
    }
}

/// Adds the products of some blocks, which begin at `panel`, an even number of them or the last.
///
/// # Safety
/// The level is there; the panel has so many blocks from there on.
#[inline(always)]
unsafe fn some_of_blocks<F: Simple>(
    panel: *const u8,
    range: Range<usize>,
    k: usize,
    t: &Tile<'_>,
    out: &mut [f32],
) {
    let (blocks, count) = (k / 32, range.len());
    assert!(out.len() == t.c * ROWS && range.end <= blocks && t.codes.len() == t.c * k);
    assert!(t.scales.len() == blocks * t.c && t.sums.len() == blocks * t.c);
    assert!(range.start.is_multiple_of(2) && (count.is_multiple_of(2) || range.end == blocks));
    let matrices = Matrices::new();
    let mut products = Products::new();
    let b = products.places();
    let (groups, rest) = (t.c / COLUMNS, t.c % COLUMNS);
    let at = Place {
        codes: t.codes.as_ptr(),
        scales: t.scales.as_ptr(),
        words: t.sums.as_ptr(),
        out: out.as_mut_ptr(),
    };
    // Numbers of a column in all its blocks, and of so many columns before those of the range.
    let of_column = [k, blocks, blocks, ROWS];
    let before = |columns: usize| {
        let blocks = range.start * columns;
        at.after(blocks * 32, blocks, blocks, 0)
    };
    // SAFETY: the lengths checked above cover the range's blocks and the tile's columns, and the panel is the caller's promise.
    unsafe {
        if groups > 0 {
            matrices.shape(const { &Shapes::new(COLUMNS, 32) });
            let next = of_column.map(|numbers| numbers * COLUMNS);
            let mut place = (panel, before(COLUMNS));
            place = whole_blocks::<F, 4>(count / 4, groups, place, next, b);
            place = whole_blocks::<F, 2>(count % 4 / 2, groups, place, next, b);
            whole_blocks::<F, 1>(count % 2, groups, place, next, b);
        }
        if rest > 0 {
            let first = of_column.map(|numbers| numbers * groups * COLUMNS);
            let at = before(rest).after(first[0], first[1], first[2], first[3]);
            matrices.shape(&Shapes::new(rest, 32));
            some_blocks::<F>(panel, (count, rest), at, b[0]);
        }
    }
}

/// So many steps of `N` blocks, one, two or four, with whole groups, as [`whole_halves`]; and where the next begin. One block is the last
/// of an odd number.
///
/// # Safety
/// The level and shapes of whole groups are there; panel and place have so many blocks and groups.
#[inline(always)]
unsafe fn whole_blocks<F: Simple, const N: usize>(
    steps: usize,
    groups: usize,
    (panel, at): (*const u8, Place),
    next: [usize; 4],
    b: [*mut i32; 2],
) -> (*const u8, Place) {
    const PRODUCT: usize = COLUMNS * ROWS;
    let of_32 = Blocks::<F>::OF_32;
    let stride: usize = if N == 1 { 32 } else { 64 };
    // SAFETY: the caller's promise.
    unsafe {
        let (mut w, mut first) = (panel, at);
        if steps == 0 {
            return (w, first);
        }
        let mut f = [Scales::of::<F>(w); N];
        let (mut before, mut b, mut any) = (at, b, false);
        // The results of a quarter of the columns.
        macro_rules! quarter {
            ($quarter:literal) => {
                for c in $quarter * 4..($quarter + 1) * 4 {
                    let out = before.out.add(c * ROWS);
                    let mut y = _mm512_loadu_ps(out);
                    for i in 0..N {
                        let (b, at) = (b[1].add(c * ROWS + i * PRODUCT), c + i * COLUMNS);
                        y = block::<F>(y, f[i], b, before.scales.add(at), before.words.wrapping_add(at));
                    }
                    _mm512_storeu_ps(out, y);
                }
            };
        }
        for _ in 0..steps {
            let codes = w.add(Blocks::<F>::CODES);
            read!(0, codes, 64_usize);
            if N > 1 {
                read!(1, codes.add(of_32), 64_usize);
            }
            if N > 2 {
                read!(2, codes.add(2 * of_32), 64_usize);
                read!(3, codes.add(3 * of_32), 64_usize);
            }
            let mut place = first;
            for g in 0..groups {
                zero!(6);
                read!(4, place.codes, stride);
                add!(signed, 6, 4, 0);
                if N > 1 {
                    zero!(7);
                    read!(5, place.codes.add(32), stride);
                    add!(signed, 7, 5, 1);
                }
                if any {
                    quarter!(0);
                }
                write!(6, b[0]);
                if N > 1 {
                    write!(7, b[0].add(PRODUCT));
                }
                if any {
                    quarter!(1);
                }
                if N > 2 {
                    zero!(6);
                    read!(4, place.codes.add(64 * COLUMNS), stride);
                    add!(signed, 6, 4, 2);
                    zero!(7);
                    read!(5, place.codes.add(64 * COLUMNS + 32), stride);
                    add!(signed, 7, 5, 3);
                }
                if any {
                    quarter!(2);
                }
                if N > 2 {
                    write!(6, b[0].add(2 * PRODUCT));
                    write!(7, b[0].add(3 * PRODUCT));
                }
                if any {
                    quarter!(3);
                }
                if g == 0 {
                    for (i, f) in f.iter_mut().enumerate() {
                        *f = Scales::of::<F>(w.add(i * of_32));
                    }
                }
                (before, any) = (place, true);
                b.swap(0, 1);
                place = place.after(next[0], next[1], next[2], next[3]);
            }
            w = w.wrapping_add(N * of_32);
            first = first.after(N * 32 * COLUMNS, N * COLUMNS, N * COLUMNS, 0);
        }
        quarter!(0);
        quarter!(1);
        quarter!(2);
        quarter!(3);
        (w, first)
    }
}

/// All blocks with a group of fewer columns. Codes of two lie side by side, and those of an odd last one alone.
///
/// # Safety
/// The level and shapes of so many columns are there; panel and place have so many blocks and columns.
#[inline(always)]
unsafe fn some_blocks<F: Simple>(
    panel: *const u8,
    (blocks, columns): (usize, usize),
    at: Place,
    b: *mut i32,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let (mut w, mut place) = (panel, at);
        for i in 0..blocks {
            let f = Scales::of::<F>(w);
            zero!(6);
            read!(4, place.codes, if i + 1 == blocks && i % 2 == 0 { 32_usize } else { 64 });
            read!(0, w.add(Blocks::<F>::CODES), 64_usize);
            add!(signed, 6, 4, 0);
            write!(6, b);
            for c in 0..columns {
                let out = place.out.add(c * ROWS);
                let (scale, sum) = (place.scales.add(c), place.words.add(c));
                _mm512_storeu_ps(out, block::<F>(_mm512_loadu_ps(out), f, b.add(c * ROWS), scale, sum));
            }
            w = w.wrapping_add(Blocks::<F>::OF_32);
            place = place.after(if i % 2 == 0 { 32 } else { 64 * columns - 32 }, columns, columns, 0);
        }
    }
}

/// Every second byte.
const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;

impl Planes for Avx512Dot {
    #[inline(always)]
    fn planes(self, codes: __m512i, scales: __m512i, zero: i16) -> [__m512i; 2] {
        // SAFETY: the token proves the features.
        unsafe {
            let low = _mm512_set1_epi16(0xff);
            // Of each row's four the first and third, and the second and fourth: the other of two is multiplied by nothing.
            let (even, odd) = (_mm512_and_si512(scales, low), _mm512_slli_epi16::<8>(scales));
            let zero = _mm512_mullo_epi16(scales, _mm512_set1_epi16(zero));
            let even = _mm512_sub_epi16(_mm512_maddubs_epi16(codes, even), zero);
            let odd = _mm512_sub_epi16(_mm512_maddubs_epi16(codes, odd), zero);
            [
                _mm512_mask_blend_epi8(ODD, even, _mm512_slli_epi16::<8>(odd)),
                _mm512_mask_blend_epi8(ODD, _mm512_srli_epi16::<8>(even), odd),
            ]
        }
    }
    #[inline(always)]
    unsafe fn store_pairs(self, a: __m512i, p: *mut u8) {
        // SAFETY: the token proves the features; the room is the caller's promise.
        unsafe { _mm512_storeu_si512(p.cast(), a) };
    }
}

/// As [`Isa::int8_products`](super::Isa::int8_products), of matrices.
///
/// # Safety
/// The level was detected.
pub(super) unsafe fn products(rounds: u64) -> u64 {
    let matrices = Matrices::new();
    // SAFETY: the caller's promise.
    unsafe { matrices.shape(const { &Shapes::new(COLUMNS, 64) }) };
    for _ in 0..rounds {
        // SAFETY: matrices that are no longer than shapes say, of whatever they hold.
        unsafe {
            add!(signed, 0, 4, 2);
            add!(signed, 1, 5, 2);
            add!(signed, 6, 4, 3);
            add!(signed, 7, 5, 3);
        }
    }
    rounds * 4 * (COLUMNS * ROWS * 64) as u64
}
