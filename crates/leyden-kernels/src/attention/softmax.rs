//! Softmax exponentials of the scores of one tile.

use crate::attention::block::{BLOCK_TOKENS, Row, TileRange};
use crate::ops::{exp_side_by_side, exp16, join};
use crate::simd::int::F32Simd;

/// Replaces the scores of one row in a tile by `e^(score - max)`; returns the maximum score and the sum of the
/// exponentials. Tokens outside `attended` become zero; if `attended` is empty, the maximum is minus infinity.
#[inline(always)]
pub(crate) fn plain_exp_scores(s: &mut Row, attended: TileRange) -> (f32, f32) {
    attended.hide(s, f32::NEG_INFINITY);
    let mut max = [f32::NEG_INFINITY; 16];
    for c in s.as_chunks::<16>().0 {
        for i in 0..16 {
            max[i] = if c[i] > max[i] { c[i] } else { max[i] };
        }
    }
    let max = join(&max, |a, b| if b > a { b } else { a });
    exponentials(s, attended, max);
    let mut sum = [0.0_f32; 16];
    for c in s.as_chunks::<16>().0 {
        for i in 0..16 {
            sum[i] += c[i];
        }
    }
    (max, join(&sum, |a, b| a + b))
}

/// Vector form of [`plain_exp_scores`].
#[inline(always)]
pub(crate) fn vector_exp_scores<D: F32Simd>(d: D, s: &mut Row, attended: TileRange) -> (f32, f32) {
    let max = d.join_max(maxima(d, s, attended));
    exponentials(s, attended, max);
    (max, d.join_sum(sums_of(d, s)))
}

/// Computes [`plain_exp_scores`] of 16 rows, whose lanes are reduced together; `N` exponentials are computed side by
/// side.
#[inline(always)]
pub(crate) fn vector_exp_scores_of_16<D: F32Simd, const N: usize>(
    d: D,
    rows: &mut [Row; 16],
    attended: [TileRange; 16],
) -> [[f32; 16]; 2] {
    let mut joined = [d.zeros(); 16];
    for r in 0..16 {
        joined[r] = maxima(d, &mut rows[r], attended[r]);
    }
    let max = d.join_maxima(&joined);
    if attended == [TileRange::WHOLE; 16] {
        let less = max.map(|max| -max);
        joined = [d.zeros(); 16];
        let vectors = rows.as_flattened_mut().as_chunks_mut::<16>().0;
        for (group, vectors) in vectors.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            let row = |i: usize| (group * N + i) / (BLOCK_TOKENS / 16);
            let mut x = [d.zeros(); N];
            for i in 0..N {
                // SAFETY: 16 floats, and one.
                x[i] = unsafe {
                    d.sum(d.load_floats(vectors[i].as_ptr().cast()), d.splat(&raw const less[row(i)]))
                };
            }
            let x = exp_side_by_side(d, x);
            for i in 0..N {
                // SAFETY: 16 floats.
                unsafe { d.store(x[i], vectors[i].as_mut_ptr()) };
                joined[row(i)] = d.sum(joined[row(i)], x[i]);
            }
        }
    } else {
        for r in 0..16 {
            exponentials(&mut rows[r], attended[r], max[r]);
            joined[r] = sums_of(d, &rows[r]);
        }
    }
    [max, d.join_sums(&joined)]
}

/// Returns the maximum of every 16th score, per lane.
#[inline(always)]
fn maxima<D: F32Simd>(d: D, s: &mut Row, attended: TileRange) -> D::Floats {
    attended.hide(s, f32::NEG_INFINITY);
    let lowest = f32::NEG_INFINITY;
    // SAFETY: one readable float.
    let mut max = unsafe { d.splat(&raw const lowest) };
    for c in s.as_chunks::<16>().0 {
        // SAFETY: 16 floats.
        max = d.max(max, unsafe { d.load_floats(c.as_ptr().cast()) });
    }
    max
}

/// Returns the sum of every 16th value, per lane.
#[inline(always)]
fn sums_of<D: F32Simd>(d: D, s: &Row) -> D::Floats {
    let mut sum = d.zeros();
    for c in s.as_chunks::<16>().0 {
        // SAFETY: 16 floats.
        sum = d.sum(sum, unsafe { d.load_floats(c.as_ptr().cast()) });
    }
    sum
}

/// Computes `e^(s - max)` of the tokens in `attended`; the others become zero.
#[inline(always)]
fn exponentials(s: &mut Row, attended: TileRange, max: f32) {
    for c in s.as_chunks_mut::<16>().0 {
        *c = exp16(&std::array::from_fn(|i| c[i] - max));
    }
    attended.hide(s, 0.0);
}
