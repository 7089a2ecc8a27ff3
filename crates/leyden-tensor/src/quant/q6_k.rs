//! Q6_K: super-blocks of 256 values in sixteen groups of 16; 6-bit codes, an 8-bit scale per group,
//! one 16-bit factor over all of them; 210 bytes.
//!
//! A value is `(d * scale) * (code - 32)`. Each half of 128 values has 64 bytes of low code bits and
//! 32 bytes of high ones. In four runs of 32 values, run 0 and 1 take the low halves of the low
//! bytes, run 2 and 3 the high halves; run r takes bits 2r and 2r+1 of the high bytes.

use super::{Block, F16_MAX, f16_to_f32, field, finite, fit, scale_bits};
use crate::DType;

const GROUPS: usize = 16;
const GROUP: usize = 16;
const LOW: f32 = -32.0;
const HIGH: f32 = 31.0;

/// A super-block of 256 values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q6K {
    /// The low four bits of the codes.
    pub ql: [u8; 128],
    /// The high two bits of the codes.
    pub qh: [u8; 64],
    /// The scales of the groups.
    pub scales: [i8; 16],
    /// The factor of the scales, as half-precision bits.
    pub d: u16,
}

const _: () = assert!(size_of::<Q6K>() == Q6K::BYTES);

/// Where the code of value `i` lies: the index and shift of its low bits, and of its high bits.
fn place(i: usize) -> (usize, usize, usize, usize) {
    let (half, run, at) = (i / 128, i / 32 % 4, i % 32);
    (half * 64 + run % 2 * 32 + at, run / 2 * 4, half * 32 + at, run * 2)
}

impl Block for Q6K {
    const DTYPE: DType = DType::Q6K;
    const LEN: usize = GROUPS * GROUP;
    const BYTES: usize = 210;

    fn read(bytes: &[u8]) -> Self {
        assert_eq!(bytes.len(), Self::BYTES);
        Q6K {
            ql: field(bytes, 0),
            qh: field(bytes, 128),
            scales: field::<16>(bytes, 192).map(|s| s as i8),
            d: u16::from_le_bytes(field(bytes, 208)),
        }
    }

    fn write(&self, out: &mut [u8]) {
        assert_eq!(out.len(), Self::BYTES);
        out[..128].copy_from_slice(&self.ql);
        out[128..192].copy_from_slice(&self.qh);
        out[192..208].copy_from_slice(&self.scales.map(|s| s as u8));
        out[208..].copy_from_slice(&self.d.to_le_bytes());
    }

    fn decode(&self, out: &mut [f32]) {
        assert_eq!(out.len(), Self::LEN);
        let d = f16_to_f32(self.d);
        for (i, value) in out.iter_mut().enumerate() {
            let (low, low_shift, high, high_shift) = place(i);
            let code = self.ql[low] >> low_shift & 15 | (self.qh[high] >> high_shift & 3) << 4;
            *value = d * f32::from(self.scales[i / GROUP]) * (f32::from(code) - 32.0);
        }
    }

    /// Searches scales for the least squared error.
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
    scales: [f32; GROUPS],
    error: f32,
}

impl<'a> Search<'a> {
    fn new(x: &[f32], w: &'a [f32; 256]) -> Self {
        assert_eq!(x.len(), Q6K::LEN);
        // Nothing beyond this can be represented, and squares of what is left stay finite.
        const LIMIT: f32 = F16_MAX * 128.0 * 32.0;
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

    fn run(&self) -> Q6K {
        let ideal: [f32; GROUPS] = std::array::from_fn(|j| {
            let (x, w) = self.group(j);
            fit_group(x, w)
        });
        let largest = ideal.iter().fold(0.0, |a: f32, &b| if b.abs() > a.abs() { b } else { a });
        // There is one more negative number than positive ones: the largest scale becomes -128.
        let best = self.improve(&ideal, fit::ample_factor(largest / -128.0));
        self.pack(&best)
    }

    /// Quantises the groups' scales with a given factor, then alternately solves for the factor and
    /// chooses the scales again while that lowers the error.
    fn improve(&self, ideal: &[f32; GROUPS], d: f32) -> Params {
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

    fn choose(&self, ideal: &[f32; GROUPS], d: f32) -> Params {
        let mut params = Params { d, scales: [0.0; GROUPS], error: 0.0 };
        for (j, &scale) in ideal.iter().enumerate() {
            let (x, w) = self.group(j);
            let s0 = fit::nearest(scale * fit::reciprocal(d), -128.0, 127.0);
            let mut least = f32::INFINITY;
            for s in [s0, s0 - 1.0, s0 + 1.0] {
                if !(-128.0..=127.0).contains(&s) {
                    continue;
                }
                let error = fit::error(x, w, d * s, 0.0, LOW, HIGH);
                if error < least {
                    (least, params.scales[j]) = (error, s);
                }
            }
            params.error += least;
        }
        params
    }

    /// The factor of least error for the groups' scales and the codes that follow from them.
    fn solve_factor(&self, p: &Params) -> f32 {
        let (mut aa, mut ax) = (0.0, 0.0);
        for (j, &s) in p.scales.iter().enumerate() {
            let (x, w) = self.group(j);
            let m = fit::moments(x, w, 0.0, fit::reciprocal(p.d * s), LOW, HIGH);
            aa += s * s * m.qq;
            ax += s * m.xq;
        }
        let d = fit::factor(ax / aa);
        if d == 0.0 { p.d } else { d }
    }

    fn pack(&self, p: &Params) -> Q6K {
        let mut block =
            Q6K { ql: [0; 128], qh: [0; 64], scales: p.scales.map(|s| s as i8), d: scale_bits(p.d) };
        for (i, &x) in self.x.iter().enumerate() {
            let inverse = fit::reciprocal(p.d * p.scales[i / GROUP]);
            let code = (fit::nearest(x * inverse, LOW, HIGH) + 32.0) as u8;
            let (low, low_shift, high, high_shift) = place(i);
            block.ql[low] |= (code & 15) << low_shift;
            block.qh[high] |= code >> 4 << high_shift;
        }
        block
    }
}

/// The scale of least error for one group, of either sign: there is one more code below zero than
/// above.
fn fit_group(x: &[f32], w: &[f32]) -> f32 {
    let largest = x.iter().fold(0.0, |a: f32, &b| if b.abs() > a.abs() { b } else { a });
    if largest == 0.0 {
        return 0.0;
    }
    let mut best = Fit { scale: largest / LOW, gain: f32::NEG_INFINITY };
    // The largest value becomes a code from 30 to 33.6 (clipped) on either side.
    for step in 0..10 {
        let code = 30.0 + 0.4 * step as f32;
        for inverse in [-code / largest, code / largest] {
            best = best.or(Fit::solve(x, w, inverse));
        }
    }
    for _ in 0..3 {
        let next = Fit::solve(x, w, fit::reciprocal(best.scale));
        if next.gain <= best.gain {
            break;
        }
        best = next;
    }
    best.scale
}

/// A solution for one group; `gain` is how much of the sum of squares it explains.
#[derive(Clone, Copy)]
struct Fit {
    scale: f32,
    gain: f32,
}

impl Fit {
    fn solve(x: &[f32], w: &[f32], inverse: f32) -> Fit {
        let m = fit::moments(x, w, 0.0, inverse, LOW, HIGH);
        if m.qq > 0.0 {
            Fit { scale: m.xq / m.qq, gain: m.xq / m.qq * m.xq }
        } else {
            Fit { scale: 0.0, gain: f32::NEG_INFINITY }
        }
    }

    fn or(self, other: Fit) -> Fit {
        if other.gain > self.gain { other } else { self }
    }
}
