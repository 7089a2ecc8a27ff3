//! The loops of the quantised formats, written once for every format and instruction set.
//!
//! Two families. *Simple* formats have one float scale (and perhaps a minimum) per 32 values; *super* formats
//! have integer scales per 16 or 32 values under one or two floats per 256. A format says how its codes and
//! factors are stored; an instruction set ([`Dot`]) says how they are multiplied. Both are inlined into the
//! loop, so a kernel is what one would write by hand for the pair.
//!
//! What is computed is defined by the scalar tile beside each format. Integer sums are exact, so any order of
//! them gives the same bits; the float operations are the definition's, one chain per row.

use super::format::ROWS;
use super::stream::{KEPT, KEPT_COLUMNS, KEPT_LEAST, Kept, Stream};
use crate::activations::Tile;
use crate::isa::dot::{BIAS, Dot, FLOATS, INTEGERS, WORDS};
use crate::isa::{FEW, Starts, align_spilled};
use crate::quantise::SHIFT;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{Ordering, compiler_fence};

/// Largest magnitude of an activation code.
pub(crate) const A: i32 = 127;

/// How a format stores the codes of 32 values of 16 rows.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "for tiers of x86-64 alone"))]
pub(crate) trait Codes {
    /// Whether panels were taken apart ahead ([`expanded`](super::expanded)).
    const APART: bool = false;
    /// Whether they were so as [`mixed`](super::mixed) reads them.
    const MIXED: bool = false;
    /// Whether what lies behind a panel is multiplied next, and so asked for ahead.
    const FOLLOWED: bool = !Self::APART;
    /// The largest unsigned code.
    const MAX: i32;
    /// Whether codes are signed bytes.
    const SIGNED: bool = false;
    /// What the unsigned code of the value 0 is.
    const ZERO: i32 = 0;
    /// Bytes of 32 values of 16 rows.
    const BYTES: usize;

    /// Codes of k-group `g` (0 to 3) and of k-group `g + 4`.
    ///
    /// # Safety
    /// `p` points at [`Codes::BYTES`] readable bytes.
    unsafe fn pair<D: Dot>(d: D, p: *const u8, g: usize) -> (D::Codes, D::Codes);
}

/// A format with one float scale per 32 values.
pub(crate) trait Simple: Codes {
    /// Whether a block also has a minimum, added to each of its values.
    const MINIMUM: bool = false;
    /// Whether scales are half-precision numbers.
    const HALVES: bool = true;

    /// Bytes of the scales before the codes in a panel of depth `k`, and of one block's scales: by default 16
    /// halves per block, and 16 more for minima.
    fn scale_bytes(k: usize) -> (usize, usize) {
        let block = if Self::MINIMUM { 4 * ROWS } else { 2 * ROWS };
        ((k / 32 * block).next_multiple_of(64), block)
    }

    /// Scale and minimum of a block from its scales at `p`.
    ///
    /// # Safety
    /// `p` points at the scales of one block.
    #[inline(always)]
    unsafe fn scale<D: Dot>(d: D, p: *const u8) -> (D::Floats, D::Floats) {
        // SAFETY: the caller gives one block's scales.
        unsafe { (d.halves(p), if Self::MINIMUM { d.halves(p.add(2 * ROWS)) } else { d.zeros() }) }
    }
}

/// Bytes of as many blocks as 256 values have. Those that a format has not stay as they are: the blocks' loop indexes them, so that
/// they lie in memory, and to write sixteen more took as many instructions as a thirtieth of Q4_K's tile of one column.
pub(crate) type Sixteen<D> = [MaybeUninit<<D as Dot>::Bytes>; 16];

/// None of them.
pub(crate) const fn unread<D: Dot>() -> Sixteen<D> {
    [const { MaybeUninit::uninit() }; 16]
}

/// Factors of 256 values.
pub(crate) struct Factors<D: Dot> {
    /// Scale of the scales, and of the minima.
    pub(crate) d: D::Floats,
    pub(crate) dmin: D::Floats,
    /// Scales and minima of the blocks of 16 or 32 values, where [`Super::scale`] and [`Super::minimum`] do not read them elsewhere.
    pub(crate) scales: Sixteen<D>,
    pub(crate) minima: Sixteen<D>,
    /// The codes.
    pub(crate) codes: *const u8,
}

/// A format with integer scales under floats per 256 values.
pub(crate) trait Super: Codes {
    /// Blocks with a scale of their own per 32 values: 1 or 2.
    const PARTS: usize;
    /// The largest magnitude of a block's scale.
    const MAX_SCALE: i32;
    /// Whether scales are signed bytes.
    const SIGNED_SCALES: bool = false;
    /// Whether blocks have minima, subtracted from their values.
    const MINIMUM: bool = false;
    /// Whether scaled sums of 128 values stay below 2^24.
    const EXACT: bool;
    /// What that allows.
    const HOW: u8 = if Self::EXACT { FLOATS } else { INTEGERS };
    /// Whether those of 64 values do. Then two of them in floats make, added and so rounded once, what the sum of 128 in
    /// integers rounds to.
    const EXACT_64: bool = Self::EXACT;

    /// Bytes of a panel of depth `k`.
    fn panel_bytes(k: usize) -> Option<usize>;

    /// Factors of the `sb`-th 256 values of a panel: unless they are read elsewhere, the scales of `8 * PARTS` blocks, and with
    /// [`MINIMUM`](Super::MINIMUM) as many minima.
    ///
    /// # Safety
    /// `panel` points at a whole panel of depth `k`, and `sb < k / 256`.
    unsafe fn factors<D: Dot>(d: D, panel: *const u8, k: usize, sb: usize) -> Factors<D>;

    /// The scale of the `i`-th block of 256 values.
    ///
    /// # Safety
    /// `f` is what [`Super::factors`] gave, and there are so many blocks.
    #[inline(always)]
    unsafe fn scale<D: Dot>(_d: D, f: &Factors<D>, i: usize) -> D::Bytes {
        // SAFETY: the caller's promise, and that of `factors`.
        unsafe { f.scales[i].assume_init() }
    }

    /// As [`Super::scale`], its minimum, of a format that has such.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    unsafe fn minimum<D: Dot>(_d: D, f: &Factors<D>, i: usize) -> D::Bytes {
        // SAFETY: the caller's promise, and that of `factors`.
        unsafe { f.minima[i].assume_init() }
    }
}

/// Products of one row that fit 16 bits, in calls of `vpmaddubsw` (two products each), when each step makes
/// `per_step` of them; at most the four steps of a block.
const fn steps<D: Dot, F: Codes>(per_step: i32) -> usize {
    assert!(F::SIGNED || F::MAX <= 63, "what `Dot::products` takes");
    if !D::NARROW || F::SIGNED {
        return 4;
    }
    let fit = i16::MAX as i32 / (2 * F::MAX * A) / per_step;
    assert!(fit >= 1, "the products of one step overflow 16 bits");
    match fit {
        1 => 1,
        2 | 3 => 2,
        _ => 4,
    }
}

/// Whether multiplications are all that is scarce: one unit makes them, and there are columns enough to share what taking codes
/// apart costs.
const fn scarce<D: Dot, F: Codes, const C: usize>() -> bool {
    D::SHARED && (F::APART || C > FEW)
}

/// Whether codes that each tile takes apart are shifted as [`expanded`](super::expanded) shifts them: sums begin at the batch's
/// `starts`, and their offset takes no products. Nor do those of both signs grow as large: of Q6_K and eleven columns nearly all
/// then fit 16 bits, of which most did not.
pub(super) const fn centred<D: Dot, F: Codes, const C: usize>() -> bool {
    scarce::<D, F, C>() && !F::APART && matches!(D::STARTS, Starts::Shift) && (F::SIGNED || F::ZERO != 0)
}

/// Checks that a tile's buffers are as long as the kernel will read. Cheap beside a panel.
#[inline(always)]
pub(crate) fn check<D: Dot>(
    panels: usize,
    panel: Option<usize>,
    t: &Tile<'_>,
    k: usize,
    c: usize,
    out: &[f32],
) {
    assert!(panel.and_then(|n| n.checked_mul(D::PANELS)) == Some(panels));
    assert!(t.c == c && out.len() >= D::PANELS * c * ROWS && t.codes.len() == k * c);
}

/// The activations' codes of the blocks of 32 values from `b` on, for `columns` columns.
///
/// # Safety
/// The tile was [`check`]ed, and has that block.
#[inline(always)]
unsafe fn codes_at(t: &Tile<'_>, b: usize, columns: usize) -> *const i8 {
    // SAFETY: the caller's promise.
    unsafe { t.codes.as_ptr().add(b * 32 * columns) }
}

/// A panel of a simple format, or as many as `D` takes together, times `C * D::COLUMNS` columns of a tile.
#[inline(always)]
pub(crate) fn simple<D: Dot, F: Simple, const SIGNED: bool, const C: usize>(
    d: D,
    panel: &[u8],
    k: usize,
    t: &Tile<'_>,
    out: &mut [f32],
) {
    let (blocks, columns) = (k / 32, d.of::<C>());
    let (first, stride) = F::scale_bytes(k);
    let want = blocks.checked_mul(F::BYTES).and_then(|n| n.checked_add(first));
    check::<D>(panel.len(), want, t, k, columns, out);
    assert!(
        t.scales.len() == blocks * columns && t.sums.len() == blocks * columns && first >= blocks * stride
    );
    let zero = if SIGNED { D::SIGNED_ZERO } else { F::ZERO };
    let starts = match D::STARTS {
        Starts::Shift if F::APART => zero != 0,
        Starts::Shift => zero == SHIFT || const { centred::<D, F, C>() },
        _ => false,
    };
    assert!(!starts || t.starts.len() == blocks * columns);
    let (t, out) = (&t.after(d.first()), &mut out[d.first() * ROWS..]);
    let steps = const { steps::<D, F>(2) };
    if F::FOLLOWED {
        // As the codes' lines ask for what follows them, so must those of the scales, or as many of the codes' are asked for by
        // none: a core of Zen 5 then read Q4_0 at three quarters of the rate of Q4_K.
        for at in (0..first).step_by(64) {
            d.prefetch_following(panel.as_ptr().wrapping_add(at), C);
        }
    }
    let mut y = [d.zeros(); C];
    let keep = const { D::AGAIN && C <= KEPT_COLUMNS && !F::APART } && blocks >= KEPT_LEAST;
    let mut kept = Kept::new();
    let (mut scale_at, mut keep_at) = (panel.as_ptr(), if keep { 0 } else { usize::MAX });
    for b in 0..blocks {
        if b == keep_at {
            let at = b * stride;
            scale_at = kept.copy(&panel[at..first.min(at + KEPT * stride)]);
            keep_at += KEPT;
        }
        // SAFETY: the lengths checked above cover block b of the panel and of the tile.
        unsafe {
            let w = panel.as_ptr().add(first + b * F::BYTES);
            let a = codes_at(t, b, columns);
            let (scales, sums) = (t.scales.as_ptr().add(b * columns), t.sums.as_ptr().add(b * columns));
            let mut total = [d.ints(); C];
            for chunk in 0..4 / steps {
                let mut s = [d.none(); C];
                if chunk == 0 {
                    for c in 0..C {
                        s[c] = if starts {
                            d.begin(t.starts.as_ptr().add(b * columns + c * D::COLUMNS), zero)
                        } else {
                            d.start(sums.add(c * D::COLUMNS), zero)
                        };
                    }
                }
                let groups = chunk * steps..(chunk + 1) * steps;
                d.products::<Stream<F, C, true>, SIGNED, C, 1>(std::array::from_mut(&mut s), groups, w, a);
                for c in 0..C {
                    total[c] = d.add::<SIGNED>(total[c], s[c]);
                }
            }
            let (scale, minimum) = F::scale(d, scale_at);
            scale_at = scale_at.wrapping_add(stride);
            // The product with the scale is exact, as a half has eleven significant bits: so the multiply-add below rounds
            // the product of sum and scale, once. (Of an infinite scale, which no encoder writes, it makes no number.)
            // Where multiplications are all that is scarce, the bias is subtracted first, which is exact too.
            let bias = if D::BIASED { d.splat(&-BIAS) } else { d.zeros() };
            let at_once = F::HALVES && const { !scarce::<D, F, C>() };
            let share = if at_once { d.mul(scale, bias) } else { d.zeros() };
            for c in 0..C {
                let s = d.finish(total[c], sums.add(c * D::COLUMNS), zero);
                let mut u = match (D::BIASED, at_once) {
                    (true, true) => d.fma(d.biased_floats(s), scale, share),
                    (true, false) => d.mul(d.sum(d.biased_floats(s), bias), scale),
                    (false, _) => d.mul(d.floats::<INTEGERS>(s), scale),
                };
                if F::MINIMUM {
                    u = d.fma(minimum, d.splat_int(sums.add(c * D::COLUMNS)), u);
                }
                y[c] = d.fma(u, d.splat(scales.add(c * D::COLUMNS)), y[c]);
            }
        }
    }
    for c in 0..C {
        // SAFETY: out holds 16 values for each of C * COLUMNS.
        unsafe { d.store(y[c], out.as_mut_ptr().add(c * D::COLUMNS * ROWS)) };
    }
}

/// The largest of a tile's [`Peaks::sums`](crate::quantise::Peaks) with which the sums of one block of a super format
/// fit 16 bits, and which of them that is. With `starts` the sums are of codes as they are meant, else as they are stored.
pub(crate) const fn fit<F: Super>(starts: bool) -> (i32, usize) {
    let (codes, signed) = match (starts, F::SIGNED) {
        (true, false) => (if F::ZERO > F::MAX - F::ZERO { F::ZERO } else { F::MAX - F::ZERO }, true),
        // Those of signed bytes are of no use: they never fit.
        (_, true) => (i16::MAX as i32, true),
        (false, false) => (F::MAX, false),
    };
    (i16::MAX as i32 / codes, if F::PARTS == 2 { 0 } else { 2 } + if signed { 0 } else { 1 })
}

/// What a panel that is taken apart says of the squares of each 128 values.
pub(crate) const NO_NORMS: u8 = 0;
/// Their sum over one block's codes.
pub(crate) const OF_BLOCKS: u8 = 1;
/// Their sum over the scaled codes of the first three blocks.
pub(crate) const OF_TOTALS: u8 = 2;

/// Which squares of a format's panels bound sums (Cauchy and Schwarz): those that often but not always fit 16 bits; and the
/// totals of bytes, whose sums never do.
pub(crate) const fn norms_of<D: Dot, F: Super>() -> u8 {
    let of_magnitudes = fit::<F>(true).0;
    match (D::WORDS, F::PARTS) {
        (true, 1) if F::SIGNED && F::SIGNED_SCALES && !F::EXACT => OF_TOTALS,
        (true, 2) if !F::SIGNED && of_magnitudes < 16 * A => OF_BLOCKS,
        _ => NO_NORMS,
    }
}

/// The largest product of two sums of squares, of weights and activations of three blocks, with which every sum of their
/// products is at most 2^24 (Cauchy and Schwarz) and so exact in floats: 2^48, less what the rounding of the two may hide.
/// The sum of four is then rounded once, as that of integers is.
const EXACT: f32 = 0.999 * (1_u64 << 48) as f32;

/// That with which every sum of a block's products fits 16 bits.
const NARROW: f32 = 0.999 * (i16::MAX as f32) * (i16::MAX as f32);

/// A panel of a super format, or as many as `D` takes together, times `C * D::COLUMNS` columns of a tile.
#[inline(always)]
pub(crate) fn superblocks<D: Dot, F: Super, const SIGNED: bool, const HOW: u8, const C: usize>(
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
    // What a shift or an offset adds is either what sums begin at, or leaves with the scaled sums of activations.
    let starts = match D::STARTS {
        Starts::Shift if F::APART => SIGNED || F::ZERO != 0,
        Starts::Shift => const { centred::<D, F, C>() },
        _ => false,
    };
    assert!(!starts || t.starts.len() == k / 32 * D::STARTS.of_block() * columns);
    // Whether sums fit 16 bits is known of the format, or seen of the tile, or not worth looking: with few columns most
    // instructions are about the weights.
    let (limit, peak) = if starts { const { fit::<F>(true) } } else { const { fit::<F>(false) } };
    let always = D::WORDS && limit >= 32 / F::PARTS as i32 * A;
    let look = D::WORDS && !always && C > 2 && limit > 32 / F::PARTS as i32 * A / 8;
    // Elsewhere it, or whether floats hold totals exactly, may be seen of the tile and the panel together.
    let norms = if F::APART { const { norms_of::<D, F>() } } else { NO_NORMS };
    let compare = norms != NO_NORMS;
    assert!(!(look || compare) || t.peaks.len() == n);
    assert!(!compare || t.norms.len() == n);
    let (t, out) = (&t.after(d.first()), &mut out[d.first() * ROWS..]);
    let mut y = [d.zeros(); C];
    for sb in 0..k / 256 {
        // SAFETY: the lengths checked above cover superblock sb of the panel and of the tile.
        unsafe {
            let f = F::factors(d, panel.as_ptr(), k, sb);
            if !F::APART {
                // The factors lie before the codes, which are fetched as they are used.
                let factors = F::panel_bytes(256).unwrap_or(0).saturating_sub(8 * F::BYTES);
                for at in (0..factors).step_by(64) {
                    d.prefetch_following(f.codes.wrapping_sub(factors).wrapping_add(at), C);
                }
            }
            for half in 0..2 {
                let i = sb * 2 + half;
                let scaled = if always
                    || look && t.peaks[i].sums[peak] <= limit
                    || norms == OF_BLOCKS && t.norms[i] * t.peaks[i].squares_of_16 as f32 <= NARROW
                {
                    scaled_half::<D, F, SIGNED, WORDS, C>(d, &f, t, sb, half, starts)
                } else if norms == OF_TOTALS && t.norms[i] * t.peaks[i].squares_of_96 as f32 <= EXACT {
                    scaled_half::<D, F, SIGNED, FLOATS, C>(d, &f, t, sb, half, starts)
                } else {
                    scaled_half::<D, F, SIGNED, HOW, C>(d, &f, t, sb, half, starts)
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
        unsafe { d.store(y[c], out.as_mut_ptr().add(c * D::COLUMNS * ROWS)) };
    }
}

/// Scaled sums of 128 values.
///
/// # Safety
/// `f` is the superblock's, which the tile covers; with `starts` the tile has such.
#[inline(always)]
unsafe fn scaled_half<D: Dot, F: Super, const SIGNED: bool, const HOW: u8, const C: usize>(
    d: D,
    f: &Factors<D>,
    t: &Tile<'_>,
    sb: usize,
    half: usize,
    starts: bool,
) -> [D::Floats; C] {
    let zero = match (SIGNED, starts) {
        (_, true) => 0,
        (true, _) => D::SIGNED_ZERO,
        _ => F::ZERO,
    };
    let mut scaled = [d.zeros(); C];
    // SAFETY: the caller's promise.
    unsafe {
        if (F::APART || starts) && D::WORDS && HOW == INTEGERS && F::EXACT_64 && zero == 0 {
            for quarter in 0..2 {
                let first = half * 4 + quarter * 2;
                let total = blocks::<D, F, SIGNED, FLOATS, C>(d, f, t, sb, first..first + 2, starts);
                for c in 0..C {
                    let sum = d.floats::<FLOATS>(total[c]);
                    scaled[c] = if quarter == 0 { sum } else { d.sum(scaled[c], sum) };
                }
            }
        } else {
            let mut total = blocks::<D, F, SIGNED, HOW, C>(d, f, t, sb, half * 4..half * 4 + 4, starts);
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

/// Scaled sums of some blocks of 32 values of superblock `sb`.
///
/// # Safety
/// `f` is the superblock's, which the tile covers; with `begin` the tile has starts.
#[inline(always)]
unsafe fn blocks<D: Dot, F: Super, const SIGNED: bool, const HOW: u8, const C: usize>(
    d: D,
    f: &Factors<D>,
    t: &Tile<'_>,
    sb: usize,
    range: Range<usize>,
    begin: bool,
) -> [D::Ints; C] {
    if D::SHARED && F::APART && HOW == WORDS && (F::PARTS == 2 || !begin) {
        // SAFETY: the caller's promise.
        return unsafe { shared::<D, F, SIGNED, C>(d, f, t, sb, range, begin) };
    }
    let columns = d.of::<C>();
    let mut total = [d.ints(); C];
    for b in range {
        // SAFETY: the caller's promise.
        unsafe {
            let w = f.codes.add(b * F::BYTES);
            let a = codes_at(t, sb * 8 + b, columns);
            let starts = begin.then(|| t.starts.as_ptr().add((sb * 8 + b) * D::STARTS.of_block() * columns));
            if F::PARTS == 1 {
                let scale = [d.scale::<HOW>(F::scale(d, f, b), F::SIGNED_SCALES); 1];
                block::<D, F, SIGNED, HOW, C, 1>(d, w, a, scale, starts, &mut total);
            } else {
                let scale = [
                    d.scale::<HOW>(F::scale(d, f, 2 * b), F::SIGNED_SCALES),
                    d.scale::<HOW>(F::scale(d, f, 2 * b + 1), F::SIGNED_SCALES),
                ];
                block::<D, F, SIGNED, HOW, C, 2>(d, w, a, scale, starts, &mut total);
            }
        }
        if !F::APART && C == 1 {
            // Lest the compiler unroll the loop and move what is fetched ahead to its end: 64 lines at once kept those
            // that are read next waiting, and Q5_K took up to half as much time again. More columns take longer than memory.
            compiler_fence(Ordering::SeqCst);
        }
    }
    total
}

/// As [`blocks`], of an even number of blocks whose sums fit 16 bits, two sums in a lane. Sums of 32 values begin at nothing.
///
/// # Safety
/// As of [`blocks`].
#[inline(always)]
unsafe fn shared<D: Dot, F: Super, const SIGNED: bool, const C: usize>(
    d: D,
    f: &Factors<D>,
    t: &Tile<'_>,
    sb: usize,
    range: Range<usize>,
    begin: bool,
) -> [D::Ints; C] {
    let columns = d.of::<C>();
    let mut total = [d.ints(); C];
    for b in range.step_by(if F::PARTS == 1 { 2 } else { 1 }) {
        // SAFETY: the caller's promise.
        unsafe {
            let w = f.codes.add(b * F::BYTES);
            let a = codes_at(t, sb * 8 + b, columns);
            let starts = begin.then(|| t.starts.as_ptr().add((sb * 8 + b) * D::STARTS.of_block() * columns));
            let mut s = [d.none(); C];
            if let Some(starts) = starts {
                for c in 0..C {
                    s[c] = d.begin(starts.add(columns + c * D::COLUMNS), F::ZERO);
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
                s[c] = d.make_room(s[c], starts.map(|starts| starts.add(3 * columns + c * D::COLUMNS)));
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

/// Adds the scaled sums of 32 values: one scale for all, or one for each 16. The sums begin at `starts`, if any.
///
/// # Safety
/// `w` points at the codes of 32 values of 16 rows, `a` at the activations of 32 values of the columns, `starts` at the
/// columns' numbers for the 32 values, for the first 16 and for the last.
#[inline(always)]
unsafe fn block<D: Dot, F: Codes, const SIGNED: bool, const HOW: u8, const C: usize, const P: usize>(
    d: D,
    w: *const u8,
    a: *const i8,
    scale: [D::Scale; P],
    starts: Option<*const i32>,
    total: &mut [D::Ints; C],
) {
    // Sums that need not be widened on the way can be those of one part after the other.
    let in_turn = C > D::PARTS_TOGETHER && const { steps::<D, F>(1) == 4 };
    if P == 2 && (in_turn || starts.is_some()) {
        let mut from = [[d.none(); C]; 2];
        if let Some(starts) = starts {
            for (part, from) in from.iter_mut().enumerate() {
                for (c, from) in from.iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    *from =
                        unsafe { d.begin(starts.add((1 + part) * d.of::<C>() + c * D::COLUMNS), F::ZERO) };
                }
            }
        }
        // SAFETY: the caller's promise.
        let low = unsafe { d.products_of_part::<Stream<F, C, false>, SIGNED, C, false>(from[0], w, a) };
        for c in 0..C {
            total[c] = d.add_scaled::<SIGNED, HOW>(total[c], low[c], scale[0]);
        }
        // SAFETY: the caller's promise.
        let high = unsafe { d.products_of_part::<Stream<F, C, false>, SIGNED, C, true>(from[1], w, a) };
        for c in 0..C {
            total[c] = d.add_scaled::<SIGNED, HOW>(total[c], high[c], scale[P - 1]);
        }
        return;
    }
    let steps = if P == 1 { const { steps::<D, F>(2) } } else { const { steps::<D, F>(1) } };
    for chunk in 0..4 / steps {
        let mut s = [[d.none(); C]; P];
        if let Some(starts) = starts.filter(|_| chunk == 0) {
            for (c, s) in s[0].iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                *s = unsafe { d.begin(starts.add(c * D::COLUMNS), F::ZERO) };
            }
        }
        let groups = chunk * steps..(chunk + 1) * steps;
        // SAFETY: the caller's promise covers every step.
        unsafe { d.products::<Stream<F, C, false>, SIGNED, C, P>(&mut s, groups, w, a) };
        for p in 0..P {
            for c in 0..C {
                total[c] = d.add_scaled::<SIGNED, HOW>(total[c], s[p][c], scale[p]);
            }
        }
    }
}

/// Sums of activations of one half of 128 values, weighted by one byte per block: what offsets and minima take.
///
/// # Safety
/// The tile covers superblock `sb`.
#[inline(always)]
unsafe fn weighted<D: Dot, F: Super, const C: usize>(
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
            // SAFETY: the words of superblock sb are 2 * pairs per column.
            total[c] = unsafe { d.add_pairs(total[c], weights, words.as_ptr().add(word)) };
        }
    }
    total
}

/// Makes the kernels of a format for many columns, on one level, on some or on all that have such: of floats from the
/// panels as they are, and where it is said what multiplies them as floats of 32 bits, from such too; of the others from panels
/// taken apart ahead. `words` is AVX2 with signed codes, `avx2_soon` takes
/// panels apart for fewer tiles.
macro_rules! family_many {
    (@apart $level:ident simple $format:ty) => {
        $crate::isa::simd_many!(
            $level,
            |d, C, panels, k, t, out| {
                $crate::matmul::family::simple::<
                    _,
                    $crate::matmul::expanded::Apart<$format>,
                    { <$format as Codes>::SIGNED },
                    C,
                >(d, panels, k, t, out)
            },
            $crate::matmul::expanded::simple_bytes::<$format>,
            |d, panel, k, out, _norms| $crate::matmul::expanded::simple::<_, $format>(
                d, panel, k, out
            )
        )
    };
    (avx2 $family:ident $format:ty) => {
        $crate::matmul::family::family_many!(@lanes FEWEST_AVX2 $family $format)
    };
    (avx2_soon $family:ident $format:ty) => {
        $crate::matmul::family::family_many!(@lanes FEWEST_WITHOUT_REGISTERS $family $format)
    };
    (@lanes $fewest:ident simple $format:ty) => {
        $crate::isa::lanes_many!(
            $fewest,
            $crate::matmul::expanded::simple_bytes::<$format>,
            $crate::isa::avx2_lanes::expand_simple::<$format>,
            [$crate::isa::avx2_lanes::simple::<$format, 6>, $crate::isa::avx2_lanes::simple::<$format, 5>]
        )
    };
    (@lanes $fewest:ident superblocks $format:ty) => {
        $crate::isa::lanes_many!(
            $fewest,
            $crate::isa::avx2_lanes::Lanes::<$format>::bytes,
            $crate::isa::avx2_lanes::expand_super::<$format>,
            [$crate::isa::avx2_lanes::superblocks::<$format, 6>, $crate::isa::avx2_lanes::superblocks::<$format, 5>]
        )
    };
    (words simple $format:ty) => {
        $crate::isa::lanes_many!(
            FEWEST_AVX2,
            $crate::isa::avx2_words::simple_bytes,
            $crate::isa::avx2_words::expand_simple::<$format>,
            [$crate::isa::avx2_words::simple::<6>, $crate::isa::avx2_words::simple::<5>]
        )
    };
    (words superblocks $format:ty) => {
        $crate::isa::lanes_many!(
            FEWEST_AVX2,
            $crate::isa::avx2_words::super_bytes,
            $crate::isa::avx2_words::expand_super::<$format>,
            [$crate::isa::avx2_words::superblocks::<6>, $crate::isa::avx2_words::superblocks::<5>]
        )
    };
    (mixed superblocks $format:ty) => {
        $crate::isa::simd_many!(mixed $format)
    };
    (@apart $level:ident superblocks $format:ty) => {
        $crate::isa::simd_many!(
            $level,
            |d, C, panels, k, t, out| {
                $crate::matmul::family::superblocks::<
                    _,
                    $crate::matmul::expanded::Apart<$format>,
                    { <$format as Codes>::SIGNED },
                    { <$format as Super>::HOW },
                    C,
                >(d, panels, k, t, out)
            },
            <$crate::matmul::expanded::Apart<$format> as Super>::panel_bytes,
            |d, panel, k, out, norms| $crate::matmul::expanded::superblocks::<_, $format, false>(
                d, panel, k, out, norms
            )
        )
    };
    ($level:ident floats $format:expr) => {
        $crate::isa::simd_many!($level, |d, C, panels, k, t, out| {
            $crate::matmul::floats::floats::<_, _, C>(d, $format, panels, k, t, out)
        })
    };
    ($level:ident floats $format:expr, apart $apart:ident) => {
        $crate::isa::simd_many!(
            $level,
            |d, C, panels, k, t, out| {
                $crate::matmul::floats::floats::<_, _, C>(d, $format, panels, k, t, out)
            },
            $crate::matmul::expanded::float_bytes,
            |d, panel, k, out| $crate::matmul::expanded::floats(d, $format, panel, k, out),
            |d, C, panels, k, t, out| {
                $crate::matmul::floats::floats::<_, _, C>(d, $apart, panels, k, t, out)
            }
        )
    };
    (amx simple $format:ty) => {
        $crate::isa::matrix_many!(simple packed_simple Blocks $format, |d, panel, k, out| {
            $crate::matmul::matrices::simple::<_, $format>(d, panel, k, 0..k / 32, out)
        })
    };
    (amx superblocks $format:ty) => {
        $crate::isa::matrix_many!(superblocks packed_superblocks Halves $format, |d, panel, k, out| {
            $crate::matmul::matrices::superblocks::<_, $format>(d, panel, k, 0..k / 256, out)
        })
    };
    ([$first:ident $($level:ident)*] $family:ident $format:ty) => {
        |tier: $crate::isa::Tier| {
            let many = $crate::matmul::family::family_many!($first $family $format)(tier);
            $(let many = many.or_else(|| $crate::matmul::family::family_many!($level $family $format)(tier));)*
            many
        }
    };
    ($family:ident $format:ty) => {
        $crate::matmul::family::family_many!([amx avx512 avxvnni avx2] $family $format)
    };
    ($level:ident $family:ident $format:ty) => {
        $crate::matmul::family::family_many!(@apart $level $family $format)
    };
}
pub(crate) use family_many;

/// Makes the SIMD tiles of a format: `NAME` for each instruction set, through the loop of its family.
macro_rules! family_tiles {
    ($scalar:path, simple $format:ty) => {
        $crate::isa::simd_tiles!(ints $scalar, |d, C, panel, k, t, out| {
            $crate::matmul::family::simple::<_, $format, { <$format as Codes>::SIGNED }, C>(
                d, panel, k, t, out,
            )
        })
    };
    ($scalar:path, floats $format:expr) => {
        $crate::isa::simd_tiles!(floats $scalar, |d, C, panel, k, t, out| {
            $crate::matmul::floats::floats::<_, _, C>(d, $format, panel, k, t, out)
        })
    };
    ($scalar:path, superblocks $format:ty) => {
        $crate::isa::simd_tiles!(ints $scalar, |d, C, panel, k, t, out| {
            $crate::matmul::family::superblocks::<
                _,
                $format,
                { <$format as Codes>::SIGNED },
                { <$format as Super>::HOW },
                C,
            >(d, panel, k, t, out)
        })
    };
}
pub(crate) use family_tiles;
