//! AMX microkernel of superblock formats: weights times their integer scales in planes of bytes, 128 values deep.

use crate::gemm::format::traits::Superblock;
use crate::gemm::microkernel::x86_64::amx::{
    COLUMNS, Matrices, PART, Place, Products, Shapes, add, begin, biased, read, unbiased, write, zero,
};
use crate::gemm::unpack::amx_planes::{self, AmxPlanes};
use crate::memory::scratch::Scratch;
use crate::quant::packed_a::Tile;
use crate::simd::int::{BIAS, BIAS_BITS};
use crate::simd::x86_64::avx512_int::{Avx512Int, add_products};
use crate::types::PANEL_ROWS;
use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

/// Factors and minima of 128 values.
#[derive(Clone, Copy)]
struct AmxScales {
    d: __m512,
    dmin: __m512,
    /// Minima as pairs of two blocks, [`AmxPlanes::PAIRS`] of them.
    minima: [__m512i; 4],
}

impl AmxScales {
    /// Reads the factors and minima of the 128 values at `w`.
    ///
    /// # Safety
    /// AVX-512 is there, and `w` points at 128 values of a panel of [`AmxPlanes`].
    #[inline(always)]
    unsafe fn of<F: Superblock>(w: *const u8) -> AmxScales {
        // SAFETY: AVX-512 is there, and `w` points at 128 values of a panel of `AmxPlanes` (`# Safety`).
        unsafe {
            let mut f = AmxScales {
                d: _mm512_loadu_ps(w.cast()),
                dmin: _mm512_setzero_ps(),
                minima: [_mm512_setzero_si512(); 4],
            };
            if F::MINIMUM {
                f.dmin = _mm512_loadu_ps(w.add(64).cast());
                for i in 0..AmxPlanes::<F>::PAIRS {
                    f.minima[i] = _mm512_loadu_si512(w.add(AmxPlanes::<F>::MINIMA + i * 64).cast());
                }
            }
            f
        }
    }
}

/// Adds 128 values to the results `y` of one column; `b` holds their products, of two planes or of one.
///
/// # Safety
/// AVX-512 is there; `b` points at a row of products of each plane, `words` at the column's words for all pairs of
/// minima, `stride` apart, and `scale` at the column's scale.
#[inline(always)]
unsafe fn half<F: Superblock>(
    y: __m512,
    f: &AmxScales,
    b: *const i32,
    (words, stride): (*const i32, usize),
    scale: *const f32,
) -> __m512 {
    // SAFETY: AVX-512 is there; `b`, `words` and `scale` point at the column's data (`# Safety`).
    unsafe {
        let low = biased(_mm512_loadu_si512(b.cast()));
        let sum = if AmxPlanes::<F>::PLANES == 2 {
            let high = biased(_mm512_loadu_si512(b.add(COLUMNS * PANEL_ROWS).cast()));
            // Exact, because it is a multiple of 256 below 2^32; so the sum of all products is rounded once.
            let high = _mm512_fmadd_ps(high, _mm512_set1_ps(256.0), _mm512_set1_ps(-257.0 * BIAS));
            _mm512_add_ps(high, low)
        } else {
            unbiased(low)
        };
        let mut u = _mm512_mul_ps(sum, f.d);
        if F::MINIMUM {
            let mut m = _mm512_set1_epi32(BIAS_BITS);
            for i in 0..AmxPlanes::<F>::PAIRS {
                m = add_products(m, f.minima[i], words.wrapping_add(i * stride));
            }
            u = _mm512_fnmadd_ps(unbiased(_mm512_castsi512_ps(m)), f.dmin, u);
        }
        _mm512_fmadd_ps(u, _mm512_set1_ps(*scale), y)
    }
}

/// Multiplies a panel of [`AmxPlanes`] with a tile of any number of columns.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn superblocks<F: Superblock>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    assert!(AmxPlanes::<F>::bytes(k) == Some(panel.len()));
    let out = begin(k, t, out);
    // SAFETY: the panel has all halves, by the length checked above.
    unsafe { some_of_halves::<F>(panel.as_ptr(), 0..k / 128, k, t, out) };
}

/// Multiplies a packed panel, unpacked part by part, as [`superblocks`] does.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn packed_superblocks<F: Superblock>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let (d, out) = (Avx512Int::<false>::in_feature_region(), begin(k, t, out));
    let mut room = Scratch::of(PART / 128 * AmxPlanes::<F>::OF_128);
    for first in (0..k / 256).step_by(PART / 256) {
        let end = (k / 256).min(first + PART / 256);
        let part = &mut room.bytes()[..(end - first) * 2 * AmxPlanes::<F>::OF_128];
        amx_planes::superblocks::<_, F>(d, panel, k, first..end, part);
        // SAFETY: the part has these halves.
        unsafe { some_of_halves::<F>(part.as_ptr(), 2 * first..2 * end, k, t, out) };
    }
}

/// Adds the products of the halves in `range`, which begin at `panel`.
///
/// # Safety
/// The level is supported; the panel has all halves of the range.
#[inline(always)]
unsafe fn some_of_halves<F: Superblock>(
    panel: *const u8,
    range: Range<usize>,
    k: usize,
    t: &Tile<'_>,
    out: &mut [f32],
) {
    let halves = k / 128;
    assert!(out.len() == t.c * PANEL_ROWS && range.end <= halves && t.quants.len() == t.c * k);
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
        quants: t.quants.as_ptr(),
        scales: t.scales.as_ptr(),
        words: words.as_ptr(),
        out: out.as_mut_ptr(),
    };
    // Number of elements per column in all halves; `before` gives the elements of `columns` columns before the range.
    let per_column = [k, halves, halves * AmxPlanes::<F>::PAIRS, PANEL_ROWS];
    let before = |columns: usize| {
        let halves = range.start * columns;
        at.after(halves * 128, halves, halves * AmxPlanes::<F>::PAIRS, 0)
    };
    // SAFETY: the lengths checked above cover the range's halves and the tile's columns, and the panel has these halves
    // (`# Safety`).
    unsafe {
        if groups > 0 {
            matrices.shape(const { &Shapes::new(COLUMNS, 64) });
            let next = per_column.map(|numbers| numbers * COLUMNS);
            whole_halves::<F>(panel, (range.len(), groups), before(COLUMNS), next, b);
        }
        if rest > 0 {
            let first = per_column.map(|numbers| numbers * groups * COLUMNS);
            let at = before(rest).after(first[0], first[1], first[2], first[3]);
            matrices.shape(&Shapes::new(rest, 64));
            some_halves::<F>(panel, (range.len(), rest), at, b[0]);
        }
    }
}

/// Bytes of a plane of 128 values of 16 rows.
const PLANE: usize = 2 * 1024;

/// Loads the weights of 128 values at `$w`.
macro_rules! read_halves {
    ($f:ident, $w:expr) => {
        let w = $w;
        read!(0, w, 64_usize);
        read!(1, w.add(1024), 64_usize);
        if AmxPlanes::<$f>::PLANES == 2 {
            read!(2, w.add(PLANE), 64_usize);
            read!(3, w.add(PLANE + 1024), 64_usize);
        }
    };
}

/// Multiplies all halves with whole groups of columns. The float operations on the products of one group are
/// interleaved with the products of the next, so that neither waits for the other.
///
/// # Safety
/// The level is supported and configured for whole groups; panel and place have these halves and groups.
#[inline(always)]
unsafe fn whole_halves<F: Superblock>(
    panel: *const u8,
    (halves, groups): (usize, usize),
    at: Place,
    next: [usize; 4],
    b: [*mut i32; 2],
) {
    let pairs = AmxPlanes::<F>::PAIRS * COLUMNS;
    // SAFETY: the level is supported and configured for whole groups (`# Safety`).
    unsafe {
        let (mut w, mut first, mut i) = (panel, at, 0);
        let mut f = AmxScales::of::<F>(w);
        // Addresses of the group whose products were computed before this one.
        let mut before = at;
        let mut b = b;
        // Adds the results of a quarter of the columns.
        macro_rules! quarter {
            ($quarter:literal) => {
                for c in $quarter * 4..($quarter + 1) * 4 {
                    let y = before.out.add(c * PANEL_ROWS);
                    let b = b[1].add(c * PANEL_ROWS);
                    let words = (before.words.add(c), COLUMNS);
                    _mm512_storeu_ps(y, half::<F>(_mm512_loadu_ps(y), &f, b, words, before.scales.add(c)));
                }
            };
        }
        for _ in 0..halves {
            read_halves!(F, w.add(AmxPlanes::<F>::CODES));
            let mut place = first;
            for g in 0..groups {
                zero!(6);
                read!(4, place.quants, 64_usize);
                add!(unsigned, 6, 4, 0);
                if i > 0 {
                    quarter!(0);
                }
                if AmxPlanes::<F>::PLANES == 2 {
                    zero!(7);
                    add!(signed, 7, 4, 2);
                }
                if i > 0 {
                    quarter!(1);
                }
                read!(5, place.quants.wrapping_add(1024), 64_usize);
                add!(unsigned, 6, 5, 1);
                if i > 0 {
                    quarter!(2);
                }
                if AmxPlanes::<F>::PLANES == 2 {
                    add!(signed, 7, 5, 3);
                }
                if i > 0 {
                    quarter!(3);
                }
                write!(6, b[0]);
                if AmxPlanes::<F>::PLANES == 2 {
                    write!(7, b[0].add(COLUMNS * PANEL_ROWS));
                }
                if g == 0 {
                    f = AmxScales::of::<F>(w);
                }
                (before, i) = (place, 1);
                b.swap(0, 1);
                place = place.after(next[0], next[1], next[2], next[3]);
            }
            w = w.wrapping_add(AmxPlanes::<F>::OF_128);
            first = first.after(128 * COLUMNS, COLUMNS, pairs, 0);
        }
        quarter!(0);
        quarter!(1);
        quarter!(2);
        quarter!(3);
    }
}

/// Multiplies all halves with an incomplete group of columns.
///
/// # Safety
/// The level is supported and configured for this number of columns; panel and place have these halves and columns.
#[inline(always)]
unsafe fn some_halves<F: Superblock>(
    panel: *const u8,
    (halves, columns): (usize, usize),
    at: Place,
    b: *mut i32,
) {
    // SAFETY: the level is supported and configured for this number of columns (`# Safety`).
    unsafe {
        let (mut w, mut place) = (panel, at);
        for _ in 0..halves {
            let f = AmxScales::of::<F>(w);
            read_halves!(F, w.add(AmxPlanes::<F>::CODES));
            zero!(6);
            read!(4, place.quants, 64_usize);
            read!(5, place.quants.add(64 * columns), 64_usize);
            add!(unsigned, 6, 4, 0);
            add!(unsigned, 6, 5, 1);
            write!(6, b);
            if AmxPlanes::<F>::PLANES == 2 {
                zero!(7);
                add!(signed, 7, 4, 2);
                add!(signed, 7, 5, 3);
                write!(7, b.add(COLUMNS * PANEL_ROWS));
            }
            for c in 0..columns {
                let y = place.out.add(c * PANEL_ROWS);
                let words = (place.words.add(c), columns);
                let sum =
                    half::<F>(_mm512_loadu_ps(y), &f, b.add(c * PANEL_ROWS), words, place.scales.add(c));
                _mm512_storeu_ps(y, sum);
            }
            w = w.wrapping_add(AmxPlanes::<F>::OF_128);
            place = place.after(128 * columns, columns, AmxPlanes::<F>::PAIRS * columns, 0);
        }
    }
}
