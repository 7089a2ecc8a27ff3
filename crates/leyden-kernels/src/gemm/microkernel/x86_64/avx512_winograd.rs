//! Winograd microkernel ([`winograd`](crate::gemm::unpack::winograd)) on AVX-512.
//!
//! Multiplications and additions must alternate to keep both ports busy: a column's sums of 32 values are scaled just
//! before its next products, and the epilogue of 128 values is computed there too. The compiler would move them
//! together and spill; hence assembly.

use crate::cpu::isa::Level;
use crate::gemm::format::overflow_bounds::i16_limit;
use crate::gemm::format::traits::{Superblock, SuperblockScales};
use crate::gemm::microkernel::common::check;
use crate::gemm::unpack::winograd::CODES;
use crate::quant::packed_a::Tile;
use crate::simd::int::{INTEGERS, IntSimd};
use crate::simd::x86_64::avx512_int::Avx512Int;
use crate::types::PANEL_ROWS;
use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::offset_of;

/// Factors of a finished half of 256 values: the scale of its last block, the float factors, and its minima in pairs.
#[repr(C, align(64))]
struct Last {
    scale: [i32; PANEL_ROWS],
    d: [f32; PANEL_ROWS],
    dmin: [f32; PANEL_ROWS],
    minima: [[i32; PANEL_ROWS]; 2],
}

// Offsets used by the assembly.
const _: () = {
    assert!(offset_of!(Last, scale) == 0 && offset_of!(Last, d) == 64 && offset_of!(Last, dmin) == 128);
    assert!(offset_of!(Last, minima) == 192 && size_of::<[i32; PANEL_ROWS]>() == 64);
};

/// Factors before the first half: they add a negative zero, which changes nothing.
const NONE: Last = Last {
    scale: [0; PANEL_ROWS],
    d: [0.0; PANEL_ROWS],
    dmin: [0.0; PANEL_ROWS],
    minima: [[0; PANEL_ROWS]; 2],
};
static NOTHING: [f32; Level::VECTOR_COLUMNS] = [-0.0; Level::VECTOR_COLUMNS];

/// Addresses of a half's sums of activations and of its scales, for all columns.
#[derive(Clone, Copy)]
struct Columns {
    pairs: *const i32,
    scales: *const f32,
}

/// Adds products to a column's sums `$part`: of `$x` plus four quantised values at `$words`, with `$y` plus the four
/// quantised values 16 values later.
macro_rules! add_products {
    ($part:expr, $x:ident, $y:ident, $words:expr) => {{
        // Variables, because for a discarded output the compiler may choose a byte register.
        let (_a, _b): (__m512i, __m512i);
        asm!(
            "vpbroadcastd {a}, dword ptr [{words} + {first}]",
            "vpbroadcastd {b}, dword ptr [{words} + {last}]",
            "vpaddb {a}, {a}, {x}",
            "vpaddb {b}, {b}, {y}",
            "vpdpbusd {part}, {a}, {b}",
            part = inout(zmm_reg) $part,
            a = out(zmm_reg) _a,
            b = out(zmm_reg) _b,
            x = in(zmm_reg) $x,
            y = in(zmm_reg) $y,
            words = in(reg) $words,
            first = const COLUMN * 4,
            last = const (4 * C + COLUMN) * 4,
            options(readonly, nostack, preserves_flags),
        );
    }};
}

/// Adds the scaled sums `$part` to `$total`, and sets `$part` to its next initial value.
macro_rules! scale_and_begin {
    ($total:expr, $part:expr, $scale:ident, $rows:ident, $acc_init:expr) => {
        asm!(
            "vpdpwssd {total}, {part}, {scale}",
            "vpaddd {part}, {rows}, dword ptr [{acc_init} + {column}]{{1to16}}",
            total = inout(zmm_reg) $total,
            part = inout(zmm_reg) $part,
            scale = in(zmm_reg) $scale,
            rows = in(zmm_reg) $rows,
            acc_init = in(reg) $acc_init,
            column = const COLUMN * 4,
            options(readonly, nostack, preserves_flags),
        )
    };
}

/// Finishes a half of one column or of two: adds its last sums `$s` and its total `$total` to the results at `$out`,
/// and sets the sums to their next initial value. Two columns use the same vectors, which are loaded once.
macro_rules! finish_and_begin {
    (one $total:expr, $s:expr, $last:expr, $of:ident, $out:expr, $rows:ident, $acc_init:expr) => {
        finish_and_begin!(@asm $last, $of, $out, $rows, $acc_init, [_m, m, s, $s[COLUMN], t, $total[COLUMN], 0])
    };
    (two $total:expr, $s:expr, $last:expr, $of:ident, $out:expr, $rows:ident, $acc_init:expr) => {
        finish_and_begin!(
            @asm $last, $of, $out, $rows, $acc_init,
            [_m, m, s, $s[COLUMN], t, $total[COLUMN], 0] [_n, n, p, $s[COLUMN + 1], u, $total[COLUMN + 1], 1]
        )
    };
    (@asm $last:expr, $of:ident, $out:expr, $rows:ident, $acc_init:expr,
     $([$m:ident, $mm:ident, $ss:ident, $s:expr, $tt:ident, $t:expr, $i:literal])*) => {{
        let _v: __m512i;
        $(let $m: __m512i;)*
        asm!(
            "vmovdqa64 {v}, zmmword ptr [{last}]",
            $(concat!("vpdpwssd {", stringify!($tt), "}, {", stringify!($ss), "}, {v}"),)*
            $(concat!(
                "vpaddd {", stringify!($ss), "}, {rows}, dword ptr [{acc_init} + {column} + 4 * ", $i, "]{{1to16}}"
            ),)*
            $(concat!("vpxord {", stringify!($mm), "}, {", stringify!($mm), "}, {", stringify!($mm), "}"),)*
            "vmovdqa64 {v}, zmmword ptr [{last} + 192]",
            $(concat!(
                "vpdpwssd {", stringify!($mm), "}, {v}, dword ptr [{pairs} + {column} + 4 * ", $i, "]{{1to16}}"
            ),)*
            "vmovdqa64 {v}, zmmword ptr [{last} + 256]",
            $(concat!(
                "vpdpwssd {", stringify!($mm), "}, {v}, dword ptr [{pairs} + {second} + 4 * ", $i, "]{{1to16}}"
            ),)*
            $(concat!("vcvtdq2ps {", stringify!($tt), "}, {", stringify!($tt), "}"),)*
            "vmovaps {v}, zmmword ptr [{last} + 64]",
            $(concat!("vmulps {", stringify!($tt), "}, {", stringify!($tt), "}, {v}"),)*
            $(concat!("vcvtdq2ps {", stringify!($mm), "}, {", stringify!($mm), "}"),)*
            "vmovaps {v}, zmmword ptr [{last} + 128]",
            $(concat!("vfnmadd231ps {", stringify!($tt), "}, {", stringify!($mm), "}, {v}"),)*
            $(
                concat!("vmovups {v}, zmmword ptr [{out} + {row} + 64 * ", $i, "]"),
                concat!(
                    "vfmadd231ps {v}, {", stringify!($tt), "}, dword ptr [{scales} + {column} + 4 * ", $i, "]{{1to16}}"
                ),
                concat!("vmovups zmmword ptr [{out} + {row} + 64 * ", $i, "], {v}"),
                concat!("vpxord {", stringify!($tt), "}, {", stringify!($tt), "}, {", stringify!($tt), "}"),
            )*
            v = out(zmm_reg) _v,
            $(
                $mm = out(zmm_reg) $m,
                $ss = inout(zmm_reg) $s,
                $tt = inout(zmm_reg) $t,
            )*
            last = in(reg) $last,
            rows = in(zmm_reg) $rows,
            acc_init = in(reg) $acc_init,
            pairs = in(reg) $of.pairs,
            scales = in(reg) $of.scales,
            out = in(reg) $out,
            column = const COLUMN * 4,
            second = const (C + COLUMN) * 4,
            row = const COLUMN * 4 * PANEL_ROWS,
            options(nostack, preserves_flags),
        );
    }};
}

/// Runs [`finish_and_begin`] before the products of `COLUMN`: for two columns at every second one, for one at the last
/// of an odd number.
macro_rules! finish_if_due {
    ($($arguments:tt)*) => {
        if COLUMN % 2 == 0 && COLUMN + 1 < C {
            finish_and_begin!(two $($arguments)*);
        } else if COLUMN % 2 == 0 {
            finish_and_begin!(one $($arguments)*);
        }
    };
}

/// Runs an expression for every column, with `COLUMN` as its index; `C` is at most the number of indices listed.
macro_rules! each {
    ($e:expr) => {{
        const { assert!(C <= Level::VECTOR_COLUMNS && Level::VECTOR_COLUMNS == 12) };
        each!(@all $e, 0 1 2 3 4 5 6 7 8 9 10 11);
    }};
    (@all $e:expr, $($column:literal)*) => {
        $({
            const COLUMN: usize = $column;
            if COLUMN < C {
                $e;
            }
        })*
    };
}

/// Adds the products of 32 values to each column's sums, initialised by `$begin`.
macro_rules! block {
    ($w:ident, $a:ident, $s:ident, $begin:expr) => {
        for g in 0..4 {
            let (x, y) =
                (_mm512_loadu_si512($w.add(g * 64).cast()), _mm512_loadu_si512($w.add((g + 4) * 64).cast()));
            let words = $a.add(g * C * 4);
            if g == 0 {
                each!({
                    $begin;
                    add_products!($s[COLUMN], x, y, words)
                });
            } else {
                each!(add_products!($s[COLUMN], x, y, words));
            }
        }
    };
}

/// Multiplies a panel of a superblock format with `C` columns of a tile; `microkernel::superblock` defines the result.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn superblocks<F: Superblock, const C: usize>(
    panel: &[u8],
    k: usize,
    t: &Tile<'_>,
    out: &mut [f32],
) {
    const { assert!(F::WINOGRAD && F::PARTS == 1 && F::MINIMUM && !F::SIGNED_SCALES && F::EXACT) };
    let d = Avx512Int::<false>::in_feature_region();
    let n = k / 128;
    check::<Avx512Int>(panel.len(), F::panel_bytes(k), t, k, C, out);
    assert!(t.scales.len() == n * C && t.pairs.len() == n * 2 * C && t.winograd.len() == n * 4 * C);
    assert!(t.overflow_bounds.len() == n);
    let (limit, peak) = const { i16_limit::<F>(false) };
    let out = &mut out[..C * PANEL_ROWS];
    out.fill(0.0);
    let (mut s, mut total) = ([_mm512_setzero_si512(); C], [_mm512_setzero_si512(); C]);
    let nobody = Columns { pairs: t.pairs.as_ptr(), scales: NOTHING.as_ptr() };
    let (mut last, mut of) = (NONE, nobody);
    let zero = _mm512_setzero_si512();
    for i in 0..n {
        // SAFETY: the lengths checked above cover half i of the panel and of the tile, and the pairs and scales of all
        // columns; `out` holds 16 results of each column.
        unsafe {
            let f = F::factors(d, panel.as_ptr(), k, i / 2);
            if t.overflow_bounds[i].sums[peak] > limit {
                let acc_init = t.winograd.as_ptr();
                each!(finish_if_due!(total, s, &raw const last, of, out.as_mut_ptr(), zero, acc_init));
                (last, of) = (NONE, nobody);
                half::<F, C>(d, &f, t, i, out);
                continue;
            }
            let place = |b: usize| {
                let (w, block) = (f.quants.add((i % 2 * 4 + b) * F::BYTES), i * 4 + b);
                let rows = _mm512_loadu_si512(w.add(CODES).cast());
                (w, t.quants.as_ptr().add(block * 32 * C), t.winograd.as_ptr().add(block * C), rows)
            };
            let scale = |b: usize| _mm512_cvtepu8_epi32(F::scale(d, &f, i % 2 * 4 + b));
            let (w, a, acc_init, rows) = place(0);
            block!(w, a, s, finish_if_due!(total, s, &raw const last, of, out.as_mut_ptr(), rows, acc_init));
            for b in 1..4 {
                let before = scale(b - 1);
                let (w, a, acc_init, rows) = place(b);
                block!(w, a, s, scale_and_begin!(total[COLUMN], s[COLUMN], before, rows, acc_init));
            }
            last = Last::new::<F>(d, &f, i);
            of = Columns { pairs: t.pairs.as_ptr().add(i * 2 * C), scales: t.scales.as_ptr().add(i * C) };
        }
    }
    // SAFETY: as above.
    unsafe {
        let acc_init = t.winograd.as_ptr();
        each!(finish_if_due!(total, s, &raw const last, of, out.as_mut_ptr(), zero, acc_init));
    }
    // The initial values for a next half are not read.
    let _ = (total, s);
}

impl Last {
    /// Reads the factors of half `i` of a panel, in superblock `f`.
    ///
    /// # Safety
    /// `f` belongs to the superblock of half `i`.
    #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    #[inline]
    unsafe fn new<F: Superblock>(d: Avx512Int, f: &SuperblockScales<Avx512Int>, i: usize) -> Last {
        let mut last = NONE;
        let first = i % 2 * 4;
        // SAFETY: `f` belongs to the superblock (`# Safety`); each half has four blocks, and every field 16 values.
        unsafe {
            let minima =
                |b: usize| d.pairs(F::minimum(d, f, first + b), F::minimum(d, f, first + b + 1), false);
            let scale = _mm512_cvtepu8_epi32(F::scale(d, f, first + 3));
            _mm512_store_si512(last.scale.as_mut_ptr().cast(), scale);
            _mm512_store_ps(last.d.as_mut_ptr(), f.d);
            _mm512_store_ps(last.dmin.as_mut_ptr(), f.dmin);
            _mm512_store_si512(last.minima[0].as_mut_ptr().cast(), minima(0));
            _mm512_store_si512(last.minima[1].as_mut_ptr().cast(), minima(2));
        }
        last
    }
}

/// Computes a half of 256 values some of whose sums do not fit 16 bits: scales them in floats, exactly, column by
/// column.
///
/// # Safety
/// The panel and the tile have half `i`, `f` belongs to its superblock, and `out` holds 16 results of each column.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
#[inline(never)]
unsafe fn half<F: Superblock, const C: usize>(
    d: Avx512Int,
    f: &SuperblockScales<Avx512Int>,
    t: &Tile<'_>,
    i: usize,
    out: &mut [f32],
) {
    let first = i % 2 * 4;
    for (c, out) in out.as_chunks_mut::<PANEL_ROWS>().0.iter_mut().enumerate() {
        let mut total = _mm512_setzero_ps();
        // SAFETY: the panel and the tile have half `i`, `f` belongs to its superblock, and `out` holds 16 results of
        // each column (`# Safety`).
        unsafe {
            for b in 0..4 {
                let (w, block) = (f.quants.add((first + b) * F::BYTES), i * 4 + b);
                let start = _mm512_set1_epi32(*t.winograd.as_ptr().add(block * C + c));
                let mut sum = _mm512_add_epi32(start, _mm512_loadu_si512(w.add(CODES).cast()));
                let words = t.quants.as_ptr().add(block * 32 * C).cast::<i32>().add(c);
                for g in 0..4 {
                    let code = |g: usize| {
                        let word = _mm512_set1_epi32(words.add(g * C).read_unaligned());
                        _mm512_add_epi8(word, _mm512_loadu_si512(w.add(g * 64).cast()))
                    };
                    sum = _mm512_dpbusd_epi32(sum, code(g), code(g + 4));
                }
                let scale = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(F::scale(d, f, first + b)));
                total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, total);
            }
            let mut minima = _mm512_setzero_si512();
            for p in 0..2 {
                let minimum = |b: usize| F::minimum(d, f, first + 2 * p + b);
                let pairs = d.pairs(minimum(0), minimum(1), false);
                minima = d.add_pairs(minima, pairs, t.pairs.as_ptr().add((i * 2 + p) * C + c));
            }
            let u = d.fnma(d.floats::<INTEGERS>(minima), f.dmin, _mm512_mul_ps(total, f.d));
            let scale = _mm512_set1_ps(*t.scales.as_ptr().add(i * C + c));
            let y = _mm512_fmadd_ps(u, scale, _mm512_loadu_ps(out.as_ptr()));
            _mm512_storeu_ps(out.as_mut_ptr(), y);
        }
    }
}
