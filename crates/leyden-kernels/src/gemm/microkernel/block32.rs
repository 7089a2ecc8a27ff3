//! Microkernel of formats with a float scale per 32 values.

use crate::cpu::isa::AccInit;
use crate::gemm::format::traits::Block32;
use crate::gemm::microkernel::common::{check, codes_at, steps};
use crate::gemm::unpack::stream::{
    KEPT, KEPT_COLUMNS, MIN_KEPT, ScaleCopy, Stream, multiply_port_bound, zero_point_in_acc_init,
};
use crate::quant::packed_a::Tile;
use crate::quant::quantize::ZERO_POINT_SHIFT;
use crate::simd::int::{BIAS, INTEGERS, IntSimd};
use crate::types::PANEL_ROWS;

/// Multiplies a panel of a Block32 format, or as many panels as `D` takes together, with `C * D::COLUMNS` columns of a
/// tile.
#[inline(always)]
pub(crate) fn block32<D: IntSimd, F: Block32, const SIGNED: bool, const C: usize>(
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
    let acc_init = match D::ACC_INIT {
        AccInit::Shift if F::UNPACKED => zero != 0,
        AccInit::Shift => zero == ZERO_POINT_SHIFT || const { zero_point_in_acc_init::<D, F, C>() },
        _ => false,
    };
    assert!(!acc_init || t.acc_init.len() == blocks * columns);
    let (t, out) = (&t.after(d.first()), &mut out[d.first() * PANEL_ROWS..]);
    let steps = const { steps::<D, F>(2) };
    if F::FOLLOWED {
        // Each line of quantised values prefetches the line after the panel that corresponds to it; so must those of
        // the scales.
        for at in (0..first).step_by(64) {
            d.prefetch_following(panel.as_ptr().wrapping_add(at), C);
        }
    }
    let mut y = [d.zeros(); C];
    let keep = const { D::AGAIN && C <= KEPT_COLUMNS && !F::UNPACKED } && blocks >= MIN_KEPT;
    let mut kept = ScaleCopy::new();
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
                        s[c] = if acc_init {
                            d.begin(t.acc_init.as_ptr().add(b * columns + c * D::COLUMNS), zero)
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
            // The product with the scale is exact, because a half has eleven significant bits, so the multiply-add
            // below rounds the product of sum and scale once. (An infinite scale, which no encoder writes, gives NaN.)
            // If only the multiply port is a bottleneck, the bias is subtracted first, which is exact too.
            let bias = if D::BIASED { d.splat(&-BIAS) } else { d.zeros() };
            let at_once = F::HALVES && const { !multiply_port_bound::<D, F, C>() };
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
        unsafe { d.store(y[c], out.as_mut_ptr().add(c * D::COLUMNS * PANEL_ROWS)) };
    }
}
