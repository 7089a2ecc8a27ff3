//! The search for scales and minima in super-blocks of 256 values: what the encoders of Q2_K, Q4_K and
//! Q5_K share.
//!
//! A value is `(d * scale) * code - (dmin * min)`, with codes from 0 on, a scale and a minimum per
//! group in a few bits, neither negative, and two half-precision factors. First every group is fitted
//! by itself (see [`fit`]), then the factors are set so that the largest scale and minimum fit, the
//! groups' parameters are chosen again in units of them, and the factors solved for again while that
//! lowers the error.

use super::fit::{self, Integers, Moments, Starts};
use super::{F16_MAX, finite};

/// What distinguishes the formats.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// The largest code.
    pub(super) max_code: f32,
    /// The largest scale or minimum of a group, in units of `d` or `dmin`.
    pub(super) max_factor: f32,
    pub(super) starts: Starts,
}

/// A search in one super-block.
pub(super) struct Search<'a, const GROUPS: usize> {
    x: [f32; 256],
    w: &'a [f32; 256],
    shape: Shape,
}

/// Parameters as they will be stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params<const GROUPS: usize> {
    pub(super) d: f32,
    pub(super) dmin: f32,
    pub(super) scales: [f32; GROUPS],
    pub(super) mins: [f32; GROUPS],
    error: f32,
}

impl<'a, const GROUPS: usize> Search<'a, GROUPS> {
    #[inline(always)]
    pub(super) fn new(x: &[f32], w: &'a [f32; 256], shape: Shape) -> Self {
        assert_eq!(x.len(), 256, "values of a super-block");
        // Nothing beyond this can be represented (and less of the negative values), and squares of
        // what is left stay finite.
        let limit = F16_MAX * shape.max_factor * shape.max_code;
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

    #[inline(always)]
    fn codes(&self) -> Integers {
        Integers(0.0, self.shape.max_code)
    }

    /// The best parameters that were found, and the code of every value.
    #[inline(always)]
    pub(super) fn run(&self) -> (Params<GROUPS>, [u8; 256]) {
        let ideal: [(f32, f32); GROUPS] = std::array::from_fn(|j| {
            let (x, w) = self.group(j);
            self.fit_group(x, w)
        });
        let largest = |f: fn(&(f32, f32)) -> f32| ideal.iter().map(f).fold(0.0, f32::max);
        let (scale, min) = (largest(|g| g.0), largest(|g| g.1));
        let most = self.shape.max_factor;
        let best = self.improve(&ideal, fit::ample_factor(scale / most), fit::ample_factor(min / most));
        (best, self.quantise(&best))
    }

    /// Quantises the groups' parameters with given factors, then alternately solves for the factors
    /// and chooses the parameters again while that lowers the error.
    #[inline(always)]
    fn improve(&self, ideal: &[(f32, f32); GROUPS], d: f32, dmin: f32) -> Params<GROUPS> {
        let mut best = self.choose(ideal, d, dmin);
        for _ in 0..3 {
            let (d, dmin) = self.solve_factors(&best);
            if (d, dmin) == (best.d, best.dmin) {
                break;
            }
            let next = self.choose(ideal, d, dmin);
            if next.error >= best.error {
                break;
            }
            best = next;
        }
        best
    }

    /// The best stored scale and minimum of every group near the ideal ones.
    #[inline(always)]
    fn choose(&self, ideal: &[(f32, f32); GROUPS], d: f32, dmin: f32) -> Params<GROUPS> {
        let most = self.shape.max_factor;
        let mut params = Params { d, dmin, scales: [0.0; GROUPS], mins: [0.0; GROUPS], error: 0.0 };
        for (j, &(scale, min)) in ideal.iter().enumerate() {
            let (x, w) = self.group(j);
            let s0 = fit::nearest(scale * fit::reciprocal(d), 0.0, most);
            let mut least = f32::INFINITY;
            for s in [s0, s0 - 1.0, s0 + 1.0] {
                if !(0.0..=most).contains(&s) {
                    continue;
                }
                // The minimum that suits this scale, from the codes that it leads to.
                let scale_now = d * s;
                let m = fit::moments(x, w, min, fit::reciprocal(scale_now), self.codes());
                let min_now = if m.w > 0.0 { (scale_now * m.q - m.x) / m.w } else { min };
                let k0 = fit::nearest(min_now * fit::reciprocal(dmin), 0.0, most);
                for k in [k0, k0 - 1.0, k0 + 1.0] {
                    if !(0.0..=most).contains(&k) {
                        continue;
                    }
                    let error = fit::error(x, w, scale_now, dmin * k, self.codes());
                    if error < least {
                        (least, params.scales[j], params.mins[j]) = (error, s, k);
                    }
                }
            }
            params.error += least;
        }
        params
    }

    /// The factors of least error for the groups' parameters and the codes that follow from them:
    /// two unknowns, `x = d * (scale * code) - dmin * min`.
    #[inline(always)]
    fn solve_factors(&self, p: &Params<GROUPS>) -> (f32, f32) {
        let (mut aa, mut ab, mut bb, mut ax, mut bx) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for j in 0..GROUPS {
            let (x, w) = self.group(j);
            let (s, k) = (p.scales[j], p.mins[j]);
            let m = fit::moments(x, w, p.dmin * k, fit::reciprocal(p.d * s), self.codes());
            aa += s * s * m.qq;
            ab += s * k * m.q;
            bb += k * k * m.w;
            ax += s * m.xq;
            bx += k * m.x;
        }
        let det = aa * bb - ab * ab;
        let (d, dmin) = if det > 0.0 && bb > 0.0 {
            ((ax * bb - bx * ab) / det, (ax * ab - bx * aa) / det)
        } else if aa > 0.0 {
            (ax / aa, 0.0)
        } else {
            (p.d, p.dmin)
        };
        (if d > 0.0 { fit::factor(d) } else { p.d }, if dmin > 0.0 { fit::factor(dmin) } else { p.dmin })
    }

    #[inline(always)]
    fn quantise(&self, p: &Params<GROUPS>) -> [u8; 256] {
        std::array::from_fn(|i| {
            let j = i / (256 / GROUPS);
            let inverse = fit::reciprocal(p.d * p.scales[j]);
            fit::nearest((self.x[i] + p.dmin * p.mins[j]) * inverse, 0.0, self.shape.max_code) as u8
        })
    }

    /// The scale and minimum (not negative) of least error for one group.
    #[inline(always)]
    fn fit_group(&self, x: &[f32], w: &[f32]) -> (f32, f32) {
        let low = x.iter().fold(0.0, |a: f32, &b| a.min(b));
        let high = x.iter().fold(f32::MIN, |a, &b| a.max(b)).max(low);
        if high == low {
            return (0.0, -low);
        }
        let codes = self.codes();
        let mut best = Fit { scale: (high - low) / self.shape.max_code, min: -low, gain: f32::NEG_INFINITY };
        // From clipping the extremes by a fifth to leaving the outer codes empty.
        for code in self.shape.starts.codes() {
            let next = Fit::solve(&fit::moments(x, w, -low, code / (high - low), codes));
            if next.gain > best.gain {
                best = next;
            }
        }
        for _ in 0..4 {
            let next = Fit::solve(&fit::moments(x, w, best.min, fit::reciprocal(best.scale), codes));
            if next.gain <= best.gain {
                break;
            }
            best = next;
        }
        (best.scale, best.min)
    }
}

/// A solution for one group; `gain` is how much of the sum of squares it explains.
#[derive(Clone, Copy)]
struct Fit {
    scale: f32,
    min: f32,
    gain: f32,
}

impl Fit {
    #[inline(always)]
    fn solve(m: &Moments) -> Fit {
        let det = m.w * m.qq - m.q * m.q;
        if det > 0.0 {
            let scale = (m.w * m.xq - m.x * m.q) / det;
            let min = (m.q * m.xq - m.qq * m.x) / det;
            if scale > 0.0 && min >= 0.0 {
                return Fit { scale, min, gain: scale * m.xq - min * m.x };
            }
        }
        // Without a minimum: the line through zero.
        if m.qq > 0.0 && m.xq > 0.0 {
            let scale = m.xq / m.qq;
            return Fit { scale, min: 0.0, gain: scale * m.xq };
        }
        Fit { scale: 0.0, min: 0.0, gain: f32::NEG_INFINITY }
    }
}
