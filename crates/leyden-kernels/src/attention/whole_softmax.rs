//! Softmax over a whole row of scores, which are logarithms to base 2. The exponential is a polynomial of degree 4,
//! accurate enough for weights that become 8-bit integers.

use crate::ops::join;
use crate::simd::int::F32Simd;

/// Lower bound of scores relative to the greatest one, so that exponents stay in range.
const LOW: f32 = -55.0;
/// Constant (1.5 * 2^23) whose addition leaves the rounded value in the low mantissa bits.
const ROUND: f32 = 12_582_912.0;
/// Coefficients of `2^f` for `f` between -1/2 and 1/2, from the highest power down; error at most 3e-6.
const P: [f32; 5] = [9.570_101e-3, 5.591_786_3e-2, 0.240_247_44, 0.693_121_8, 0.999_999_3];

/// Replaces whole vectors of scores by the weights `2^(s - greatest)` and returns their sum. The greatest weight is 1;
/// scores 55 or more below the greatest become `2^-55`.
#[inline(always)]
pub(crate) fn plain(scores: &mut [f32]) -> f32 {
    let chunks = scores.as_chunks_mut::<16>().0;
    let mut most = [f32::NEG_INFINITY; 16];
    for c in &*chunks {
        for i in 0..16 {
            most[i] = if c[i] > most[i] { c[i] } else { most[i] };
        }
    }
    let most = join(&most, |a, b| if b > a { b } else { a });
    let mut sum = [0.0_f32; 16];
    for c in chunks {
        for i in 0..16 {
            let x = c[i] - most;
            let x = if x < LOW { LOW } else { x };
            let n = x + ROUND;
            let f = x - (n - ROUND);
            let mut p = P[0];
            for c in &P[1..] {
                p = p.mul_add(f, *c);
            }
            c[i] = f32::from_bits(p.to_bits().wrapping_add(n.to_bits() << 23));
            sum[i] += c[i];
        }
    }
    join(&sum, |a, b| a + b)
}

/// Vector form of [`plain`].
#[inline(always)]
pub(crate) fn over_vectors<D: F32Simd>(d: D, scores: &mut [f32]) -> f32 {
    /// Number of vectors whose exponentials are computed side by side.
    const N: usize = 4;
    let chunks = scores.as_chunks_mut::<16>().0;
    let lowest = splat(d, f32::NEG_INFINITY);
    let mut most = lowest;
    for c in &*chunks {
        // SAFETY: 16 floats.
        most = d.max(most, unsafe { d.load_floats(c.as_ptr().cast()) });
    }
    let less = splat(d, -d.join_max(most));
    let mut sum = d.zeros();
    let (fours, rest) = chunks.as_chunks_mut::<N>();
    for four in fours {
        let made = exponentials(d, four, less);
        for i in 0..N {
            sum = d.sum(sum, made[i]);
        }
    }
    for one in rest {
        let [made] = exponentials(d, std::array::from_mut(one), less);
        sum = d.sum(sum, made);
    }
    d.join_sum(sum)
}

#[inline(always)]
fn splat<D: F32Simd>(d: D, x: f32) -> D::Floats {
    // SAFETY: one readable float.
    unsafe { d.splat(&raw const x) }
}

/// Replaces `N` vectors of scores by their weights.
#[inline(always)]
fn exponentials<D: F32Simd, const N: usize>(d: D, x: &mut [[f32; 16]; N], less: D::Floats) -> [D::Floats; N] {
    let (low, round, less_round) = (splat(d, LOW), splat(d, ROUND), splat(d, -ROUND));
    let minus = splat(d, -1.0);
    let none = d.zeros();
    // Loops, because closures over vectors may not be compiled for the instruction set.
    let (mut s, mut n, mut y) = ([none; N], [none; N], [splat(d, P[0]); N]);
    for i in 0..N {
        // SAFETY: 16 floats.
        s[i] = d.max(low, d.sum(unsafe { d.load_floats(x[i].as_ptr().cast()) }, less));
    }
    for i in 0..N {
        n[i] = d.sum(s[i], round);
    }
    for i in 0..N {
        // Exact, so fma and separate operations give the same result.
        s[i] = d.fma(d.sum(n[i], less_round), minus, s[i]);
    }
    for c in &P[1..] {
        let c = splat(d, *c);
        for i in 0..N {
            y[i] = d.fma(y[i], s[i], c);
        }
    }
    for i in 0..N {
        y[i] = d.add_exponent(y[i], n[i]);
    }
    for i in 0..N {
        // SAFETY: room for 16 floats.
        unsafe { d.store(y[i], x[i].as_mut_ptr()) };
    }
    y
}
