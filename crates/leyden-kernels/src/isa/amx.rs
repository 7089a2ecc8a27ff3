//! AMX: products of matrices of int8, up to sixteen columns of a batch by sixteen rows of weights, 64 or 32 values deep.
//!
//! A matrix lies in a register of sixteen rows of 64 bytes, which is read from memory and written to it whole: what is done to sums
//! besides, AVX-512 does to what was written. A processor that multiplies matrices has one unit less for that, so all the sums of
//! 128 values of a format with integer scales are made by the products themselves: of weights times their scales, as a plane of
//! lower bytes and one of upper ones (`matmul::matrices`). Sums are the same integers, and floats in the same order, so the bits
//! are the same as everywhere.
//!
//! The instructions: Intel's Software Developer's Manual, volume 1, chapter 18; permission is asked of Linux as its
//! `Documentation/arch/x86/xstate.rst` says.

use super::avx512_dot::{Avx512Dot, add_products};
use super::dot::{BIAS, BIAS_BITS};
use crate::activations::Tile;
use crate::matmul::family::{Simple, Super};
use crate::matmul::format::ROWS;
use crate::matmul::matrices::{Blocks, Halves, Planes};
use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::LazyLock;

/// Columns that one product takes.
pub(crate) const COLUMNS: usize = 16;

/// Blocks of 32 values, or of 128, that all columns of a tile meet before the next do: so many of the weights stay in the first
/// cache, and sums in registers.
const BLOCKS: usize = 16;
const HALVES: usize = 4;

/// Whether the processor has the instructions and the system lets this process use them. Asked once; what the system grants it grants
/// to every thread.
pub(super) fn detected() -> bool {
    static DETECTED: LazyLock<bool> = LazyLock::new(|| {
        /// AMX's two kinds of state in the mask of those that the system keeps.
        const KEPT: u64 = 1 << 17 | 1 << 18;
        // Of leaf 7: matrices, and their products of int8.
        let features = __cpuid_count(7, 0).edx;
        features >> 24 & 1 == 1 && features >> 25 & 1 == 1 && kept_state() & KEPT == KEPT && permitted()
    });
    *DETECTED
}

/// The mask of the kinds of state that the system keeps; zero where it cannot be read.
fn kept_state() -> u64 {
    // OSXSAVE.
    if __cpuid(1).ecx >> 27 & 1 == 0 {
        return 0;
    }
    let (low, high): (u32, u32);
    // SAFETY: the processor has the instruction.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// Asks Linux for the matrices' state.
fn permitted() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_long = 18;
        // SAFETY: the call takes two numbers and no memory.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    false
}

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

/// Matrices in registers, until dropped. A token that code runs where the processor has them and AVX-512.
struct Matrices(());

impl Matrices {
    /// # Safety
    /// The level was detected.
    #[inline(always)]
    unsafe fn new() -> Matrices {
        Matrices(())
    }

    #[inline(always)]
    fn shape(&self, shapes: &Shapes) {
        // SAFETY: the instruction reads 64 bytes, which describe shapes that there are.
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
struct Products([[i32; 2 * COLUMNS * ROWS]; 2]);

/// The columns of a tile that are multiplied together: what [`Tile`] has of each, `[..][columns]`.
#[derive(Clone, Copy)]
struct Group<'a> {
    columns: usize,
    codes: &'a [i8],
    scales: &'a [f32],
    sums: &'a [i32],
    pairs: &'a [i32],
}

impl<'a> Group<'a> {
    /// The group from column `first` on of a tile of depth `k`.
    #[inline(always)]
    fn of(t: &Tile<'a>, k: usize, first: usize) -> Group<'a> {
        let end = t.c.min(first + COLUMNS);
        let at = |len: usize| len / t.c * first..len / t.c * end;
        Group {
            columns: end - first,
            codes: &t.codes[first * k..end * k],
            scales: &t.scales[at(t.scales.len())],
            sums: &t.sums[at(t.sums.len())],
            pairs: &t.pairs[at(t.pairs.len())],
        }
    }
}

/// Scales and minima of 128 values.
#[derive(Clone, Copy)]
struct Factors {
    d: __m512,
    dmin: __m512,
    /// Of [`Halves`]; as many as there are.
    minima: *const u8,
}

/// Integers below 2^22 in magnitude plus [`BIAS`], exactly. By additions, as these do not wait for the multiplier.
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
    f: Factors,
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
                let pairs = _mm512_loadu_si512(f.minima.add(i * 64).cast());
                m = add_products(m, pairs, words.add(i * stride));
            }
            u = _mm512_fnmadd_ps(unbiased(_mm512_castsi512_ps(m)), f.dmin, u);
        }
        _mm512_fmadd_ps(u, _mm512_set1_ps(*scale), y)
    }
}

/// Multiplies a panel of [`Halves`] with a tile of any number of columns.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn superblocks<F: Super>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let halves = k / 128;
    assert!(
        Halves::<F>::bytes(k) == Some(panel.len()) && out.len() >= t.c * ROWS && t.codes.len() == t.c * k
    );
    assert!(
        t.scales.len() == halves * t.c
            && t.sums.len() == halves * 4 * t.c
            && t.pairs.len() == halves * 2 * t.c
    );
    // SAFETY: only a Tier of this level gets here.
    let matrices = unsafe { Matrices::new() };
    let mut products = Products([[0; _]; 2]);
    let b = products.0.each_mut().map(|of| of.as_mut_ptr());
    let whole = t.c / COLUMNS;
    if whole > 0 {
        matrices.shape(const { &Shapes::new(COLUMNS, 64) });
        for first in (0..halves).step_by(HALVES) {
            for g in 0..whole {
                let group = Group::of(t, k, g * COLUMNS);
                let out = &mut out[g * COLUMNS * ROWS..][..COLUMNS * ROWS];
                // SAFETY: the lengths checked above cover the group and the panel's halves.
                unsafe { whole_halves::<F>(panel, group, first, HALVES.min(halves - first), b, out) };
            }
        }
    }
    if !t.c.is_multiple_of(COLUMNS) {
        let group = Group::of(t, k, whole * COLUMNS);
        let out = &mut out[whole * COLUMNS * ROWS..][..group.columns * ROWS];
        matrices.shape(&Shapes::new(group.columns, 64));
        // SAFETY: as above.
        unsafe { some_halves::<F>(panel, group, halves, b[0], out) };
    }
}

/// Where 128 values of a group lie: activations, scales, and the words that minima are multiplied with.
///
/// # Safety
/// The group has them.
#[inline(always)]
unsafe fn place<F: Super>(g: Group<'_>, half: usize) -> (*const i8, *const f32, *const i32) {
    let c = g.columns;
    let words = if F::PARTS == 1 { g.pairs } else { g.sums };
    // SAFETY: the caller's promise.
    unsafe {
        let words = words.as_ptr().add(half * Halves::<F>::PAIRS * c);
        (g.codes.as_ptr().add(half * 128 * c), g.scales.as_ptr().add(half * c), words)
    }
}

/// The factors of 128 values at `w`.
///
/// # Safety
/// AVX-512 is there, and `w` points at 128 values of a panel.
#[inline(always)]
unsafe fn factors<F: Super>(w: *const u8) -> Factors {
    // SAFETY: the caller's promise.
    unsafe {
        Factors {
            d: _mm512_loadu_ps(w.cast()),
            dmin: if F::MINIMUM { _mm512_loadu_ps(w.add(64).cast()) } else { _mm512_setzero_ps() },
            minima: w.add(Halves::<F>::MINIMA),
        }
    }
}

/// Some halves with a whole group. What is done to the products of one stands between the products of the next, so that neither waits
/// for the other.
///
/// # Safety
/// The level and shapes of whole groups are there; panel and group have the halves.
#[inline(always)]
unsafe fn whole_halves<F: Super>(
    panel: &[u8],
    g: Group<'_>,
    first: usize,
    count: usize,
    b: [*mut i32; 2],
    out: &mut [f32],
) {
    const PLANE: usize = 2 * 1024;
    // SAFETY: the caller's promise.
    unsafe {
        let mut y = [_mm512_setzero_ps(); COLUMNS];
        if first > 0 {
            for (c, y) in y.iter_mut().enumerate() {
                *y = _mm512_loadu_ps(out.as_ptr().add(c * ROWS));
            }
        }
        // The results of a quarter of the columns.
        macro_rules! quarter {
            ($half:expr, $quarter:literal) => {
                let half_ = first + $half;
                let f = factors::<F>(panel.as_ptr().add(half_ * Halves::<F>::OF_128));
                let (_, scales, words) = place::<F>(g, half_);
                for c in $quarter * 4..($quarter + 1) * 4 {
                    let b = b[$half % 2].add(c * ROWS);
                    y[c] = half::<F>(y[c], f, b, (words.add(c), COLUMNS), scales.add(c));
                }
            };
        }
        for i in 0..count {
            let w = panel.as_ptr().add((first + i) * Halves::<F>::OF_128 + Halves::<F>::CODES);
            let (a, ..) = place::<F>(g, first + i);
            let b = b[i % 2];
            zero!(6);
            read!(4, a, 64_usize);
            read!(0, w, 64_usize);
            add!(unsigned, 6, 4, 0);
            if Halves::<F>::PLANES == 2 {
                zero!(7);
                read!(2, w.add(PLANE), 64_usize);
                add!(signed, 7, 4, 2);
            }
            if i > 0 {
                quarter!(i - 1, 0);
                quarter!(i - 1, 1);
            }
            read!(5, a.add(1024), 64_usize);
            read!(1, w.add(1024), 64_usize);
            add!(unsigned, 6, 5, 1);
            if Halves::<F>::PLANES == 2 {
                read!(3, w.add(PLANE + 1024), 64_usize);
                add!(signed, 7, 5, 3);
            }
            if i > 0 {
                quarter!(i - 1, 2);
                quarter!(i - 1, 3);
            }
            write!(6, b);
            if Halves::<F>::PLANES == 2 {
                write!(7, b.add(COLUMNS * ROWS));
            }
        }
        quarter!(count - 1, 0);
        quarter!(count - 1, 1);
        quarter!(count - 1, 2);
        quarter!(count - 1, 3);
        for (c, y) in y.iter().enumerate() {
            _mm512_storeu_ps(out.as_mut_ptr().add(c * ROWS), *y);
        }
    }
}

/// All halves with a group of fewer columns.
///
/// # Safety
/// The level and shapes of so many columns are there; panel and group have the halves.
#[inline(always)]
unsafe fn some_halves<F: Super>(panel: &[u8], g: Group<'_>, halves: usize, b: *mut i32, out: &mut [f32]) {
    const PLANE: usize = 2 * 1024;
    out.fill(0.0);
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..halves {
            let all = panel.as_ptr().add(i * Halves::<F>::OF_128);
            let (w, f) = (all.add(Halves::<F>::CODES), factors::<F>(all));
            let (a, scales, words) = place::<F>(g, i);
            zero!(6);
            read!(4, a, 64_usize);
            read!(5, a.add(64 * g.columns), 64_usize);
            read!(0, w, 64_usize);
            add!(unsigned, 6, 4, 0);
            read!(1, w.add(1024), 64_usize);
            add!(unsigned, 6, 5, 1);
            write!(6, b);
            if Halves::<F>::PLANES == 2 {
                zero!(7);
                read!(2, w.add(PLANE), 64_usize);
                add!(signed, 7, 4, 2);
                read!(3, w.add(PLANE + 1024), 64_usize);
                add!(signed, 7, 5, 3);
                write!(7, b.add(COLUMNS * ROWS));
            }
            for (c, out) in out.as_chunks_mut::<ROWS>().0.iter_mut().enumerate() {
                let y = _mm512_loadu_ps(out.as_ptr());
                let y = half::<F>(y, f, b.add(c * ROWS), (words.add(c), g.columns), scales.add(c));
                _mm512_storeu_ps(out.as_mut_ptr(), y);
            }
        }
    }
}

/// One column's results: `y` and what 32 values add to it, of products at `b`, with a scale and a minimum for every row.
///
/// # Safety
/// AVX-512 is there, `b` points at a row of products, `scale` and `sum` at the column's.
#[inline(always)]
unsafe fn block<F: Simple>(
    y: __m512,
    (d, minimum): (__m512, __m512),
    b: *const i32,
    scale: *const f32,
    sum: *const i32,
) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let mut u = _mm512_mul_ps(unbiased(biased(_mm512_loadu_si512(b.cast()))), d);
        if F::MINIMUM {
            u = _mm512_fmadd_ps(minimum, unbiased(biased(_mm512_set1_epi32(*sum))), u);
        }
        _mm512_fmadd_ps(u, _mm512_set1_ps(*scale), y)
    }
}

/// Scale and minimum of 32 values at `w`.
///
/// # Safety
/// AVX-512 is there, and `w` points at 32 values of a panel.
#[inline(always)]
unsafe fn scales<F: Simple>(w: *const u8) -> (__m512, __m512) {
    // SAFETY: the caller's promise.
    unsafe {
        let minimum = if F::MINIMUM { _mm512_loadu_ps(w.add(64).cast()) } else { _mm512_setzero_ps() };
        (_mm512_loadu_ps(w.cast()), minimum)
    }
}

/// Multiplies a panel of [`Blocks`] with a tile of any number of columns.
#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn simple<F: Simple>(panel: &[u8], k: usize, t: &Tile<'_>, out: &mut [f32]) {
    let blocks = k / 32;
    assert!(
        Blocks::<F>::bytes(k) == Some(panel.len()) && out.len() >= t.c * ROWS && t.codes.len() == t.c * k
    );
    assert!(t.scales.len() == blocks * t.c && t.sums.len() == blocks * t.c);
    // SAFETY: only a Tier of this level gets here.
    let matrices = unsafe { Matrices::new() };
    let mut products = Products([[0; _]; 2]);
    let b = products.0.each_mut().map(|of| of.as_mut_ptr());
    let whole = t.c / COLUMNS;
    if whole > 0 {
        matrices.shape(const { &Shapes::new(COLUMNS, 32) });
        for first in (0..blocks).step_by(BLOCKS) {
            for g in 0..whole {
                let group = Group::of(t, k, g * COLUMNS);
                let out = &mut out[g * COLUMNS * ROWS..][..COLUMNS * ROWS];
                // SAFETY: the lengths checked above cover the group and the panel's blocks.
                unsafe { whole_blocks::<F>(panel, group, blocks, first, BLOCKS.min(blocks - first), b, out) };
            }
        }
    }
    if !t.c.is_multiple_of(COLUMNS) {
        let group = Group::of(t, k, whole * COLUMNS);
        let out = &mut out[whole * COLUMNS * ROWS..][..group.columns * ROWS];
        matrices.shape(&Shapes::new(group.columns, 32));
        // SAFETY: as above.
        unsafe { some_blocks::<F>(panel, group, blocks, b[0], out) };
    }
}

/// Where the activations of block `i` of a group lie, and how far apart columns are: those of two blocks lie side by side, and those
/// of an odd last one alone.
///
/// # Safety
/// The group has the block.
#[inline(always)]
unsafe fn activations(g: Group<'_>, blocks: usize, i: usize) -> (*const i8, usize) {
    // SAFETY: the caller's promise.
    let pair = unsafe { g.codes.as_ptr().add(i / 2 * 64 * g.columns) };
    if i + 1 == blocks && i.is_multiple_of(2) { (pair, 32) } else { (pair.wrapping_add(i % 2 * 32), 64) }
}

/// Some blocks with a whole group, as [`whole_halves`].
///
/// # Safety
/// The level and shapes of whole groups are there; panel and group have the blocks.
#[inline(always)]
unsafe fn whole_blocks<F: Simple>(
    panel: &[u8],
    g: Group<'_>,
    blocks: usize,
    first: usize,
    count: usize,
    b: [*mut i32; 2],
    out: &mut [f32],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut y = [_mm512_setzero_ps(); COLUMNS];
        if first > 0 {
            for (c, y) in y.iter_mut().enumerate() {
                *y = _mm512_loadu_ps(out.as_ptr().add(c * ROWS));
            }
        }
        macro_rules! columns {
            ($block:expr, $from:expr) => {
                let i = first + $block;
                let factors = scales::<F>(panel.as_ptr().add(i * Blocks::<F>::OF_32));
                let (scales, sums) = (g.scales.as_ptr().add(i * COLUMNS), g.sums.as_ptr().add(i * COLUMNS));
                for c in 0..COLUMNS {
                    y[c] = block::<F>(y[c], factors, $from.add(c * ROWS), scales.add(c), sums.add(c));
                }
            };
        }
        // Two blocks a step, each in half of what products of a step are written to.
        let steps = count.div_ceil(2);
        for step in 0..steps {
            let i = first + 2 * step;
            let w = panel.as_ptr().add(i * Blocks::<F>::OF_32 + Blocks::<F>::CODES);
            let (a, stride) = activations(g, blocks, i);
            let to = b[step % 2];
            let before = b[(step + 1) % 2];
            zero!(6);
            read!(4, a, stride);
            read!(0, w, 64_usize);
            add!(signed, 6, 4, 0);
            write!(6, to);
            if step > 0 {
                columns!(2 * step - 2, before);
            }
            if 2 * step + 1 < count {
                let w = w.add(Blocks::<F>::OF_32);
                let (a, stride) = activations(g, blocks, i + 1);
                zero!(7);
                read!(5, a, stride);
                read!(1, w, 64_usize);
                add!(signed, 7, 5, 1);
                write!(7, to.add(COLUMNS * ROWS));
            }
            if step > 0 {
                columns!(2 * step - 1, before.add(COLUMNS * ROWS));
            }
        }
        let last = b[(steps + 1) % 2];
        columns!(2 * steps - 2, last);
        if count.is_multiple_of(2) {
            columns!(2 * steps - 1, last.add(COLUMNS * ROWS));
        }
        for (c, y) in y.iter().enumerate() {
            _mm512_storeu_ps(out.as_mut_ptr().add(c * ROWS), *y);
        }
    }
}

/// All blocks with a group of fewer columns.
///
/// # Safety
/// The level and shapes of so many columns are there; panel and group have the blocks.
#[inline(always)]
unsafe fn some_blocks<F: Simple>(panel: &[u8], g: Group<'_>, blocks: usize, b: *mut i32, out: &mut [f32]) {
    out.fill(0.0);
    // SAFETY: the caller's promise.
    unsafe {
        for i in 0..blocks {
            let all = panel.as_ptr().add(i * Blocks::<F>::OF_32);
            let (a, stride) = activations(g, blocks, i);
            zero!(6);
            read!(4, a, stride);
            read!(0, all.add(Blocks::<F>::CODES), 64_usize);
            add!(signed, 6, 4, 0);
            write!(6, b);
            let factors = scales::<F>(all);
            let (scales, sums) = (g.scales.as_ptr().add(i * g.columns), g.sums.as_ptr().add(i * g.columns));
            for (c, out) in out.as_chunks_mut::<ROWS>().0.iter_mut().enumerate() {
                let y = _mm512_loadu_ps(out.as_ptr());
                let y = block::<F>(y, factors, b.add(c * ROWS), scales.add(c), sums.add(c));
                _mm512_storeu_ps(out.as_mut_ptr(), y);
            }
        }
    }
}

impl Planes for Avx512Dot {
    #[inline(always)]
    fn planes(self, codes: __m512i, scales: __m512i) -> [__m512i; 2] {
        // SAFETY: the token proves the features.
        unsafe {
            let low = _mm512_set1_epi16(0xff);
            // The first and third of each row's four, and the second and fourth.
            let even = _mm512_mullo_epi16(_mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(codes)), scales);
            let odd = _mm512_mullo_epi16(_mm512_srai_epi16::<8>(codes), scales);
            [
                _mm512_or_si512(_mm512_and_si512(even, low), _mm512_slli_epi16::<8>(odd)),
                _mm512_or_si512(_mm512_srli_epi16::<8>(even), _mm512_andnot_si512(low, odd)),
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
    // SAFETY: the caller's promise.
    let matrices = unsafe { Matrices::new() };
    matrices.shape(const { &Shapes::new(COLUMNS, 64) });
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
