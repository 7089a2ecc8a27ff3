//! Microkernel of superblock formats (K-quants, IQ4_XS): integer scales per 16 or 32 values and float factors per 256.
//! Written once for all formats ([`Superblock`]) and instruction sets ([`IntSimd`]).
//!
//! The scalar tile beside each format defines the result. Integer sums are exact, so their order does not matter; the
//! float operations are those of the definition, one chain per row.

use crate::cpu::isa::AccInit;
use crate::gemm::format::overflow_bounds::{NO_NORMS, OF_BLOCKS, OF_TOTALS, i16_limit, norms_of};
use crate::gemm::format::traits::{A, QuantFormat, Superblock, SuperblockScales};
use crate::gemm::microkernel::common::{check, codes_at, steps};
use crate::gemm::unpack::stream::{Stream, zero_point_in_acc_init};
use crate::quant::packed_a::Tile;
use crate::simd::align_spilled;
use crate::simd::int::{FLOATS, INTEGERS, IntSimd, WORDS};
use crate::types::PANEL_ROWS;
use std::ops::Range;
use std::sync::atomic::{Ordering, compiler_fence};

/// Limit on the product of two sums of squares, of the weights and of the activations of three blocks: below it every
/// sum of their products is at most 2^24 (Cauchy-Schwarz) and so exact in floats. 2^48, reduced by the rounding error
/// of the two sums. The sum of four blocks is then rounded once, like the integer sum.
const EXACT: f32 = 0.999 * (1_u64 << 48) as f32;

/// Limit on the same product for one block: below it every sum of the block's products fits 16 bits.
const NARROW: f32 = 0.999 * (i16::MAX as f32) * (i16::MAX as f32);

/// Multiplies a panel of a superblock format, or as many panels as `D` takes together, with `C * D::COLUMNS` columns of
/// a tile.
#[inline(always)]
pub(crate) fn superblocks<D: IntSimd, F: Superblock, const SIGNED: bool, const HOW: u8, const C: usize>(
    d: D,
    panel: &[u8],
    k: usize,
    t: &Tile<'_>,
    out: &mut [f32],
) {
    align_spilled();
    let (n, columns) = (k / 128, d.of::<C>());
    check::<D>(panel.len(), F::panel_bytes(k), t, k, columns, out);
    assert!(t.scales.len() == n * columns && t.sums.len() == n * 4 * columns);
    assert!(t.pairs.len() == n * 2 * columns);
    // The correction of a shift or zero point is either the sums' initial value, or subtracted with the scaled sums of
    // activations.
    let acc_init = match D::ACC_INIT {
        AccInit::Shift if F::UNPACKED => SIGNED || F::ZERO != 0,
        AccInit::Shift => const { zero_point_in_acc_init::<D, F, C>() },
        _ => false,
    };
    assert!(!acc_init || t.acc_init.len() == k / 32 * D::ACC_INIT.of_block() * columns);
    // Sums fit 16 bits because of the format, or by a look at the tile's bounds. With few tokens the look does not pay:
    // most instructions then handle weights.
    let (limit, peak) =
        if acc_init { const { i16_limit::<F>(true) } } else { const { i16_limit::<F>(false) } };
    let always = D::WORDS && limit >= 32 / F::PARTS as i32 * A;
    let look = D::WORDS && !always && C > 2 && limit > 32 / F::PARTS as i32 * A / 8;
    // Otherwise the bounds of tile and panel together may show it, or show that totals are exact in floats.
    let norms = if F::UNPACKED { const { norms_of::<D, F>() } } else { NO_NORMS };
    let compare = norms != NO_NORMS;
    assert!(!(look || compare) || t.overflow_bounds.len() == n);
    assert!(!compare || t.norms.len() == n);
    let (t, out) = (&t.after(d.first()), &mut out[d.first() * PANEL_ROWS..]);
    let mut y = [d.zeros(); C];
    for sb in 0..k / 256 {
        // SAFETY: the lengths checked above cover superblock sb of the panel and of the tile.
        unsafe {
            let f = F::factors(d, panel.as_ptr(), k, sb);
            if !F::UNPACKED {
                // The factors precede the quantised values, whose lines are prefetched as they are used.
                let factors = F::panel_bytes(256).unwrap_or(0).saturating_sub(8 * F::BYTES);
                for at in (0..factors).step_by(64) {
                    d.prefetch_following(f.quants.wrapping_sub(factors).wrapping_add(at), C);
                }
            }
            for half in 0..2 {
                let i = sb * 2 + half;
                let scaled = if always
                    || look && t.overflow_bounds[i].sums[peak] <= limit
                    || norms == OF_BLOCKS && t.norms[i] * t.overflow_bounds[i].squares_of_16 as f32 <= NARROW
                {
                    scaled_half::<D, F, SIGNED, WORDS, C>(d, &f, t, sb, half, acc_init)
                } else if norms == OF_TOTALS
                    && t.norms[i] * t.overflow_bounds[i].squares_of_96 as f32 <= EXACT
                {
                    scaled_half::<D, F, SIGNED, FLOATS, C>(d, &f, t, sb, half, acc_init)
                } else {
                    scaled_half::<D, F, SIGNED, HOW, C>(d, &f, t, sb, half, acc_init)
                };
                let minima = if F::MINIMUM {
                    weighted::<D, F, C>(d, |i| F::minimum(d, &f, i), false, t, sb, half)
                } else {
                    [d.ints(); C]
                };
                for c in 0..C {
                    let mut u = d.mul(scaled[c], f.d);
                    if F::MINIMUM {
                        u = d.fnma(d.floats::<INTEGERS>(minima[c]), f.dmin, u);
                    }
                    let scale = t.scales.as_ptr().add((sb * 2 + half) * columns + c * D::COLUMNS);
                    y[c] = d.fma(u, d.splat(scale), y[c]);
                }
            }
        }
    }
    for c in 0..C {
        // SAFETY: out holds 16 values for each of C * COLUMNS.
        unsafe { d.store(y[c], out.as_mut_ptr().add(c * D::COLUMNS * PANEL_ROWS)) };
    }
}

/// Computes scaled sums of 128 values.
///
/// # Safety
/// `f` belongs to superblock `sb`, which the tile covers; with `acc_init` the tile has initial values.
#[inline(always)]
unsafe fn scaled_half<D: IntSimd, F: Superblock, const SIGNED: bool, const HOW: u8, const C: usize>(
    d: D,
    f: &SuperblockScales<D>,
    t: &Tile<'_>,
    sb: usize,
    half: usize,
    acc_init: bool,
) -> [D::Floats; C] {
    let zero = match (SIGNED, acc_init) {
        (_, true) => 0,
        (true, _) => D::SIGNED_ZERO,
        _ => F::ZERO,
    };
    let mut scaled = [d.zeros(); C];
    // SAFETY: `f` belongs to superblock `sb`, which the tile covers (`# Safety`).
    unsafe {
        if (F::UNPACKED || acc_init) && D::WORDS && HOW == INTEGERS && F::EXACT_64 && zero == 0 {
            for quarter in 0..2 {
                let first = half * 4 + quarter * 2;
                let total = blocks::<D, F, SIGNED, FLOATS, C>(d, f, t, sb, first..first + 2, acc_init);
                for c in 0..C {
                    let sum = d.floats::<FLOATS>(total[c]);
                    scaled[c] = if quarter == 0 { sum } else { d.sum(scaled[c], sum) };
                }
            }
        } else {
            let mut total = blocks::<D, F, SIGNED, HOW, C>(d, f, t, sb, half * 4..half * 4 + 4, acc_init);
            if zero != 0 {
                let shifted = weighted::<D, F, C>(d, |i| F::scale(d, f, i), F::SIGNED_SCALES, t, sb, half);
                for c in 0..C {
                    total[c] = d.sub_times(total[c], shifted[c], zero);
                }
            }
            for c in 0..C {
                scaled[c] = d.floats::<HOW>(total[c]);
            }
        }
    }
    scaled
}

/// Computes scaled sums of some blocks of 32 values of superblock `sb`.
///
/// # Safety
/// `f` belongs to superblock `sb`, which the tile covers; with `begin` the tile has initial values.
#[inline(always)]
unsafe fn blocks<D: IntSimd, F: Superblock, const SIGNED: bool, const HOW: u8, const C: usize>(
    d: D,
    f: &SuperblockScales<D>,
    t: &Tile<'_>,
    sb: usize,
    range: Range<usize>,
    begin: bool,
) -> [D::Ints; C] {
    if D::PACKS_TWO_SUMS && F::UNPACKED && HOW == WORDS && (F::PARTS == 2 || !begin) {
        // SAFETY: `f` belongs to superblock `sb`, which the tile covers (`# Safety`).
        return unsafe { shared::<D, F, SIGNED, C>(d, f, t, sb, range, begin) };
    }
    let columns = d.of::<C>();
    let mut total = [d.ints(); C];
    for b in range {
        // SAFETY: `f` belongs to superblock `sb`, which the tile covers (`# Safety`).
        unsafe {
            let w = f.quants.add(b * F::BYTES);
            let a = codes_at(t, sb * 8 + b, columns);
            let acc_init =
                begin.then(|| t.acc_init.as_ptr().add((sb * 8 + b) * D::ACC_INIT.of_block() * columns));
            if F::PARTS == 1 {
                let scale = [d.scale::<HOW>(F::scale(d, f, b), F::SIGNED_SCALES); 1];
                block::<D, F, SIGNED, HOW, C, 1>(d, w, a, scale, acc_init, &mut total);
            } else {
                let scale = [
                    d.scale::<HOW>(F::scale(d, f, 2 * b), F::SIGNED_SCALES),
                    d.scale::<HOW>(F::scale(d, f, 2 * b + 1), F::SIGNED_SCALES),
                ];
                block::<D, F, SIGNED, HOW, C, 2>(d, w, a, scale, acc_init, &mut total);
            }
        }
        if !F::UNPACKED && C == 1 {
            // Keeps the compiler from unrolling the loop and moving all prefetches to its end.
            compiler_fence(Ordering::SeqCst);
        }
    }
    total
}

/// Computes [`blocks`] for an even number of blocks whose sums fit 16 bits, with two sums per lane. Sums of 32 values
/// begin at zero.
///
/// # Safety
/// As in [`blocks`].
#[inline(always)]
unsafe fn shared<D: IntSimd, F: Superblock, const SIGNED: bool, const C: usize>(
    d: D,
    f: &SuperblockScales<D>,
    t: &Tile<'_>,
    sb: usize,
    range: Range<usize>,
    begin: bool,
) -> [D::Ints; C] {
    let columns = d.of::<C>();
    let mut total = [d.ints(); C];
    for b in range.step_by(if F::PARTS == 1 { 2 } else { 1 }) {
        // SAFETY: as in `blocks` (`# Safety`).
        unsafe {
            let w = f.quants.add(b * F::BYTES);
            let a = codes_at(t, sb * 8 + b, columns);
            let acc_init =
                begin.then(|| t.acc_init.as_ptr().add((sb * 8 + b) * D::ACC_INIT.of_block() * columns));
            let mut s = [d.none(); C];
            if let Some(acc_init) = acc_init {
                for c in 0..C {
                    s[c] = d.begin(acc_init.add(columns + c * D::COLUMNS), F::ZERO);
                }
            }
            let first = if F::PARTS == 1 {
                d.products::<Stream<F, C, false>, SIGNED, C, 1>(std::array::from_mut(&mut s), 0..4, w, a);
                b
            } else {
                s = d.products_of_part::<Stream<F, C, false>, SIGNED, C, false>(s, w, a);
                2 * b
            };
            for c in 0..C {
                s[c] = d.make_room(s[c], acc_init.map(|acc_init| acc_init.add(3 * columns + c * D::COLUMNS)));
            }
            if F::PARTS == 1 {
                let (w, a) = (w.add(F::BYTES), codes_at(t, sb * 8 + b + 1, columns));
                d.products::<Stream<F, C, false>, SIGNED, C, 1>(std::array::from_mut(&mut s), 0..4, w, a);
            } else {
                s = d.products_of_part::<Stream<F, C, false>, SIGNED, C, true>(s, w, a);
            }
            let scales = d.pairs(F::scale(d, f, first + 1), F::scale(d, f, first), F::SIGNED_SCALES);
            for c in 0..C {
                total[c] = d.add_shared(total[c], s[c], scales);
            }
        }
    }
    total
}

/// Adds the scaled sums of 32 values, with one scale for all or one per 16. The sums begin at `acc_init`, if given.
///
/// # Safety
/// `w` points at 32 quantised values of 16 rows, `a` at 32 activations of each column, and `acc_init` at the columns'
/// initial values for all 32 values, for the first 16 and for the last 16.
#[inline(always)]
unsafe fn block<
    D: IntSimd,
    F: QuantFormat,
    const SIGNED: bool,
    const HOW: u8,
    const C: usize,
    const P: usize,
>(
    d: D,
    w: *const u8,
    a: *const i8,
    scale: [D::Scale; P],
    acc_init: Option<*const i32>,
    total: &mut [D::Ints; C],
) {
    // Sums that need no widening on the way can be computed one part after the other.
    let panel_by_panel = C > D::PARTS_TOGETHER && const { steps::<D, F>(1) == 4 };
    if P == 2 && (panel_by_panel || acc_init.is_some()) {
        let mut from = [[d.none(); C]; 2];
        if let Some(acc_init) = acc_init {
            for (part, from) in from.iter_mut().enumerate() {
                for (c, from) in from.iter_mut().enumerate() {
                    // SAFETY: `acc_init` holds initial values for the first 16 and the last 16 values of each column
                    // (`# Safety`).
                    *from =
                        unsafe { d.begin(acc_init.add((1 + part) * d.of::<C>() + c * D::COLUMNS), F::ZERO) };
                }
            }
        }
        // SAFETY: `w` and `a` point at 32 values of each row and column (`# Safety`).
        let low = unsafe { d.products_of_part::<Stream<F, C, false>, SIGNED, C, false>(from[0], w, a) };
        for c in 0..C {
            total[c] = d.add_scaled::<SIGNED, HOW>(total[c], low[c], scale[0]);
        }
        // SAFETY: as above.
        let high = unsafe { d.products_of_part::<Stream<F, C, false>, SIGNED, C, true>(from[1], w, a) };
        for c in 0..C {
            total[c] = d.add_scaled::<SIGNED, HOW>(total[c], high[c], scale[P - 1]);
        }
        return;
    }
    let steps = if P == 1 { const { steps::<D, F>(2) } } else { const { steps::<D, F>(1) } };
    for chunk in 0..4 / steps {
        let mut s = [[d.none(); C]; P];
        if let Some(acc_init) = acc_init.filter(|_| chunk == 0) {
            for (c, s) in s[0].iter_mut().enumerate() {
                // SAFETY: `acc_init` holds an initial value for each column (`# Safety`).
                *s = unsafe { d.begin(acc_init.add(c * D::COLUMNS), F::ZERO) };
            }
        }
        let groups = chunk * steps..(chunk + 1) * steps;
        // SAFETY: `w` and `a` cover all steps (`# Safety`).
        unsafe { d.products::<Stream<F, C, false>, SIGNED, C, P>(&mut s, groups, w, a) };
        for p in 0..P {
            for c in 0..C {
                total[c] = d.add_scaled::<SIGNED, HOW>(total[c], s[p][c], scale[p]);
            }
        }
    }
}

/// Computes sums of the activations of one half of 128 values, weighted by one byte per block: the terms of zero points
/// and minima.
///
/// # Safety
/// The tile covers superblock `sb`.
#[inline(always)]
unsafe fn weighted<D: IntSimd, F: Superblock, const C: usize>(
    d: D,
    bytes: impl Fn(usize) -> D::Bytes,
    signed: bool,
    t: &Tile<'_>,
    sb: usize,
    half: usize,
) -> [D::Ints; C] {
    let mut total = [d.ints(); C];
    // Two blocks at a time: of 16 values from `sums`, of 32 values from `pairs`.
    let (words, pairs) = if F::PARTS == 1 { (t.pairs, 2) } else { (t.sums, 4) };
    for i in half * pairs..(half + 1) * pairs {
        let weights = d.pairs(bytes(2 * i), bytes(2 * i + 1), signed);
        for c in 0..C {
            let word = (sb * 2 * pairs + i) * d.of::<C>() + c * D::COLUMNS;
            // SAFETY: superblock sb has 2 * pairs words per column.
            total[c] = unsafe { d.add_pairs(total[c], weights, words.as_ptr().add(word)) };
        }
    }
    total
}
