//! The search for scale and minimum of single blocks of 32 values, shared by the encoders of Q4_1 and Q5_1.
//!
//! A value is `d * code + m`, with codes from 0 on and a minimum of either sign. Unlike in the super-blocks of
//! `affine`, scale and minimum are stored directly, in half precision.

use super::fit::{self, Integers, Moments};
use super::q4_0::inverse;
use super::{F16_MAX, f16_to_f32, finite, scale_bits};

/// Number of candidates that are evaluated at once.
const AT_ONCE: usize = 16;

/// Scale and minimum of a block whose codes go from 0 to `max_code`, computed as in gguf-py.
pub(super) struct MinScale {
    /// The scale, as half-precision bits.
    pub(super) d: u16,
    /// The minimum, as half-precision bits.
    pub(super) m: u16,
    from: f32,
    inverse: f32,
    max_code: f32,
}

impl MinScale {
    /// Computes scale and minimum. As in gguf-py, codes count from the minimum before it was rounded to 16 bits,
    /// except if that is out of range. Of several smallest values the first determines the sign of zero.
    pub(super) fn of(x: &[f32], max_code: f32) -> MinScale {
        let (mut low, mut high) = (finite(x[0]), finite(x[0]));
        for &v in x {
            let v = finite(v);
            low = if v < low { v } else { low };
            high = if v > high { v } else { high };
        }
        let m = scale_bits(low);
        let from = if low.abs() > F16_MAX { f16_to_f32(m) } else { low };
        let d = finite(high - from).max(0.0) / max_code;
        let bits = scale_bits(d);
        MinScale { d: bits, m, from, inverse: inverse(d, bits), max_code }
    }

    pub(super) fn code(&self, v: f32) -> u8 {
        (finite(finite(v) - self.from) * self.inverse + 0.5).clamp(0.0, self.max_code) as u8
    }
}

/// Searches for scale and minimum, returned as half-precision bits, and codes of least weighted squared error. If all
/// weights are 0, all values count alike.
#[inline(always)]
pub(super) fn search(x: &[f32], w: &[f32], max_code: f32) -> (u16, u16, [u8; 32]) {
    // Values far beyond this cannot be represented, and squares of the limited values stay finite.
    let limit = F16_MAX * max_code;
    let (x, w) = fit::block_of_32(x, w, limit);
    let (d, min) = stored(&x, &w, max_code);
    let reciprocal = fit::reciprocal(d);
    let mut codes = [0; 32];
    for (code, x) in codes.iter_mut().zip(&x) {
        *code = fit::whole(fit::nearest((x + min) * reciprocal, 0.0, max_code));
    }
    (scale_bits(d), scale_bits(-min), codes)
}

/// Returns the scale and the offset that is subtracted from its multiples, both rounded to half precision.
#[inline(always)]
fn stored(x: &[f32; 32], w: &[f32; 32], max_code: f32) -> (f32, f32) {
    let codes = Integers(0.0, max_code);
    let low = x.iter().fold(f32::INFINITY, |a, &b| a.min(b));
    let high = x.iter().fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let plain = (half((high - low) / max_code), half(-low));
    if high == low {
        return (0.0, plain.1);
    }
    let (weight, sum) = fit::sums(x, w);
    // From clipping the extremes by a fifth to leaving the outer codes unused.
    let mut starts = [0.0; AT_ONCE];
    for (c, start) in starts.iter_mut().enumerate() {
        *start = max_code * (0.8 + 0.025 * c as f32) / (high - low);
    }
    let m = fit::moments_of(x, w, -low, &starts, codes);
    let (mut best, mut gain) = ((max_code / (high - low), -low), f32::NEG_INFINITY);
    for c in 0..AT_ONCE {
        let m = Moments { w: weight, q: m.q[c], qq: m.qq[c], x: sum, xq: m.xq[c] };
        if let Some((scale, min, explains)) = solve(&m)
            && explains > gain
        {
            (best, gain) = ((scale, min), explains);
        }
    }
    for _ in 0..4 {
        let m = fit::moments(x, w, best.1, fit::reciprocal(best.0), codes);
        match solve(&m) {
            Some((scale, min, explains)) if explains > gain => (best, gain) = ((scale, min), explains),
            _ => break,
        }
    }
    // Storable values near it: three scales, each with its best minimum and that one's neighbours, and the plain
    // solution.
    let (mut scales, mut mins) = ([plain.0; AT_ONCE], [plain.1; AT_ONCE]);
    let mut at = 0;
    for scale in neighbours(best.0) {
        let m = fit::moments(x, w, best.1, fit::reciprocal(scale), codes);
        let min = if weight > 0.0 { (scale * m.q - sum) / weight } else { best.1 };
        for min in neighbours(min) {
            (scales[at], mins[at]) = (scale, min);
            at += 1;
        }
    }
    let errors = fit::errors(x, w, &scales, &mins, codes);
    let mut found = AT_ONCE - 1;
    for c in 0..at {
        if errors[c] < errors[found] && scales[c] > 0.0 {
            found = c;
        }
    }
    (scales[found], mins[found])
}

/// Returns the scale and minimum of least error for codes, and the part of the sum of squares that they explain.
#[inline(always)]
fn solve(m: &Moments) -> Option<(f32, f32, f32)> {
    let det = m.w * m.qq - m.q * m.q;
    let scale = (m.w * m.xq - m.x * m.q) / det;
    let min = (m.q * m.xq - m.qq * m.x) / det;
    (det > 0.0 && scale > 0.0 && min.is_finite()).then_some((scale, min, scale * m.xq - min * m.x))
}

fn half(x: f32) -> f32 {
    f16_to_f32(scale_bits(x))
}

/// Returns a number in half precision, the one below it in magnitude and the one above.
#[inline(always)]
fn neighbours(x: f32) -> [f32; 3] {
    const LARGEST: u16 = 0x7bff;
    let bits = scale_bits(x);
    let (sign, size) = (bits & 0x8000, bits & 0x7fff);
    [bits, sign | size.saturating_sub(1), sign | (size + 1).min(LARGEST)].map(f16_to_f32)
}

#[cfg(test)]
mod tests {
    use crate::quant::{Block, Q4_1, Q5_1};

    /// Returns values with an outlier, from a formula.
    fn values(seed: u32) -> [f32; 32] {
        std::array::from_fn(|i| {
            let n = (i as u32 + 1).wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(40_503));
            let x = (n >> 8) as f32 / (1 << 24) as f32 - 0.3;
            if i == 5 { 3.0 * x } else { x }
        })
    }

    fn error<B: Block>(block: &B, x: &[f32], w: &[f32]) -> f32 {
        let mut out = [0.0; 32];
        block.decode(&mut out);
        x.iter().zip(&out).zip(w).map(|((x, y), w)| w * (x - y) * (x - y)).sum()
    }

    fn better<B: Block>(least: f32) {
        let (mut searched, mut plain) = (0.0, 0.0);
        for seed in 0..200 {
            let x = values(seed);
            let w: [f32; 32] = std::array::from_fn(|i| 0.1 + ((i as u32 * 7 + seed) % 11) as f32);
            let (a, b) = (error(&B::encode_weighted(&x, &w), &x, &w), error(&B::encode(&x), &x, &w));
            assert!(a <= b * 1.000_1, "{seed}: {a} is more than {b}");
            (searched, plain) = (searched + a, plain + b);
        }
        assert!(searched < least * plain, "{searched} of {plain}");
    }

    #[test]
    fn searched_blocks_have_smaller_errors() {
        better::<Q4_1>(0.85);
        better::<Q5_1>(0.9);
    }

    #[test]
    fn what_counts_more_is_nearer() {
        let x = values(3);
        let mut w = [0.01; 32];
        w[5] = 100.0;
        let mut out = [0.0; 32];
        Q4_1::encode_weighted(&x, &w).decode(&mut out);
        assert!((out[5] - x[5]).abs() < 1e-3, "{} for {}", out[5], x[5]);
    }

    #[test]
    fn grids_constants_and_what_is_no_number_survive() {
        let grid: [f32; 32] = std::array::from_fn(|i| (i % 16) as f32 * 0.5 - 3.0);
        let mut out = [0.0; 32];
        Q4_1::encode_weighted(&grid, &[1.0; 32]).decode(&mut out);
        assert_eq!(out, grid);
        for x in [[0.0; 32], [-1.5; 32]] {
            Q5_1::encode_weighted(&x, &[1.0; 32]).decode(&mut out);
            assert_eq!(out, x);
        }
        let mut odd = values(1);
        (odd[0], odd[1], odd[2]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
        for w in [[1.0; 32], [0.0; 32]] {
            Q4_1::encode_weighted(&odd, &w).decode(&mut out);
            assert!(out.iter().all(|x| x.is_finite()));
        }
    }
}
