//! Softmax of the scores of one tile.

use crate::attention::block::{BLOCK_TOKENS, Row, Seen};
use crate::ops::{exp_side_by_side, exp16, join};
use crate::simd::int::F32Simd;

/// Exponentiated scores of one row in a tile: returns their maximum score and their sum. Tokens that are not `seen` become
/// zero; where none is, the maximum is minus infinity.
#[inline(always)]
pub(crate) fn plain_exp_scores(s: &mut Row, seen: Seen) -> (f32, f32) {
    seen.hide(s, f32::NEG_INFINITY);
    let mut max = [f32::NEG_INFINITY; 16];
    for c in s.as_chunks::<16>().0 {
        for i in 0..16 {
            max[i] = if c[i] > max[i] { c[i] } else { max[i] };
        }
    }
    let max = join(&max, |a, b| if b > a { b } else { a });
    exponentials(s, seen, max);
    let mut sum = [0.0_f32; 16];
    for c in s.as_chunks::<16>().0 {
        for i in 0..16 {
            sum[i] += c[i];
        }
    }
    (max, join(&sum, |a, b| a + b))
}

/// As [`plain_exp_scores`].
#[inline(always)]
pub(crate) fn vector_exp_scores<D: F32Simd>(d: D, s: &mut Row, seen: Seen) -> (f32, f32) {
    let max = d.join_max(maxima(d, s, seen));
    exponentials(s, seen, max);
    (max, d.join_sum(sums_of(d, s)))
}

/// [`plain_exp_scores`] of sixteen rows, whose lanes are joined together; `N` exponentials are computed side by side.
#[inline(always)]
pub(crate) fn vector_exp_scores_of_16<D: F32Simd, const N: usize>(
    d: D,
    rows: &mut [Row; 16],
    seen: [Seen; 16],
) -> [[f32; 16]; 2] {
    let mut joined = [d.zeros(); 16];
    for r in 0..16 {
        joined[r] = maxima(d, &mut rows[r], seen[r]);
    }
    let max = d.join_maxima(&joined);
    if seen == [Seen::WHOLE; 16] {
        let less = max.map(|max| -max);
        joined = [d.zeros(); 16];
        let vectors = rows.as_flattened_mut().as_chunks_mut::<16>().0;
        for (group, vectors) in vectors.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            let row = |i: usize| (group * N + i) / (BLOCK_TOKENS / 16);
            let mut x = [d.zeros(); N];
            for i in 0..N {
                // SAFETY: sixteen floats, and one.
                x[i] = unsafe {
                    d.sum(d.load_floats(vectors[i].as_ptr().cast()), d.splat(&raw const less[row(i)]))
                };
            }
            let x = exp_side_by_side(d, x);
            for i in 0..N {
                // SAFETY: sixteen floats.
                unsafe { d.store(x[i], vectors[i].as_mut_ptr()) };
                joined[row(i)] = d.sum(joined[row(i)], x[i]);
            }
        }
    } else {
        for r in 0..16 {
            exponentials(&mut rows[r], seen[r], max[r]);
            joined[r] = sums_of(d, &rows[r]);
        }
    }
    [max, d.join_sums(&joined)]
}

/// The greatest scores of each sixteenth token.
#[inline(always)]
fn maxima<D: F32Simd>(d: D, s: &mut Row, seen: Seen) -> D::Floats {
    seen.hide(s, f32::NEG_INFINITY);
    let lowest = f32::NEG_INFINITY;
    // SAFETY: one readable float.
    let mut max = unsafe { d.splat(&raw const lowest) };
    for c in s.as_chunks::<16>().0 {
        // SAFETY: sixteen floats.
        max = d.max(max, unsafe { d.load_floats(c.as_ptr().cast()) });
    }
    max
}

/// The sums of each sixteenth token's number.
#[inline(always)]
fn sums_of<D: F32Simd>(d: D, s: &Row) -> D::Floats {
    let mut sum = d.zeros();
    for c in s.as_chunks::<16>().0 {
        // SAFETY: sixteen floats.
        sum = d.sum(sum, unsafe { d.load_floats(c.as_ptr().cast()) });
    }
    sum
}

/// `e^(s - max)` of the tokens that are seen; the rest become zero.
#[inline(always)]
fn exponentials(s: &mut Row, seen: Seen, max: f32) {
    for c in s.as_chunks_mut::<16>().0 {
        *c = exp16(&std::array::from_fn(|i| c[i] - max));
    }
    seen.hide(s, 0.0);
}
