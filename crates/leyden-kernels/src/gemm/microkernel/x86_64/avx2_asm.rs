//! Product of a chunk of a panel with a tile's five or six columns on AVX2, and the epilogue of its sums.
//!
//! Sums of 16 rows and six columns take twelve of the sixteen registers, quantised values two, and the other two hold
//! an activation and a product. The compiler would spill more of them, hence assembly. Products of four steps are a
//! loop.

use crate::cpu::isa::AccInit;
use crate::simd::x86_64::avx2_int::V;
use std::arch::asm;

/// Epilogue of a chunk. `SUMS`: store the sums. `RESULTS`: convert them to floats and add them to the results.
/// `LESS_TWO`, `LESS_FOUR`: also subtract minima, two or four vectors with a pair of minima per lane. `MORE`: also add
/// float minima, one per row.
pub(super) const SUMS: usize = 0;
pub(super) const RESULTS: usize = 1;
pub(super) const LESS_TWO: usize = 2;
pub(super) const LESS_FOUR: usize = 3;
pub(super) const MORE: usize = 4;

/// Stride of the sums of activations, in values per column, between pairs of blocks of 16.
const ACC_INIT: usize = AccInit::Lanes.of_block();

/// Assembly of one step of a column.
macro_rules! column {
    (first $multiply:literal, $c:literal, $low:literal, $high:literal) => {
        concat!(
            concat!("vpbroadcastd ymm15, dword ptr [{a} + 4 * ", $c, "]\n"),
            concat!($multiply, " ymm", $low, ", ymm12, ymm15\n"),
            concat!($multiply, " ymm", $high, ", ymm13, ymm15\n"),
        )
    };
    (begin $c:literal, $low:literal, $high:literal) => {
        concat!(
            concat!("vpbroadcastd ymm", $low, ", dword ptr [{words} + 4 * ", $c, "]\n"),
            concat!("vpmullw ymm", $low, ", ymm", $low, ", ymm14\n"),
            concat!("vmovdqa ymm", $high, ", ymm", $low, "\n"),
        )
    };
    ($multiply:literal, $add:literal, $columns:literal, $step:literal, $c:literal, $low:literal, $high:literal) => {
        concat!(
            concat!(
                "vpbroadcastd ymm15, dword ptr [{a} + 4 * ",
                $columns,
                " * ",
                $step,
                " + 4 * ",
                $c,
                "]\n"
            ),
            concat!($multiply, " ymm14, ymm12, ymm15\n"),
            concat!($multiply, " ymm15, ymm13, ymm15\n"),
            concat!($add, " ymm", $low, ", ymm", $low, ", ymm14\n"),
            concat!($add, " ymm", $high, ", ymm", $high, ", ymm15\n"),
        )
    };
    (scale $low:literal) => {
        concat!("vpmaddwd ymm", $low, ", ymm", $low, ", ymm12\n")
    };
    (scale_high $high:literal) => {
        concat!("vpmaddwd ymm", $high, ", ymm", $high, ", ymm13\n")
    };
    (add $c:literal, $low:literal, $high:literal) => {
        concat!(
            concat!("vpaddd ymm", $low, ", ymm", $low, ", ymmword ptr [{before} + 64 * ", $c, "]\n"),
            concat!("vpaddd ymm", $high, ", ymm", $high, ", ymmword ptr [{before} + 64 * ", $c, " + 32]\n"),
        )
    };
    (write $c:literal, $low:literal, $high:literal) => {
        concat!(
            concat!("vmovdqa ymmword ptr [{out} + 64 * ", $c, "], ymm", $low, "\n"),
            concat!("vmovdqa ymmword ptr [{out} + 64 * ", $c, " + 32], ymm", $high, "\n"),
        )
    };
    (float $low:literal, $high:literal) => {
        concat!(
            concat!("vcvtdq2ps ymm", $low, ", ymm", $low, "\n"),
            concat!("vcvtdq2ps ymm", $high, ", ymm", $high, "\n"),
            concat!("vmulps ymm", $low, ", ymm", $low, ", ymm12\n"),
            concat!("vmulps ymm", $high, ", ymm", $high, ", ymm13\n"),
        )
    };
    // Minima times sums of activations: of the first two blocks, and of the others.
    (minima $c:literal) => {
        concat!(
            concat!("vpbroadcastd ymm12, dword ptr [{words} + 4 * ", $c, "]\n"),
            "vpmaddwd ymm13, ymm12, ymmword ptr [{minima} + 32]\n",
            "vpmaddwd ymm12, ymm12, ymmword ptr [{minima}]\n",
        )
    };
    (minima $columns:literal, $c:literal, $pair:literal) => {
        concat!(
            concat!(
                "vpbroadcastd ymm14, dword ptr [{words} + 4 * {stride} * ",
                $columns,
                " * ",
                $pair,
                " + 4 * ",
                $c,
                "]\n"
            ),
            concat!("vpmaddwd ymm15, ymm14, ymmword ptr [{minima} + 64 * ", $pair, " + 32]\n"),
            concat!("vpmaddwd ymm14, ymm14, ymmword ptr [{minima} + 64 * ", $pair, "]\n"),
            "vpaddd ymm13, ymm13, ymm15\n",
            "vpaddd ymm12, ymm12, ymm14\n",
        )
    };
    (less $low:literal, $high:literal) => {
        concat!(
            "vcvtdq2ps ymm12, ymm12\n",
            "vcvtdq2ps ymm13, ymm13\n",
            concat!("vfnmadd231ps ymm", $low, ", ymm12, ymmword ptr [{p} + 64]\n"),
            concat!("vfnmadd231ps ymm", $high, ", ymm13, ymmword ptr [{p} + 96]\n"),
        )
    };
    (more $c:literal, $low:literal, $high:literal) => {
        concat!(
            concat!("vpbroadcastd ymm12, dword ptr [{words} + 4 * ", $c, "]\n"),
            "vcvtdq2ps ymm12, ymm12\n",
            concat!("vfmadd231ps ymm", $low, ", ymm12, ymmword ptr [{minima}]\n"),
            concat!("vfmadd231ps ymm", $high, ", ymm12, ymmword ptr [{minima} + 32]\n"),
        )
    };
    (results $c:literal, $low:literal, $high:literal) => {
        concat!(
            concat!("vbroadcastss ymm14, dword ptr [{by} + 4 * ", $c, "]\n"),
            concat!("vfmadd213ps ymm", $low, ", ymm14, ymmword ptr [{out} + 64 * ", $c, "]\n"),
            concat!("vfmadd213ps ymm", $high, ", ymm14, ymmword ptr [{out} + 64 * ", $c, " + 32]\n"),
            concat!("vmovups ymmword ptr [{out} + 64 * ", $c, "], ymm", $low, "\n"),
            concat!("vmovups ymmword ptr [{out} + 64 * ", $c, " + 32], ymm", $high, "\n"),
        )
    };
}

/// Assembly that loads the quantised values of a step.
macro_rules! quants {
    ($step:literal) => {
        concat!(
            concat!("vmovdqu ymm12, ymmword ptr [{w} + 64 * ", $step, "]\n"),
            concat!("vmovdqu ymm13, ymmword ptr [{w} + 64 * ", $step, " + 32]\n"),
        )
    };
}

/// Operands of a chunk: weights, activations, and data of its epilogue.
#[derive(Clone, Copy)]
pub(super) struct Chunk {
    /// Quantised values, `[step][16][4 bytes]`; `a` are activations, `[step][columns][4 bytes]`.
    pub(super) w: *const u8,
    pub(super) a: *const i8,
    /// One word per column: the sums' initial value (times `offset`), or the factor of the minima.
    pub(super) words: *const i32,
    pub(super) offset: i32,
    /// Pairs of integer scales of the sums.
    pub(super) scales: *const u8,
    /// Sums to add after scaling, two 32-byte-aligned vectors per column.
    pub(super) before: *const V,
    /// Float factors of the rows, followed at 64 bytes by those of the minima; `minima` are the minima.
    pub(super) p: *const u8,
    pub(super) minima: *const u8,
    /// Scales of the columns.
    pub(super) by: *const f32,
    /// Destination of the sums, laid out as `before`; or results of the columns, to which floats are added.
    pub(super) out: *mut u8,
}

/// Defines a function that multiplies `STEPS` steps, a multiple of four, with a panel of one k-group per lane.
macro_rules! chunk {
    ($name:ident, $multiply:literal, $add:literal, $columns:literal: $($c:literal $low:literal $high:literal),*) => {
        /// # Safety
        /// The processor has AVX2 and FMA; all addresses are valid for the accesses made.
        #[target_feature(enable = "avx2,fma")]
        #[inline]
        unsafe fn $name<const STEPS: usize, const BEGIN: bool, const SCALE: bool, const ADD: bool, const END: usize>(
            of: Chunk,
        ) {
            const { assert!(STEPS.is_multiple_of(4) && STEPS > 0) };
            // SAFETY: the trait method's `# Safety`.
            unsafe {
                asm!(
                    quants!(0),
                    ".if {begin}",
                    "vmovd xmm14, {offset:e}",
                    "vpbroadcastw ymm14, xmm14",
                    $(column!(begin $c, $low, $high),)*
                    $(column!($multiply, $add, $columns, 0, $c, $low, $high),)*
                    ".else",
                    $(column!(first $multiply, $c, $low, $high),)*
                    ".endif",
                    quants!(1),
                    $(column!($multiply, $add, $columns, 1, $c, $low, $high),)*
                    quants!(2),
                    $(column!($multiply, $add, $columns, 2, $c, $low, $high),)*
                    quants!(3),
                    $(column!($multiply, $add, $columns, 3, $c, $low, $high),)*
                    ".if {rest}",
                    "mov {n:e}, {rest}",
                    "2:",
                    "add {w}, 256",
                    concat!("add {a}, 16 * ", $columns),
                    quants!(0),
                    $(column!($multiply, $add, $columns, 0, $c, $low, $high),)*
                    quants!(1),
                    $(column!($multiply, $add, $columns, 1, $c, $low, $high),)*
                    quants!(2),
                    $(column!($multiply, $add, $columns, 2, $c, $low, $high),)*
                    quants!(3),
                    $(column!($multiply, $add, $columns, 3, $c, $low, $high),)*
                    "dec {n:e}",
                    "jnz 2b",
                    ".endif",
                    ".if {scale}",
                    "vmovdqu ymm12, ymmword ptr [{scales}]",
                    "vmovdqu ymm13, ymmword ptr [{scales} + 32]",
                    $(column!(scale $low), column!(scale_high $high),)*
                    ".endif",
                    ".if {add}",
                    $(column!(add $c, $low, $high),)*
                    ".endif",
                    ".if {end}",
                    "vmovups ymm12, ymmword ptr [{p}]",
                    "vmovups ymm13, ymmword ptr [{p} + 32]",
                    $(column!(float $low, $high),)*
                    $(
                        ".if ({end} - 2) * ({end} - 3) == 0",
                        column!(minima $c),
                        column!(minima $columns, $c, 1),
                        ".if {end} == 3",
                        column!(minima $columns, $c, 2),
                        column!(minima $columns, $c, 3),
                        ".endif",
                        column!(less $low, $high),
                        ".endif",
                        ".if {end} == 4",
                        column!(more $c, $low, $high),
                        ".endif",
                        column!(results $c, $low, $high),
                    )*
                    ".else",
                    $(column!(write $c, $low, $high),)*
                    ".endif",
                    w = inout(reg) of.w => _,
                    a = inout(reg) of.a => _,
                    n = out(reg) _,
                    words = in(reg) of.words,
                    offset = in(reg) of.offset,
                    scales = in(reg) of.scales,
                    before = in(reg) of.before,
                    p = in(reg) of.p,
                    minima = in(reg) of.minima,
                    by = in(reg) of.by,
                    out = in(reg) of.out,
                    begin = const BEGIN as usize,
                    scale = const SCALE as usize,
                    add = const ADD as usize,
                    end = const END,
                    stride = const if END == LESS_FOUR { ACC_INIT } else { 1 },
                    rest = const STEPS / 4 - 1,
                    out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _,
                    out("ymm4") _, out("ymm5") _, out("ymm6") _, out("ymm7") _,
                    out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                    out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _,
                    options(nostack)
                );
            }
        }
    };
}

chunk!(bytes_by_5, "vpmaddubsw", "vpaddw", 5: 0 0 1, 1 2 3, 2 4 5, 3 6 7, 4 8 9);
chunk!(bytes_by_6, "vpmaddubsw", "vpaddw", 6: 0 0 1, 1 2 3, 2 4 5, 3 6 7, 4 8 9, 5 10 11);
chunk!(words_by_5, "vpmaddwd", "vpaddd", 5: 0 0 1, 1 2 3, 2 4 5, 3 6 7, 4 8 9);
chunk!(words_by_6, "vpmaddwd", "vpaddd", 6: 0 0 1, 1 2 3, 2 4 5, 3 6 7, 4 8 9, 5 10 11);

/// Calls the function of [`chunk`] for `C` columns.
///
/// # Safety
/// As in [`chunk`].
#[inline(always)]
pub(super) unsafe fn multiply<
    const WORDS: bool,
    const C: usize,
    const STEPS: usize,
    const BEGIN: bool,
    const SCALE: bool,
    const ADD: bool,
    const END: usize,
>(
    of: Chunk,
) {
    const { assert!(C == 5 || C == 6) };
    // SAFETY: as in `chunk` (`# Safety`).
    unsafe {
        match (WORDS, C) {
            (false, 5) => bytes_by_5::<STEPS, BEGIN, SCALE, ADD, END>(of),
            (false, _) => bytes_by_6::<STEPS, BEGIN, SCALE, ADD, END>(of),
            (true, 5) => words_by_5::<STEPS, BEGIN, SCALE, ADD, END>(of),
            (true, _) => words_by_6::<STEPS, BEGIN, SCALE, ADD, END>(of),
        }
    }
}
