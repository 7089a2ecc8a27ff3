//! Two panels at a time, for tiles of about as many columns as there can be.
//!
//! A tile of one panel loads an activation for every product. Processors that make as many products in a cycle as loads,
//! such as Zen 5 with vectors of 512 bits, then wait for the loads; with two panels an activation serves two products.
//! Every sum is what it is with one panel, in the same order.

use super::family::{AHEAD, CHAIN, CHAINS, FloatRow, steps_of_line};
use super::format::ROWS;
use crate::activations::Tile;
use crate::isa::dot::Dot;

/// Panels that are multiplied together.
pub(super) const PANELS: usize = 2;

/// Two panels of a float format, one behind the other, times one tile of `C` columns: `out[panel][c][16]`.
#[inline(always)]
pub(crate) fn floats<D: Dot, F: FloatRow, const C: usize>(
    d: D,
    panels: &[u8],
    k: usize,
    t: &Tile<'_>,
    out: &mut [f32],
) {
    let row = const { ROWS * F::SIZE };
    assert!(D::COLUMNS == 1 && t.c == C);
    assert!(k.checked_mul(row * PANELS) == Some(panels.len()));
    assert!(t.values.len() == k * C && out.len() >= PANELS * C * ROWS);
    let mut y = [[[d.zeros(); C]; PANELS]; CHAINS];
    for done in (0..k).step_by(CHAIN) {
        let chain = done / CHAIN % CHAINS;
        let mut sums = y[chain];
        for i in done..k.min(done + CHAIN) {
            let weights = [0, 1].map(|p| panels.as_ptr().wrapping_add((p * k + i) * row));
            if i.is_multiple_of(const { steps_of_line::<F>() }) {
                weights.iter().for_each(|w| d.prefetch(w.wrapping_add(AHEAD / PANELS)));
            }
            // SAFETY: the lengths checked above cover step i < k of both panels and of the tile.
            unsafe {
                let w = weights.map(|w| F::row(d, w));
                for c in 0..C {
                    let x = d.splat(t.values.as_ptr().add(i * C + c));
                    for p in 0..PANELS {
                        sums[p][c] = d.fma(w[p], x, sums[p][c]);
                    }
                }
            }
        }
        y[chain] = sums;
    }
    for p in 0..PANELS {
        for c in 0..C {
            let sum = d.sum(d.sum(y[0][p][c], y[1][p][c]), d.sum(y[2][p][c], y[3][p][c]));
            // SAFETY: out holds 16 values for each of C columns of both panels.
            unsafe { d.store(sum, out.as_mut_ptr().add((p * C + c) * ROWS)) };
        }
    }
}

/// Makes the kernels of a float format for two panels on AVX-512, whose registers hold the sums of both.
macro_rules! float_pairs {
    ($format:ty) => {
        $crate::isa::simd_pairs!(|d, C, panels, k, t, out| {
            $crate::matmul::pair::floats::<_, $format, C>(d, panels, k, t, out)
        })
    };
}
pub(crate) use float_pairs;
