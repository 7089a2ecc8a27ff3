//! Code shared by the microkernels of quantised formats.

use crate::gemm::format::traits::{A, QuantFormat};
use crate::quant::packed_a::Tile;
use crate::simd::int::IntSimd;
use crate::types::PANEL_ROWS;

/// Returns the number of steps (`vpmaddubsw` of two products each) whose sum fits 16 bits, given `per_step` calls per
/// step; at most the four steps of a block.
pub(super) const fn steps<D: IntSimd, F: QuantFormat>(per_step: i32) -> usize {
    assert!(F::SIGNED || F::MAX <= 63, "unsigned quantised values are at most 63");
    if !D::NARROW || F::SIGNED {
        return 4;
    }
    let i16_limit = i16::MAX as i32 / (2 * F::MAX * A) / per_step;
    assert!(i16_limit >= 1, "the products of one step overflow 16 bits");
    match i16_limit {
        1 => 1,
        2 | 3 => 2,
        _ => 4,
    }
}

/// Checks that a tile's buffers are as long as the kernel will read. Cheap compared with a panel.
#[inline(always)]
pub(crate) fn check<D: IntSimd>(
    panels: usize,
    panel: Option<usize>,
    t: &Tile<'_>,
    k: usize,
    c: usize,
    out: &[f32],
) {
    assert!(panel.and_then(|n| n.checked_mul(D::PANELS)) == Some(panels));
    assert!(t.c == c && out.len() >= D::PANELS * c * PANEL_ROWS && t.quants.len() == k * c);
}

/// Returns the address of the quantised activations of the blocks of 32 values from `b` on, for `columns` columns.
///
/// # Safety
/// The tile was [`check`]ed, and has that block.
#[inline(always)]
pub(super) unsafe fn codes_at(t: &Tile<'_>, b: usize, columns: usize) -> *const i8 {
    // SAFETY: the tile was `check`ed, and has that block (`# Safety`).
    unsafe { t.quants.as_ptr().add(b * 32 * columns) }
}
