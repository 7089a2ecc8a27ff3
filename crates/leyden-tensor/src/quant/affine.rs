//! The search for scales and minima in super-blocks of 256 values, shared by the encoders of Q2_K, Q4_K and
//! Q5_K.
//!
//! A value is `(d * scale) * code - (dmin * min)`, with codes from 0 on, a non-negative scale and minimum per
//! group in a few bits, and two half-precision factors. First every group is fitted
//! by itself (see [`fit`]), then the factors are set so that the largest scale and minimum fit, the
//! groups' parameters are chosen again in units of them, and the factors solved for again while that
//! lowers the error.

use super::fit::{self, Integers, Moments, Starts};
use super::{F16_MAX, finite};

/// Number of candidates that are evaluated at once.
const AT_ONCE: usize = 16;

/// The parameters in which the formats differ.
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

/// Parameters as they are stored.
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
        // Larger values cannot be represented, and squares of the limited values stay finite.
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

    /// Returns the best parameters that were found, and the code of every value.
    #[inline(always)]
    pub(super) fn run(&self) -> (Params<GROUPS>, [u8; 256]) {
        let mut ideal = [(0.0, 0.0); GROUPS];
        for (j, parameters) in ideal.iter_mut().enumerate() {
            let (x, w) = self.group(j);
            *parameters = self.fit_group(x, w);
        }
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

    /// Returns the best stored scale and minimum of every group near the ideal ones.
    #[inline(always)]
    fn choose(&self, ideal: &[(f32, f32); GROUPS], d: f32, dmin: f32) -> Params<GROUPS> {
        let most = self.shape.max_factor;
        let mut params = Params { d, dmin, scales: [0.0; GROUPS], mins: [0.0; GROUPS], error: 0.0 };
        for (j, &(scale, min)) in ideal.iter().enumerate() {
            let (x, w) = self.group(j);
            let s0 = fit::nearest(scale * fit::reciprocal(d), 0.0, most);
            // The last one only fills the vector.
            let near = [s0, s0 - 1.0, s0 + 1.0, s0];
            let mut inverse = [0.0; 4];
            for (inverse, s) in inverse.iter_mut().zip(near) {
                *inverse = fit::reciprocal(d * s);
            }
            // The best minimum for each scale, from the codes that the scale gives.
            let (weight, sum) = fit::sums(x, w);
            let m = fit::moments_of(x, w, min, &inverse, self.codes());
            // Each scale with three minima; the remaining lanes only fill the vectors.
            let (mut scales, mut mins) = ([s0; AT_ONCE], [-1.0; AT_ONCE]);
            for (i, s) in near[..3].iter().enumerate() {
                let min_now = if weight > 0.0 { (d * s * m.q[i] - sum) / weight } else { min };
                let k0 = fit::nearest(min_now * fit::reciprocal(dmin), 0.0, most);
                for (at, k) in [k0, k0 - 1.0, k0 + 1.0].into_iter().enumerate() {
                    (scales[3 * i + at], mins[3 * i + at]) = (*s, k);
                }
            }
            let (mut scales_now, mut mins_now) = ([0.0; AT_ONCE], [0.0; AT_ONCE]);
            for c in 0..AT_ONCE {
                (scales_now[c], mins_now[c]) = (d * scales[c], dmin * mins[c]);
            }
            let errors = fit::errors(x, w, &scales_now, &mins_now, self.codes());
            let mut least = f32::INFINITY;
            for c in 0..9 {
                let (s, k) = (scales[c], mins[c]);
                if (0.0..=most).contains(&s) && (0.0..=most).contains(&k) && errors[c] < least {
                    (least, params.scales[j], params.mins[j]) = (errors[c], s, k);
                }
            }
            params.error += least;
        }
        params
    }

    /// Returns the factors of least error for the groups' parameters and the codes that follow from them:
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
        let mut codes = [0; 256];
        let groups = codes.chunks_exact_mut(256 / GROUPS).zip(self.x.chunks_exact(256 / GROUPS));
        for ((codes, x), (scale, min)) in groups.zip(p.scales.iter().zip(&p.mins)) {
            let (inverse, min) = (fit::reciprocal(p.d * scale), p.dmin * min);
            for (code, x) in codes.iter_mut().zip(x) {
                *code = fit::whole(fit::nearest((x + min) * inverse, 0.0, self.shape.max_code));
            }
        }
        codes
    }

    /// Returns the scale and minimum (not negative) of least error for one group.
    #[inline(always)]
    fn fit_group(&self, x: &[f32], w: &[f32]) -> (f32, f32) {
        let low = x.iter().fold(0.0, |a: f32, &b| a.min(b));
        let high = x.iter().fold(f32::MIN, |a, &b| a.max(b)).max(low);
        if high == low {
            return (0.0, -low);
        }
        let codes = self.codes();
        let mut best = Fit { scale: (high - low) / self.shape.max_code, min: -low, gain: f32::NEG_INFINITY };
        // From clipping the extremes by a fifth to leaving the outer codes unused.
        let (weight, sum) = fit::sums(x, w);
        let last = usize::from(self.shape.starts.n) - 1;
        for from in (0..=last).step_by(AT_ONCE) {
            let mut inverse = [0.0; AT_ONCE];
            for (c, inverse) in inverse.iter_mut().enumerate() {
                // The last one only fills the last vector.
                *inverse = self.shape.starts.code(last.min(from + c)) / (high - low);
            }
            let m = fit::moments_of(x, w, -low, &inverse, codes);
            for c in 0..AT_ONCE {
                let m = Moments { w: weight, q: m.q[c], qq: m.qq[c], x: sum, xq: m.xq[c] };
                let next = Fit::solve(&m);
                if next.gain > best.gain {
                    best = next;
                }
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

/// A solution for one group; `gain` is the part of the sum of squares that it explains.
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
