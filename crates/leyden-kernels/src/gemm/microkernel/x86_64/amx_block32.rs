//! AMX microkernel of formats with a float scale per 32 values.

use crate::gemm::format::traits::Block32;
use crate::gemm::microkernel::x86_64::amx::{
    COLUMNS, Matrices, PART, Place, Products, Shapes, add, begin, biased, read, unbiased, write, zero,
};
use crate::gemm::unpack::amx_planes::{self, AmxBlocks};
use crate::memory::scratch::Scratch;
use crate::quant::packed_a::Tile;
use crate::simd::int::BIAS;
use crate::simd::x86_64::avx512_int::Avx512Int;
use crate::types::PANEL_ROWS;
use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

/// Scale and minimum of 32 values.
#[derive(Clone, Copy)]
struct Scales {
    d: __m512,
    /// Negated product of [`BIAS`] and the scale: exact, because halves have eleven significant bits.
    share: __m512,
    minimum: __m512,
}

impl Scales {
    /// Reads the scale and minimum at `w`.
    ///
    /// # Safety
    /// AVX-512 is there, and `w` points at 32 values of a panel of [`AmxBlocks`].
    #[inline(always)]
    unsafe fn of<F: Block32>(w: *const u8) -> Scales {
        // SAFETY: AVX-512 is there, and `w` points at 32 values of a panel of `AmxBlocks` (`# Safety`).
        unsafe {
            let d = _mm512_loadu_ps(w.cast());
            let minimum = if F::MINIMUM { _mm512_loadu_ps(w.add(64).cast()) } else { _mm512_setzero_ps() };
            Scales { d, share: _mm512_mul_ps(d, _mm512_set1_ps(-BIAS)), minimum }
        }
    }
}

/// Adds 32 values to the results `y` of one column; `b` holds their products.
///
/// # Safety
/// AVX-512 is there; `b` points at a row of products, `scale` and `sum` at those of the column.
#[inline(always)]
unsafe fn block<F: Block32>(
    y: __m512,
    f: Scales,
    b: *const i32,
    scale: *const f32,
    sum: *const i32,
) -> __m512 {
    // SAFETY: AVX-512 is there; `b` points at a row of products, `scale` and `sum` at those of the column (`# Safety`).
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

/// Multiplies a panel of [`AmxBlocks`] with a tile of any number of columns.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn block32<F: Block32>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    assert!(AmxBlocks::<F>::bytes(k) == Some(panel.len()));
    let out = begin(k, t, out);
    // SAFETY: the panel has all blocks, by the length checked above.
    unsafe { some_of_blocks::<F>(panel.as_ptr(), 0..k / 32, k, t, out) };
}

/// Multiplies a packed panel, unpacked part by part, as [`block32`] does.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn packed_block32<F: Block32>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let (d, out) = (Avx512Int::<false>::in_feature_region(), begin(k, t, out));
    let mut room = Scratch::of(PART / 32 * AmxBlocks::<F>::OF_32);
    for first in (0..k / 32).step_by(PART / 32) {
        let end = (k / 32).min(first + PART / 32);
        let part = &mut room.bytes()[..(end - first) * AmxBlocks::<F>::OF_32];
        amx_planes::block32::<_, F>(d, panel, k, first..end, part);
        // SAFETY: the part has these blocks.
        unsafe { some_of_blocks::<F>(part.as_ptr(), first..end, k, t, out) };
    }
}

/// Adds the products of the blocks in `range`, which begin at `panel`: an even number of blocks, or the panel's last
/// ones.
///
/// # Safety
/// The level is supported; the panel has all blocks of the range.
#[inline(always)]
unsafe fn some_of_blocks<F: Block32>(
    panel: *const u8,
    range: Range<usize>,
    k: usize,
    t: &Tile<'_>,
    out: &mut [f32],
) {
    let (blocks, count) = (k / 32, range.len());
    assert!(out.len() == t.c * PANEL_ROWS && range.end <= blocks && t.quants.len() == t.c * k);
    assert!(t.scales.len() == blocks * t.c && t.sums.len() == blocks * t.c);
    assert!(range.start.is_multiple_of(2) && (count.is_multiple_of(2) || range.end == blocks));
    let matrices = Matrices::new();
    let mut products = Products::new();
    let b = products.places();
    let (groups, rest) = (t.c / COLUMNS, t.c % COLUMNS);
    let at = Place {
        quants: t.quants.as_ptr(),
        scales: t.scales.as_ptr(),
        words: t.sums.as_ptr(),
        out: out.as_mut_ptr(),
    };
    // Number of elements per column in all blocks; `before` gives the elements of `columns` columns before the range.
    let per_column = [k, blocks, blocks, PANEL_ROWS];
    let before = |columns: usize| {
        let blocks = range.start * columns;
        at.after(blocks * 32, blocks, blocks, 0)
    };
    // SAFETY: the lengths checked above cover the range's blocks and the tile's columns, and the panel has these blocks
    // (`# Safety`).
    unsafe {
        if groups > 0 {
            matrices.shape(const { &Shapes::new(COLUMNS, 32) });
            let next = per_column.map(|numbers| numbers * COLUMNS);
            let mut place = (panel, before(COLUMNS));
            place = whole_blocks::<F, 4>(count / 4, groups, place, next, b);
            place = whole_blocks::<F, 2>(count % 4 / 2, groups, place, next, b);
            whole_blocks::<F, 1>(count % 2, groups, place, next, b);
        }
        if rest > 0 {
            let first = per_column.map(|numbers| numbers * groups * COLUMNS);
            let at = before(rest).after(first[0], first[1], first[2], first[3]);
            matrices.shape(&Shapes::new(rest, 32));
            some_blocks::<F>(panel, (count, rest), at, b[0]);
        }
    }
}

/// Multiplies `steps` times `N` blocks (1, 2 or 4) with whole groups of columns, as in `amx_superblock`; returns the
/// addresses of the next blocks. A single block is the last one of an odd number.
///
/// # Safety
/// The level is supported and configured for whole groups; panel and place have these blocks and groups.
#[inline(always)]
unsafe fn whole_blocks<F: Block32, const N: usize>(
    steps: usize,
    groups: usize,
    (panel, at): (*const u8, Place),
    next: [usize; 4],
    b: [*mut i32; 2],
) -> (*const u8, Place) {
    const PRODUCT: usize = COLUMNS * PANEL_ROWS;
    let of_32 = AmxBlocks::<F>::OF_32;
    let stride: usize = if N == 1 { 32 } else { 64 };
    // SAFETY: the level is supported and configured for whole groups (`# Safety`).
    unsafe {
        let (mut w, mut first) = (panel, at);
        if steps == 0 {
            return (w, first);
        }
        let mut f = [Scales::of::<F>(w); N];
        let (mut before, mut b, mut any) = (at, b, false);
        // Adds the results of a quarter of the columns.
        macro_rules! quarter {
            ($quarter:literal) => {
                for c in $quarter * 4..($quarter + 1) * 4 {
                    let out = before.out.add(c * PANEL_ROWS);
                    let mut y = _mm512_loadu_ps(out);
                    for i in 0..N {
                        let (b, at) = (b[1].add(c * PANEL_ROWS + i * PRODUCT), c + i * COLUMNS);
                        y = block::<F>(y, f[i], b, before.scales.add(at), before.words.wrapping_add(at));
                    }
                    _mm512_storeu_ps(out, y);
                }
            };
        }
        for _ in 0..steps {
            let quants = w.add(AmxBlocks::<F>::CODES);
            read!(0, quants, 64_usize);
            if N > 1 {
                read!(1, quants.add(of_32), 64_usize);
            }
            if N > 2 {
                read!(2, quants.add(2 * of_32), 64_usize);
                read!(3, quants.add(3 * of_32), 64_usize);
            }
            let mut place = first;
            for g in 0..groups {
                zero!(6);
                read!(4, place.quants, stride);
                add!(signed, 6, 4, 0);
                if N > 1 {
                    zero!(7);
                    read!(5, place.quants.add(32), stride);
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
                    read!(4, place.quants.add(64 * COLUMNS), stride);
                    add!(signed, 6, 4, 2);
                    zero!(7);
                    read!(5, place.quants.add(64 * COLUMNS + 32), stride);
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

/// Multiplies all blocks with an incomplete group of columns. Quantised activations of two blocks are interleaved;
/// those of an odd last block are not.
///
/// # Safety
/// The level is supported and configured for this number of columns; panel and place have these blocks and columns.
#[inline(always)]
unsafe fn some_blocks<F: Block32>(
    panel: *const u8,
    (blocks, columns): (usize, usize),
    at: Place,
    b: *mut i32,
) {
    // SAFETY: the level is supported and configured for this number of columns (`# Safety`).
    unsafe {
        let (mut w, mut place) = (panel, at);
        for i in 0..blocks {
            let f = Scales::of::<F>(w);
            zero!(6);
            read!(4, place.quants, if i + 1 == blocks && i % 2 == 0 { 32_usize } else { 64 });
            read!(0, w.add(AmxBlocks::<F>::CODES), 64_usize);
            add!(signed, 6, 4, 0);
            write!(6, b);
            for c in 0..columns {
                let out = place.out.add(c * PANEL_ROWS);
                let (scale, sum) = (place.scales.add(c), place.words.add(c));
                _mm512_storeu_ps(out, block::<F>(_mm512_loadu_ps(out), f, b.add(c * PANEL_ROWS), scale, sum));
            }
            w = w.wrapping_add(AmxBlocks::<F>::OF_32);
            place = place.after(if i % 2 == 0 { 32 } else { 64 * columns - 32 }, columns, columns, 0);
        }
    }
}
