//! Q4_K: super-blocks of 256 values in eight groups of 32; 4-bit codes, a 6-bit scale and a 6-bit
//! minimum per group, two 16-bit factors over all of them; 144 bytes.
//!
//! A value is `(d * scale) * code - (dmin * min)`. Groups 2i and 2i+1 share 32 bytes of codes, the
//! former in the low halves. Scales and minima are packed into 12 bytes: bytes 0..4 and 4..8 hold
//! those of groups 0..4 in their low six bits, bytes 8..12 the low four bits of those of groups
//! 4..8, whose upper two bits are the upper two of bytes 0..8.

use super::fit::{self, Moments};
use super::{Block, F16_MAX, f16_to_f32, field, finite, scale_bits};
use crate::DType;

const GROUPS: usize = 8;
const GROUP: usize = 32;
const MAX_CODE: f32 = 15.0;
/// The largest scale or minimum of a group, in units of `d` or `dmin`.
const MAX_FACTOR: f32 = 63.0;

/// A super-block of 256 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q4K {
    /// The factor of the scales, as half-precision bits.
    pub d: u16,
    /// The factor of the minima, as half-precision bits.
    pub dmin: u16,
    /// Scales and minima, packed.
    pub scales: [u8; 12],
    /// Two codes per byte.
    pub qs: [u8; 128],
}

const _: () = assert!(size_of::<Q4K>() == Q4K::BYTES);

impl Q4K {
    /// The scale and the minimum of group `j` (0 to 7), each 0 to 63.
    pub fn scale_min(&self, j: usize) -> (u8, u8) {
        let s = &self.scales;
        if j < 4 {
            (s[j] & 63, s[j + 4] & 63)
        } else {
            (s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4)
        }
    }
}

impl Block for Q4K {
    const DTYPE: DType = DType::Q4K;
    const LEN: usize = GROUPS * GROUP;
    const BYTES: usize = 144;

    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        Q4K {
            d: u16::from_le_bytes(field(bytes, 0)),
            dmin: u16::from_le_bytes(field(bytes, 2)),
            scales: field(bytes, 4),
            qs: field(bytes, 16),
        }
    }

    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[..2].copy_from_slice(&self.d.to_le_bytes());
        out[2..4].copy_from_slice(&self.dmin.to_le_bytes());
        out[4..16].copy_from_slice(&self.scales);
        out[16..].copy_from_slice(&self.qs);
    }

    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let (d, dmin) = (f16_to_f32(self.d), f16_to_f32(self.dmin));
        for (j, group) in out.chunks_exact_mut(GROUP).enumerate() {
            let (scale, min) = self.scale_min(j);
            let (scale, min) = (d * f32::from(scale), dmin * f32::from(min));
            let shift = j % 2 * 4;
            for (value, &q) in group.iter_mut().zip(&self.qs[j / 2 * GROUP..]) {
                *value = scale * f32::from(q >> shift & 15) - min;
            }
        }
    }

    /// Searches scales and minima for the least squared error.
    fn encode(x: &[f32]) -> Self {
        Search::new(x, &[1.0; Self::LEN]).run()
    }
}

/// The search for the parameters of one super-block.
struct Search<'a> {
    x: [f32; 256],
    w: &'a [f32; 256],
}

/// Parameters as they will be stored.
#[derive(Clone, Copy)]
struct Params {
    d: f32,
    dmin: f32,
    scales: [f32; GROUPS],
    mins: [f32; GROUPS],
    error: f32,
}

impl<'a> Search<'a> {
    fn new(x: &[f32], w: &'a [f32; 256]) -> Self {
        assert_eq!(x.len(), Q4K::LEN);
        // Nothing beyond this can be represented (negative values: 15 times less), and squares of what is left stay finite.
        const LIMIT: f32 = F16_MAX * MAX_FACTOR * MAX_CODE;
        let mut values = [0.0; 256];
        for (value, &x) in values.iter_mut().zip(x) {
            *value = finite(x).clamp(-LIMIT, LIMIT);
        }
        Search { x: values, w }
    }

    fn group(&self, j: usize) -> (&[f32], &[f32]) {
        let range = j * GROUP..(j + 1) * GROUP;
        (&self.x[range.clone()], &self.w[range])
    }

    fn run(&self) -> Q4K {
        let ideal: [(f32, f32); GROUPS] = std::array::from_fn(|j| {
            let (x, w) = self.group(j);
            fit_group(x, w)
        });
        let largest = |f: fn(&(f32, f32)) -> f32| ideal.iter().map(f).fold(0.0, f32::max);
        let (scale, min) = (largest(|g| g.0), largest(|g| g.1));
        let best =
            self.improve(&ideal, fit::ample_factor(scale / MAX_FACTOR), fit::ample_factor(min / MAX_FACTOR));
        self.pack(&best)
    }

    /// Quantises the groups' parameters with given factors, then alternately solves for the factors
    /// and chooses the parameters again while that lowers the error.
    fn improve(&self, ideal: &[(f32, f32); GROUPS], d: f32, dmin: f32) -> Params {
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

    /// The best six-bit scale and minimum of every group near the ideal ones.
    fn choose(&self, ideal: &[(f32, f32); GROUPS], d: f32, dmin: f32) -> Params {
        let mut params = Params { d, dmin, scales: [0.0; GROUPS], mins: [0.0; GROUPS], error: 0.0 };
        for (j, &(scale, min)) in ideal.iter().enumerate() {
            let (x, w) = self.group(j);
            let s0 = fit::nearest(scale * fit::reciprocal(d), 0.0, MAX_FACTOR);
            let mut least = f32::INFINITY;
            for s in [s0, s0 - 1.0, s0 + 1.0] {
                if !(0.0..=MAX_FACTOR).contains(&s) {
                    continue;
                }
                // The minimum that suits this scale, from the codes that it leads to.
                let scale_now = d * s;
                let m = fit::moments(x, w, min, fit::reciprocal(scale_now), 0.0, MAX_CODE);
                let min_now = if m.w > 0.0 { (scale_now * m.q - m.x) / m.w } else { min };
                let k0 = fit::nearest(min_now * fit::reciprocal(dmin), 0.0, MAX_FACTOR);
                for k in [k0, k0 - 1.0, k0 + 1.0] {
                    if !(0.0..=MAX_FACTOR).contains(&k) {
                        continue;
                    }
                    let error = fit::error(x, w, scale_now, dmin * k, 0.0, MAX_CODE);
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
    fn solve_factors(&self, p: &Params) -> (f32, f32) {
        let (mut aa, mut ab, mut bb, mut ax, mut bx) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for j in 0..GROUPS {
            let (x, w) = self.group(j);
            let (s, k) = (p.scales[j], p.mins[j]);
            let m = fit::moments(x, w, p.dmin * k, fit::reciprocal(p.d * s), 0.0, MAX_CODE);
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

    fn pack(&self, p: &Params) -> Q4K {
        let mut block = Q4K { d: scale_bits(p.d), dmin: scale_bits(p.dmin), scales: [0; 12], qs: [0; 128] };
        for j in 0..GROUPS {
            let (s, k) = (p.scales[j] as u8, p.mins[j] as u8);
            if j < 4 {
                block.scales[j] |= s;
                block.scales[j + 4] |= k;
            } else {
                block.scales[j + 4] = s & 15 | (k & 15) << 4;
                block.scales[j - 4] |= s >> 4 << 6;
                block.scales[j] |= k >> 4 << 6;
            }
            let (scale, min) = (p.d * p.scales[j], p.dmin * p.mins[j]);
            let inverse = fit::reciprocal(scale);
            let (x, _) = self.group(j);
            for (q, &x) in block.qs[j / 2 * GROUP..].iter_mut().zip(x) {
                *q |= (fit::nearest((x + min) * inverse, 0.0, MAX_CODE) as u8) << (j % 2 * 4);
            }
        }
        block
    }
}

/// The scale and minimum (not negative) of least error for one group.
fn fit_group(x: &[f32], w: &[f32]) -> (f32, f32) {
    let low = x.iter().fold(0.0, |a: f32, &b| a.min(b));
    let high = x.iter().fold(f32::MIN, |a, &b| a.max(b)).max(low);
    if high == low {
        return (0.0, -low);
    }
    let mut best = Fit { scale: (high - low) / MAX_CODE, min: -low, gain: f32::NEG_INFINITY };
    // From clipping the extremes by a fifth to leaving the outer codes empty.
    for step in 0..16 {
        let codes = 12.6 + 0.4 * step as f32;
        let next = Fit::solve(&fit::moments(x, w, -low, codes / (high - low), 0.0, MAX_CODE));
        if next.gain > best.gain {
            best = next;
        }
    }
    for _ in 0..4 {
        let next = Fit::solve(&fit::moments(x, w, best.min, fit::reciprocal(best.scale), 0.0, MAX_CODE));
        if next.gain <= best.gain {
            break;
        }
        best = next;
    }
    (best.scale, best.min)
}

/// A solution for one group; `gain` is how much of the sum of squares it explains.
#[derive(Clone, Copy)]
struct Fit {
    scale: f32,
    min: f32,
    gain: f32,
}

impl Fit {
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
