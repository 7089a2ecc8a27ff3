//! Loop of the float formats, written once for all formats and instruction sets.
//!
//! A format defines how its weights are read and how many a step takes ([`FloatFormat`]). The scalar tile beside each
//! format defines the result: four chains of fused multiply-adds per row, in turns along the depth.

use crate::gemm::format::traits::{CHAIN, CHAINS, FloatFormat};
use crate::prefetch::prefetch_l1;
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::PANEL_ROWS;

/// Prefetch distance in bytes of the activations of a float product with many tokens: a tile of twelve columns of depth
/// 8,192 has 384 KiB, which do not stay in L2 beside the panels.
const ACTIVATION_PREFETCH_DISTANCE: usize = 4 << 10;

/// Multiplies a panel of a float format, or as many panels as `D` takes together, with `C * D::COLUMNS` columns of a
/// tile.
#[inline(always)]
pub(crate) fn floats<D: IntSimd, F: FloatFormat<D>, const C: usize>(
    d: D,
    f: F,
    panel: &[u8],
    k: usize,
    t: &Tile<'_>,
    out: &mut [f32],
) {
    let columns = d.of::<C>();
    let (all, odd) = (k / F::DEPTH, k % F::DEPTH);
    let depth = if F::PADDED { k.next_multiple_of(F::DEPTH) } else { k };
    assert!(depth.checked_mul(D::PANELS * PANEL_ROWS * F::SIZE) == Some(panel.len()) && t.c == columns);
    // A last, shorter step has one float of a column per weight, at least one.
    assert!(t.values.len() == (all * F::VALUES + odd) * columns);
    assert!(out.len() >= D::PANELS * columns * PANEL_ROWS);
    let (t, out) = (&t.after(d.first()), &mut out[d.first() * PANEL_ROWS..]);
    let chain_steps = const { CHAIN / F::DEPTH };
    let step_bytes = PANEL_ROWS * F::SIZE * F::DEPTH;
    let mut y = [[d.zeros(); C]; CHAINS];
    // Addresses of the weights and activations of step i.
    // SAFETY: the lengths checked above cover every step, the last, odd one among them.
    let at = |i: usize| unsafe {
        (panel.as_ptr().add(i * step_bytes), t.values.as_ptr().add(i * F::VALUES * columns))
    };
    let together = const { together(PANEL_ROWS * F::SIZE * F::DEPTH) };
    let mut done = 0;
    let streams = const { streams::<D>(CHAIN * PANEL_ROWS * F::SIZE) };
    if C <= D::SIDE_BY_SIDE && streams > 1 {
        // Two chains or all four side by side, which makes as many streams of weights.
        while done + CHAINS * chain_steps <= all {
            let (w, x) = at(done);
            for first in 0..CHAINS / streams {
                // SAFETY: all chains are whole, and prefetched addresses need not be valid.
                unsafe {
                    match streams {
                        2 => side_by_side::<D, F, C, 2>(d, f, w, x, first, &mut y),
                        _ => side_by_side::<D, F, C, CHAINS>(d, f, w, x, first, &mut y),
                    }
                }
            }
            done += CHAINS * chain_steps;
        }
    }
    while done < all {
        // The columns keep the multipliers busy, so the chains are computed in turn.
        let chain = done / chain_steps % CHAINS;
        let (w, x) = at(done);
        let mut sum = y[chain];
        // With a constant number of steps, the loop needs no bookkeeping.
        if all - done >= chain_steps {
            for line in (0..chain_steps).step_by(together) {
                d.prefetch_following(w.wrapping_add(line * step_bytes), C);
                // The activations of few tokens stay in a cache.
                if C > 2 {
                    let x_line = x.wrapping_add(line * F::VALUES * columns).cast::<u8>();
                    for at in (0..together * F::VALUES * columns * 4).step_by(64) {
                        prefetch_l1(x_line.wrapping_add(ACTIVATION_PREFETCH_DISTANCE + at));
                    }
                }
                for i in line..line + together {
                    // SAFETY: as above.
                    unsafe { float_step(d, f, w, x, i, &mut sum) };
                }
            }
        } else {
            for i in 0..all - done {
                // SAFETY: as above.
                unsafe { float_step(d, f, w, x, i, &mut sum) };
            }
        }
        y[chain] = sum;
        done = all.min(done + chain_steps);
    }
    if odd > 0 {
        let (w, x) = at(all);
        // SAFETY: the weights and activations end with this step.
        unsafe { f.step::<false, C>(d, w, x, &mut y[all / chain_steps % CHAINS]) };
    }
    for c in 0..C {
        let sum = d.sum(d.sum(y[0][c], y[1][c]), d.sum(y[2][c], y[3][c]));
        // SAFETY: out holds 16 values for each of C * COLUMNS.
        unsafe { d.store(sum, out.as_mut_ptr().add(c * D::COLUMNS * PANEL_ROWS)) };
    }
}

/// Returns the number of chains of `bytes` bytes that are computed side by side. Hardware prefetchers work page by
/// page, so two streams should not share a page.
const fn streams<D: IntSimd>(bytes: usize) -> usize {
    match (bytes < 4096, D::AGAIN) {
        (true, true) => 1,
        (true, false) => 2,
        (false, _) => CHAINS,
    }
}

/// Computes `STREAMS` chains of each column side by side: `first` and every `CHAINS / STREAMS`-th after it. Prefetches
/// the lines after all chains, since those after one chain are read by the next; in order of addresses, for which
/// memory is faster than for the order of the streams.
///
/// # Safety
/// Weights and activations are readable for all chains.
#[inline(always)]
unsafe fn side_by_side<D: IntSimd, F: FloatFormat<D>, const C: usize, const STREAMS: usize>(
    d: D,
    f: F,
    w: *const u8,
    x: *const f32,
    first: usize,
    y: &mut [[D::Floats; C]; CHAINS],
) {
    let (steps, step_bytes) = const { (CHAIN / F::DEPTH, PANEL_ROWS * F::SIZE * F::DEPTH) };
    // Number of steps whose weights share a cache line.
    let together = const { together(PANEL_ROWS * F::SIZE * F::DEPTH) };
    let chain = |stream: usize| first + stream * (CHAINS / STREAMS);
    let mut sums: [[D::Floats; C]; STREAMS] = std::array::from_fn(|stream| y[chain(stream)]);
    for line in (0..steps).step_by(together) {
        for (stream, sums) in sums.iter_mut().enumerate() {
            let ahead = CHAINS * steps + STREAMS * (first * steps + line) + stream * together;
            d.prefetch(w.wrapping_add(ahead * step_bytes));
            let from = chain(stream) * steps + line;
            for i in from..from + together {
                // SAFETY: weights and activations are readable for all chains (`# Safety`).
                unsafe { float_step(d, f, w, x, i, sums) };
            }
        }
    }
    for (stream, sums) in sums.into_iter().enumerate() {
        y[chain(stream)] = sums;
    }
}

/// Returns the number of steps of `step_bytes` bytes of weights that share a cache line.
const fn together(step_bytes: usize) -> usize {
    if step_bytes < 64 { 64 / step_bytes } else { 1 }
}

/// Computes step `i` of a float product from `w` and `x` on. A function, because a closure would not be compiled for
/// the instruction set.
///
/// # Safety
/// Weights and activations are readable for more than `i` steps.
#[inline(always)]
unsafe fn float_step<D: IntSimd, F: FloatFormat<D>, const C: usize>(
    d: D,
    f: F,
    w: *const u8,
    x: *const f32,
    i: usize,
    y: &mut [D::Floats; C],
) {
    // SAFETY: weights and activations are readable for more than `i` steps (`# Safety`).
    unsafe {
        let w = w.add(i * PANEL_ROWS * F::SIZE * F::DEPTH);
        f.step::<true, C>(d, w, x.add(i * F::VALUES * d.of::<C>()), y);
    }
}
