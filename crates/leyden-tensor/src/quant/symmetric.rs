//! The search for scales in super-blocks of 256 values, shared by the encoders of Q3_K, Q6_K and IQ4_XS.
//!
//! A value is `(d * scale) * code`, with codes and scales of either sign and one half-precision
//! factor. First every group is fitted by itself (see [`fit`]), then the factor is set so that the
//! largest scale fits, the scales are chosen again in units of it, and the factor is solved for again
//! while that lowers the error.

use super::fit::{self, Codes, Starts};
use super::{F16_MAX, finite, scale_bits};

/// Number of candidates that are evaluated at once.
const AT_ONCE: usize = 16;

/// The parameters in which the formats differ.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<C> {
    pub(super) codes: C,
    /// Code of largest magnitude.
    pub(super) extreme: f32,
    /// Lowest scale; the highest is one less than its magnitude.
    pub(super) low_scale: f32,
    pub(super) starts: Starts,
}

/// A search in one super-block.
pub(super) struct Search<'a, C, const GROUPS: usize> {
    x: [f32; 256],
    w: &'a [f32; 256],
    shape: Shape<C>,
}

/// Parameters as they are stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params<const GROUPS: usize> {
    pub(super) d: f32,
    pub(super) scales: [f32; GROUPS],
    error: f32,
}

impl<'a, C: Codes, const GROUPS: usize> Search<'a, C, GROUPS> {
    #[inline(always)]
    pub(super) fn new(x: &[f32], w: &'a [f32; 256], shape: Shape<C>) -> Self {
        assert_eq!(x.len(), 256, "values of a super-block");
        // Larger values cannot be represented, and squares of the limited values stay finite.
        let limit = F16_MAX * shape.low_scale * shape.extreme;
        let mut values = [0.0; 256];
        for (value, &x) in values.iter_mut().zip(x) {
            *value = finite(x).clamp(-limit, limit);
        }
        Search { x: values, w, shape }
    }

    #[inline(always)]
    fn group(&self, j: usize) -> (&[f32], &[f32]) {
        let len = 256 / GROUPS;
        let range = j * len..(j + 1) * len;
        (&self.x[range.clone()], &self.w[range])
    }

    /// Returns the best parameters that were found, and the code of every value.
    #[inline(always)]
    pub(super) fn run(&self) -> (Params<GROUPS>, [f32; 256]) {
        let mut ideal = [0.0; GROUPS];
        for (j, scale) in ideal.iter_mut().enumerate() {
            let (x, w) = self.group(j);
            *scale = fit_group(x, w, &self.shape);
        }
        let largest = ideal.iter().fold(0.0, |a: f32, &b| if b.abs() > a.abs() { b } else { a });
        // There is one more negative number than positive ones: the largest scale becomes the lowest.
        let best = self.improve(&ideal, fit::ample_factor(largest / self.shape.low_scale));
        (best, self.quantise(&best))
    }

    /// Quantises the groups' scales with a given factor, then alternately solves for the factor and
    /// chooses the scales again while that lowers the error.
    #[inline(always)]
    fn improve(&self, ideal: &[f32; GROUPS], d: f32) -> Params<GROUPS> {
        let mut best = self.choose(ideal, d);
        for _ in 0..2 {
            let d = self.solve_factor(&best);
            if d == best.d {
                break;
            }
            let next = self.choose(ideal, d);
            if next.error >= best.error {
                break;
            }
            best = next;
        }
        best
    }

    #[inline(always)]
    fn choose(&self, ideal: &[f32; GROUPS], d: f32) -> Params<GROUPS> {
        let (low, high) = (self.shape.low_scale, -self.shape.low_scale - 1.0);
        let mut params = Params { d, scales: [0.0; GROUPS], error: 0.0 };
        for (j, &scale) in ideal.iter().enumerate() {
            let (x, w) = self.group(j);
            let s0 = fit::nearest(scale * fit::reciprocal(d), low, high);
            let mut least = f32::INFINITY;
            // The last one only fills the vector.
            let near = [s0, s0 - 1.0, s0 + 1.0, s0];
            let errors = fit::errors(x, w, &near.map(|s| d * s), &[0.0; 4], self.shape.codes);
            for (s, error) in near.into_iter().zip(errors) {
                if (low..=high).contains(&s) && error < least {
                    (least, params.scales[j]) = (error, s);
                }
            }
            params.error += least;
        }
        params
    }

    /// Returns the factor of least error for the groups' scales and the codes that follow from them.
    #[inline(always)]
    fn solve_factor(&self, p: &Params<GROUPS>) -> f32 {
        let (mut aa, mut ax) = (0.0, 0.0);
        for (j, &s) in p.scales.iter().enumerate() {
            let (x, w) = self.group(j);
            let m = fit::moments(x, w, 0.0, fit::reciprocal(p.d * s), self.shape.codes);
            aa += s * s * m.qq;
            ax += s * m.xq;
        }
        let d = fit::factor(ax / aa);
        if d == 0.0 { p.d } else { d }
    }

    #[inline(always)]
    fn quantise(&self, p: &Params<GROUPS>) -> [f32; 256] {
        let mut codes = [0.0; 256];
        let groups = codes.chunks_exact_mut(256 / GROUPS).zip(self.x.chunks_exact(256 / GROUPS));
        for ((codes, x), scale) in groups.zip(&p.scales) {
            let inverse = fit::reciprocal(p.d * scale);
            for (code, x) in codes.iter_mut().zip(x) {
                *code = self.shape.codes.nearest(x * inverse);
            }
        }
        codes
    }
}

/// Returns the scale of least error for one group, of either sign, since codes extend further on one side of
/// zero than on the other.
#[inline(always)]
pub(super) fn fit_group<C: Codes>(x: &[f32], w: &[f32], shape: &Shape<C>) -> f32 {
    let largest = x.iter().fold(0.0, |a: f32, &b| if b.abs() > a.abs() { b } else { a });
    if largest == 0.0 {
        return 0.0;
    }
    let mut best = Fit { scale: largest / shape.extreme, gain: f32::NEG_INFINITY };
    // Either sign of every starting code; the last one only fills the last vector.
    let last = 2 * usize::from(shape.starts.n) - 1;
    for from in (0..=last).step_by(AT_ONCE) {
        let mut inverse = [0.0; AT_ONCE];
        for (c, inverse) in inverse.iter_mut().enumerate() {
            let i = last.min(from + c);
            let code = shape.starts.code(i / 2);
            *inverse = if i % 2 == 0 { -code / largest } else { code / largest };
        }
        let m = fit::moments_of(x, w, 0.0, &inverse, shape.codes);
        let (mut scale, mut gain) = ([0.0; AT_ONCE], [0.0; AT_ONCE]);
        for c in 0..AT_ONCE {
            let fit = Fit::of(m.qq[c], m.xq[c]);
            (scale[c], gain[c]) = (fit.scale, fit.gain);
        }
        for (scale, gain) in scale.into_iter().zip(gain) {
            best = best.or(Fit { scale, gain });
        }
    }
    for _ in 0..3 {
        let next = Fit::solve(x, w, fit::reciprocal(best.scale), shape.codes);
        if next.gain <= best.gain {
            break;
        }
        best = next;
    }
    best.scale
}

/// Returns the scale, as half-precision bits, and the codes, counted from the lowest, of 32 values with one scale:
/// the scale that [`on_grid`] finds, else that of least error.
#[inline(always)]
pub(super) fn encode_32(x: &[f32], w: &[f32], shape: &Shape<fit::Integers>) -> (u16, [u8; 32]) {
    let limit = F16_MAX * -shape.extreme;
    let (x, w) = fit::block_of_32(x, w, limit);
    let d = match on_grid(&x, shape) {
        Some(d) => d,
        None => {
            let ideal = fit::factor(fit_group(&x, &w, shape));
            // Codes can change with the rounding of the scale; then another scale may fit them better.
            let m = fit::moments(&x, &w, 0.0, fit::reciprocal(ideal), shape.codes);
            let again = fit::factor(m.xq / m.qq);
            let error = fit::error(&x, &w, ideal, 0.0, shape.codes);
            if fit::error(&x, &w, again, 0.0, shape.codes) < error { again } else { ideal }
        }
    };
    let (inverse, fit::Integers(low, _)) = (fit::reciprocal(d), shape.codes);
    let mut codes = [0; 32];
    for (code, x) in codes.iter_mut().zip(&x) {
        *code = fit::whole(shape.codes.nearest(x * inverse) - low);
    }
    (scale_bits(d), codes)
}

/// Returns the scale, as it is stored, of which all values are integer multiples within half a BF16 step. These are
/// the values of a checkpoint from quantisation-aware training with such blocks; a search would lose their grid.
#[inline(always)]
pub(super) fn on_grid(x: &[f32; 32], shape: &Shape<fit::Integers>) -> Option<f32> {
    let largest = x.iter().fold(0.0, |a: f32, &b| if b.abs() > a.abs() { b } else { a });
    let fit::Integers(low, high) = shape.codes;
    // BF16 has eight significant bits, and F16 eleven.
    const TOLERANCE: f32 = 1.0 / 256.0 + 1.0 / 2048.0;
    // With few codes many values would fit by chance, so a grid must use most of its codes.
    let codes: [f32; 32] = array_of(low);
    let mut scales = [0.0; 32];
    let mut inverse = [0.0; 32];
    let mut miss = [0.0_f32; 32];
    for c in 0..32 {
        scales[c] = largest / codes[c];
        inverse[c] = fit::reciprocal(scales[c]);
        miss[c] = if codes[c].abs() * 2.0 > high && codes[c] <= high { 0.0 } else { 1.0 };
    }
    // Most blocks are on no grid, and a few values show it before scales are rounded. Rounding moves a multiple by
    // half of the margin added here, except among the subnormal halves, where all are tried.
    if largest.abs() > 1.0 / 512.0 {
        for x in x.as_chunks::<4>().0 {
            for x in x {
                for c in 0..32 {
                    let code = shape.codes.nearest(x * inverse[c]);
                    let off = (x - scales[c] * code).abs() > x.abs() * (TOLERANCE + 1.0 / 1024.0);
                    miss[c] = if off { 1.0 } else { miss[c] };
                }
            }
            if miss.iter().all(|&miss| miss != 0.0) {
                return None;
            }
        }
    }
    for (scale, miss) in scales.into_iter().zip(miss) {
        let d = fit::factor(scale);
        if miss == 0.0 && d != 0.0 && fits(x, d, shape, TOLERANCE) {
            return Some(d);
        }
    }
    None
}

/// Returns 32 numbers from `first` on, each larger by 1.
#[inline(always)]
fn array_of(first: f32) -> [f32; 32] {
    let mut all = [first; 32];
    let mut next = first;
    for value in &mut all {
        *value = next;
        next += 1.0;
    }
    all
}

/// Returns true if all values are integer multiples of `d`, within `tolerance` relative to their magnitude.
#[inline(always)]
fn fits(x: &[f32; 32], d: f32, shape: &Shape<fit::Integers>, tolerance: f32) -> bool {
    let inverse = fit::reciprocal(d);
    x.iter().all(|&x| {
        let code = shape.codes.nearest(x * inverse);
        (x - d * code).abs() <= x.abs() * tolerance
    })
}

/// A solution for one group; `gain` is the part of the sum of squares that it explains.
#[derive(Clone, Copy)]
struct Fit {
    scale: f32,
    gain: f32,
}

impl Fit {
    #[inline(always)]
    fn solve(x: &[f32], w: &[f32], inverse: f32, codes: impl Codes) -> Fit {
        let m = fit::moments(x, w, 0.0, inverse, codes);
        Fit::of(m.qq, m.xq)
    }

    #[inline(always)]
    fn of(qq: f32, xq: f32) -> Fit {
        // Computed unconditionally, so that loops around it are vectorised.
        let scale = xq / qq;
        let found = qq > 0.0;
        Fit {
            scale: if found { scale } else { 0.0 },
            gain: if found { scale * xq } else { f32::NEG_INFINITY },
        }
    }

    #[inline(always)]
    fn or(self, other: Fit) -> Fit {
        if other.gain > self.gain { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape<fit::Integers> = Shape {
        codes: fit::Integers(-16.0, 15.0),
        extreme: -16.0,
        low_scale: -1.0,
        starts: Starts { first: 14.6, step: 0.3, n: 11 },
    };

    /// Large, small, and among the subnormal halves, where scales cannot be distinguished before they are rounded.
    #[test]
    fn a_grid_is_found_at_any_scale() {
        for d in [3.0, -0.25, 1.0 / 4096.0, 3.0 / 1_048_576.0, -5.0 / 16_777_216.0] {
            let x: [f32; 32] = std::array::from_fn(|i| d * (i as f32 - 16.0));
            assert_eq!(on_grid(&x, &SHAPE), Some(d));
            let mut off = x;
            off[31] += 0.3 * d;
            assert_eq!(on_grid(&off, &SHAPE), None, "{d}");
        }
    }

    #[test]
    fn many_candidates_have_the_sums_of_one() {
        let x: [f32; 32] = std::array::from_fn(|i| (i as f32 * 0.7).sin());
        let w: [f32; 32] = std::array::from_fn(|i| 1.0 + i as f32 / 3.0);
        let inverse: [f32; 16] = std::array::from_fn(|i| 9.0 + i as f32 / 5.0);
        let (scale, offset) = (inverse.map(|i| 1.0 / i), inverse.map(|i| i / 40.0));
        let m = fit::moments_of(&x, &w, 0.2, &inverse, SHAPE.codes);
        let errors = fit::errors(&x, &w, &scale, &offset, SHAPE.codes);
        for c in 0..16 {
            let one = fit::moments(&x, &w, 0.2, inverse[c], SHAPE.codes);
            assert_eq!((m.q[c], m.qq[c], m.xq[c]), (one.q, one.qq, one.xq));
            assert_eq!(errors[c], fit::error(&x, &w, scale[c], offset[c], SHAPE.codes));
        }
    }
}
