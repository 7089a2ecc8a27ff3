//! Least-squares fits shared by the encoders that search, for formats with minima (`affine`) and without
//! (`symmetric`).
//!
//! The problem: values `x` with weights `w` are to be written as `scale * code - min` with integer
//! codes in a small range, so that the weighted squared error is least. With given codes, the
//! best scale and min are a linear least-squares problem with a closed solution; with given scale and min,
//! the best codes are found by rounding. So each step below is "round, then solve", repeated
//! while it helps, from several starting scales because the result depends on the first codes:
//!
//! ```text
//! for each starting scale:
//!     codes = round(x / scale)
//!     (scale, min) = solve(codes)
//!     keep the best
//! repeat from the best: codes = round, (scale, min) = solve, until the error stops falling
//! ```
//!
//! All sums run over eight lanes in a fixed order: fast, and the same on every machine.

use super::{f16_to_f32, finite, scale_bits};

const LANES: usize = 8;

/// Weighted sums over the codes `q` of a group of values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    pub(super) w: f32,
    pub(super) q: f32,
    pub(super) qq: f32,
    pub(super) x: f32,
    pub(super) xq: f32,
}

/// Returns the values of a block of 32, made finite and clipped to `limit`, and their weights; all 1 if `w` is
/// empty or zero.
#[inline(always)]
pub(super) fn block_of_32(x: &[f32], w: &[f32], limit: f32) -> ([f32; 32], [f32; 32]) {
    let (mut values, mut weights) = ([0.0; 32], [1.0; 32]);
    for (value, &x) in values.iter_mut().zip(x) {
        *value = finite(x).clamp(-limit, limit);
    }
    if w.iter().any(|w| *w > 0.0) {
        weights.copy_from_slice(w);
    }
    (values, weights)
}

/// Returns the nearest integer to `t` from `low` to `high`.
///
/// Adding 1.5 * 2^23 leaves no bits for a fraction, so the sum is rounded to an integer (ties to
/// even); a call of `round` would keep the loops around it from being vectorised.
#[inline(always)]
pub(super) fn nearest(t: f32, low: f32, high: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0;
    let clamped = if t < low { low } else { t };
    let clamped = if clamped > high { high } else { clamped };
    (clamped + SHIFT) - SHIFT
}

/// Converts a whole number from 0 to 255 to an integer: its lowest bits after adding 1.5 * 2^23, since saturating
/// casts are not vectorised.
#[inline(always)]
pub(super) fn whole(x: f32) -> u8 {
    (x + 12_582_912.0).to_bits() as u8
}

/// The codes of a format.
pub(super) trait Codes: Copy {
    /// Returns the code nearest to `t`.
    fn nearest(self, t: f32) -> f32;
}

/// All integers from the first to the second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Integers(pub(super) f32, pub(super) f32);

impl Codes for Integers {
    #[inline(always)]
    fn nearest(self, t: f32) -> f32 {
        nearest(t, self.0, self.1)
    }
}

/// Codes that the largest value of a group gets at the start of a search: the first code, the
/// step to the next, and the number of codes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Starts {
    pub(super) first: f32,
    pub(super) step: f32,
    pub(super) n: u8,
}

impl Starts {
    #[inline(always)]
    pub(super) fn code(self, i: usize) -> f32 {
        self.first + self.step * i as f32
    }
}

#[inline(always)]
fn total(lanes: [f32; LANES]) -> f32 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Computes the sums for the codes nearest to `(x + offset) * inverse`.
#[inline(always)]
pub(super) fn moments(x: &[f32], w: &[f32], offset: f32, inverse: f32, codes: impl Codes) -> Moments {
    let (mut sw, mut sq, mut sqq) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    let (mut sx, mut sxq) = ([0.0; LANES], [0.0; LANES]);
    for (x, w) in x.as_chunks::<LANES>().0.iter().zip(w.as_chunks::<LANES>().0) {
        for i in 0..LANES {
            let q = codes.nearest((x[i] + offset) * inverse);
            let wq = w[i] * q;
            sw[i] += w[i];
            sq[i] += wq;
            sqq[i] += wq * q;
            sx[i] += w[i] * x[i];
            sxq[i] += wq * x[i];
        }
    }
    Moments { w: total(sw), q: total(sq), qq: total(sqq), x: total(sx), xq: total(sxq) }
}

/// Computes the sums of [`moments`] that do not depend on codes: of the weights, and of the weighted values.
#[inline(always)]
pub(super) fn sums(x: &[f32], w: &[f32]) -> (f32, f32) {
    let (mut sw, mut sx) = ([0.0; LANES], [0.0; LANES]);
    for (x, w) in x.as_chunks::<LANES>().0.iter().zip(w.as_chunks::<LANES>().0) {
        for i in 0..LANES {
            sw[i] += w[i];
            sx[i] += w[i] * x[i];
        }
    }
    (total(sw), total(sx))
}

/// [`Moments`] of several candidates: the sums that depend on codes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MomentsOf<const N: usize> {
    pub(super) q: [f32; N],
    pub(super) qq: [f32; N],
    pub(super) xq: [f32; N],
}

/// Computes the sums of [`moments`] for several candidates, bit for bit the same: a candidate is a lane of a vector,
/// and lanes are added only after all values.
#[inline(always)]
pub(super) fn moments_of<const N: usize>(
    x: &[f32],
    w: &[f32],
    offset: f32,
    inverse: &[f32; N],
    codes: impl Codes,
) -> MomentsOf<N> {
    let mut q = [[0.0; N]; LANES];
    let (mut qq, mut xq) = (q, q);
    for i in 0..LANES {
        let (mut sq, mut sqq, mut sxq) = ([0.0; N], [0.0; N], [0.0; N]);
        for (x, w) in x.as_chunks::<LANES>().0.iter().zip(w.as_chunks::<LANES>().0) {
            let (x, w) = (x[i], w[i]);
            for c in 0..N {
                let q = codes.nearest((x + offset) * inverse[c]);
                let wq = w * q;
                sq[c] += wq;
                sqq[c] += wq * q;
                sxq[c] += wq * x;
            }
        }
        (q[i], qq[i], xq[i]) = (sq, sqq, sxq);
    }
    MomentsOf { q: totals(&q), qq: totals(&qq), xq: totals(&xq) }
}

/// Computes [`error`] for several candidates, bit for bit the same.
#[inline(always)]
pub(super) fn errors<const N: usize>(
    x: &[f32],
    w: &[f32],
    scale: &[f32; N],
    offset: &[f32; N],
    codes: impl Codes,
) -> [f32; N] {
    let mut inverse = [0.0; N];
    for c in 0..N {
        inverse[c] = reciprocal(scale[c]);
    }
    let mut lanes = [[0.0; N]; LANES];
    for (i, lane) in lanes.iter_mut().enumerate() {
        let mut sum = [0.0; N];
        for (x, w) in x.as_chunks::<LANES>().0.iter().zip(w.as_chunks::<LANES>().0) {
            let (x, w) = (x[i], w[i]);
            for c in 0..N {
                let q = codes.nearest((x + offset[c]) * inverse[c]);
                let miss = scale[c] * q - offset[c] - x;
                sum[c] += w * (miss * miss);
            }
        }
        *lane = sum;
    }
    totals(&lanes)
}

/// Computes [`total`] for several candidates.
#[inline(always)]
fn totals<const N: usize>(lanes: &[[f32; N]; LANES]) -> [f32; N] {
    let [a, b, c, d, e, f, g, h] = lanes;
    let mut sums = [0.0; N];
    for i in 0..N {
        sums[i] = ((a[i] + e[i]) + (c[i] + g[i])) + ((b[i] + f[i]) + (d[i] + h[i]));
    }
    sums
}

/// Computes the weighted squared error of `scale * code - offset` with the best codes.
#[inline(always)]
pub(super) fn error(x: &[f32], w: &[f32], scale: f32, offset: f32, codes: impl Codes) -> f32 {
    let inverse = reciprocal(scale);
    let mut sum = [0.0; LANES];
    for (x, w) in x.as_chunks::<LANES>().0.iter().zip(w.as_chunks::<LANES>().0) {
        for i in 0..LANES {
            let q = codes.nearest((x[i] + offset) * inverse);
            let miss = scale * q - offset - x[i];
            sum[i] += w[i] * (miss * miss);
        }
    }
    total(sum)
}

/// Returns `1 / scale`, or 0 if that is not finite: all codes are then the one nearest 0.
#[inline(always)]
pub(super) fn reciprocal(scale: f32) -> f32 {
    let inverse = 1.0 / scale;
    if inverse.is_finite() { inverse } else { 0.0 }
}

/// Returns the factor of a super-block as it is stored: the nearest half-precision number, but neither
/// infinite nor 0 unless `x` is 0 or NaN, because all values would become 0 with it.
#[inline(always)]
pub(super) fn factor(x: f32) -> f32 {
    match scale_bits(x) {
        0x0000 if x > 0.0 => f16_to_f32(0x0001),
        0x8000 if x < 0.0 => f16_to_f32(0x8001),
        _ if x.is_nan() => 0.0,
        bits => f16_to_f32(bits),
    }
}

/// Rounds like [`factor`], but not to a smaller magnitude than `x`, if that is finite in half precision: the
/// groups' scales in units of it then stay in range. Among the subnormal halves, rounding to nearest
/// could lose up to half of the range.
#[inline(always)]
pub(super) fn ample_factor(x: f32) -> f32 {
    const LARGEST: u16 = 0x7bff;
    let rounded = factor(x);
    let bits = scale_bits(rounded);
    if rounded.abs() < x.abs() && bits & 0x7fff < LARGEST { f16_to_f32(bits + 1) } else { rounded }
}
