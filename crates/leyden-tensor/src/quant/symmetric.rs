//! The search for scales in super-blocks of 256 values: what the encoders of Q3_K, Q6_K and IQ4_XS
//! share.
//!
//! A value is `(d * scale) * code`, with codes and scales of either sign and one half-precision
//! factor. First every group is fitted by itself (see [`fit`]), then the factor is set so that the
//! largest scale fits, the scales are chosen again in units of it, and the factor is solved for again
//! while that lowers the error.

use super::fit::{self, Codes, Starts};
use super::{F16_MAX, finite, scale_bits};

/// What distinguishes the formats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<C> {
    pub(super) codes: C,
    /// The code of largest magnitude.
    pub(super) extreme: f32,
    /// The lowest scale; the highest is one less than its magnitude.
    pub(super) low_scale: f32,
    pub(super) starts: Starts,
}

/// A search in one super-block.
pub(super) struct Search<'a, C, const GROUPS: usize> {
    x: [f32; 256],
    w: &'a [f32; 256],
    shape: Shape<C>,
}

/// Parameters as they will be stored.
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
        // Nothing beyond this can be represented, and squares of what is left stay finite.
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

    /// The best parameters that were found, and the code of every value.
    #[inline(always)]
    pub(super) fn run(&self) -> (Params<GROUPS>, [f32; 256]) {
        let ideal: [f32; GROUPS] = std::array::from_fn(|j| {
            let (x, w) = self.group(j);
            fit_group(x, w, &self.shape)
        });
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
            for s in [s0, s0 - 1.0, s0 + 1.0] {
                if !(low..=high).contains(&s) {
                    continue;
                }
                let error = fit::error(x, w, d * s, 0.0, self.shape.codes);
                if error < least {
                    (least, params.scales[j]) = (error, s);
                }
            }
            params.error += least;
        }
        params
    }

    /// The factor of least error for the groups' scales and the codes that follow from them.
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
        std::array::from_fn(|i| {
            let inverse = fit::reciprocal(p.d * p.scales[i / (256 / GROUPS)]);
            self.shape.codes.nearest(self.x[i] * inverse)
        })
    }
}

/// The scale of least error for one group, of either sign: the codes reach further on one side of
/// zero than on the other.
#[inline(always)]
pub(super) fn fit_group<C: Codes>(x: &[f32], w: &[f32], shape: &Shape<C>) -> f32 {
    let largest = x.iter().fold(0.0, |a: f32, &b| if b.abs() > a.abs() { b } else { a });
    if largest == 0.0 {
        return 0.0;
    }
    let mut best = Fit { scale: largest / shape.extreme, gain: f32::NEG_INFINITY };
    for code in shape.starts.codes() {
        for inverse in [-code / largest, code / largest] {
            best = best.or(Fit::solve(x, w, inverse, shape.codes));
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

/// The scale, as half-precision bits, and the codes, counted from the lowest, of 32 values with one scale: of those that
/// [`on_grid`] finds, else of least error.
#[inline(always)]
pub(super) fn encode_32(x: &[f32], w: &[f32], shape: &Shape<fit::Integers>) -> (u16, [u8; 32]) {
    let limit = F16_MAX * -shape.extreme;
    let x: [f32; 32] = std::array::from_fn(|i| finite(x[i]).clamp(-limit, limit));
    let mut ones = [1.0; 32];
    if w.iter().any(|w| *w > 0.0) {
        ones.copy_from_slice(w);
    }
    let w = ones;
    let d = on_grid(&x, shape).unwrap_or_else(|| {
        let ideal = fit::factor(fit_group(&x, &w, shape));
        // Codes can change with the rounding of the scale; then another scale may suit them better.
        let m = fit::moments(&x, &w, 0.0, fit::reciprocal(ideal), shape.codes);
        let again = fit::factor(m.xq / m.qq);
        let error = |d| fit::error(&x, &w, d, 0.0, shape.codes);
        if error(again) < error(ideal) { again } else { ideal }
    });
    let (inverse, fit::Integers(low, _)) = (fit::reciprocal(d), shape.codes);
    (scale_bits(d), std::array::from_fn(|i| (shape.codes.nearest(x[i] * inverse) - low) as u8))
}

/// The scale, as it will be stored, of values that are all whole multiples of it within half a step of BF16: those of a
/// checkpoint that was trained with such blocks (quantisation-aware training), whose grid a search would lose.
#[inline(always)]
pub(super) fn on_grid(x: &[f32; 32], shape: &Shape<fit::Integers>) -> Option<f32> {
    let largest = x.iter().fold(0.0, |a: f32, &b| if b.abs() > a.abs() { b } else { a });
    let fit::Integers(low, high) = shape.codes;
    // BF16 has eight bits of mantissa, and a half eleven.
    const TOLERANCE: f32 = 1.0 / 256.0 + 1.0 / 2048.0;
    let fits = |d: f32| {
        let inverse = fit::reciprocal(d);
        d != 0.0
            && x.iter().all(|&x| {
                let code = shape.codes.nearest(x * inverse);
                (x - d * code).abs() <= x.abs() * TOLERANCE
            })
    };
    // Few codes would fit many values by chance: what is on a grid uses most of them.
    let mut code = low;
    while code <= high {
        let d = fit::factor(largest / code);
        if code.abs() * 2.0 > high && fits(d) {
            return Some(d);
        }
        code += 1.0;
    }
    None
}

/// A solution for one group; `gain` is how much of the sum of squares it explains.
#[derive(Clone, Copy)]
struct Fit {
    scale: f32,
    gain: f32,
}

impl Fit {
    #[inline(always)]
    fn solve(x: &[f32], w: &[f32], inverse: f32, codes: impl Codes) -> Fit {
        let m = fit::moments(x, w, 0.0, inverse, codes);
        if m.qq > 0.0 {
            Fit { scale: m.xq / m.qq, gain: m.xq / m.qq * m.xq }
        } else {
            Fit { scale: 0.0, gain: f32::NEG_INFINITY }
        }
    }

    #[inline(always)]
    fn or(self, other: Fit) -> Fit {
        if other.gain > self.gain { other } else { self }
    }
}
