//! Log-mel spectrograms as Whisper's networks read them.
//!
//! Frames of 400 samples every 160, a Hann window, squared magnitudes, triangular mel filters on Slaney's scale (as in
//! librosa), logarithms to base 10 within 8 of the largest, then `(x + 4) / 4`. Everything is computed in doubles in one
//! order. The audio is followed by 30 seconds of silence, so that a window may begin anywhere.

use crate::audio::SAMPLE_RATE;
use leyden_kernels::Cpu;
use leyden_kernels::ops::{ln, pow, sin_cos};

/// Samples between two frames.
pub(crate) const HOP: usize = 160;

/// Frames of a second.
pub(crate) const FRAMES_PER_SECOND: usize = SAMPLE_RATE as usize / HOP;

/// Samples of a frame.
const FRAME: usize = 400;

/// Frequencies of a frame: from 0 to half the sample rate.
const FREQUENCIES: usize = FRAME / 2 + 1;

/// Transforms that are computed side by side, each of two frames.
const LANES: usize = 8;

/// Seconds of silence after the audio.
const SILENCE: usize = 30;

/// Factors of [`FRAME`], in the order of the transform's passes.
const RADICES: [usize; 4] = [5, 5, 4, 4];

type Values = [f64; LANES];

/// Log-mel spectrogram.
#[derive(Clone, Debug)]
pub struct Mel {
    /// Values `[frame][bin]`.
    values: Vec<f32>,
    bins: usize,
    /// Frames of the audio itself.
    frames: usize,
}

impl Mel {
    /// Computes the spectrogram of audio at 16 kHz with this number of bins.
    ///
    /// # Panics
    /// If `bins` is zero.
    #[must_use]
    pub fn new(cpu: &Cpu, samples: &[f32], bins: usize) -> Mel {
        let frames = samples.len() / HOP;
        let all = (samples.len() + SILENCE * SAMPLE_RATE as usize) / HOP;
        let (transform, filters) = (Transform::new(), filters(bins));
        let mut values = vec![0.0; all * bins];
        cpu.for_blocks(&mut values, bins, 2 * LANES, |first, rows| {
            // Later frames are silent.
            if first * HOP > samples.len() + FRAME {
                rows.fill(SILENT);
            } else {
                logarithms(&transform, &filters, samples, first, rows, bins);
            }
        });
        let most = values.iter().fold(SILENT, |a, x| a.max(*x));
        cpu.for_rows(&mut values, bins, |_, row| {
            row.iter_mut().for_each(|x| *x = (x.max(most - 8.0) + 4.0) / 4.0);
        });
        Mel { values, bins, frames }
    }

    /// Returns the number of bins.
    #[must_use]
    pub fn bins(&self) -> usize {
        self.bins
    }

    /// Returns the number of frames of the audio, without the silence after it.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Returns `count` frames from frame `first` on, `[frame][bin]`.
    ///
    /// # Panics
    /// If they reach beyond the silence of 30 seconds after the audio.
    #[must_use]
    pub fn window(&self, first: usize, count: usize) -> &[f32] {
        &self.values[first * self.bins..(first + count) * self.bins]
    }
}

/// Logarithm of the smallest power.
const SILENT: f32 = -10.0;

/// Returns the sample at a place, mirrored at the beginning, and silent after the end.
fn sample(samples: &[f32], at: isize) -> f64 {
    samples.get(at.unsigned_abs()).map_or(0.0, |x| f64::from(*x))
}

/// Computes logarithms of the mel powers of some frames, at most two for each lane.
fn logarithms(
    transform: &Transform,
    filters: &[Filter],
    samples: &[f32],
    first: usize,
    rows: &mut [f32],
    bins: usize,
) {
    let (mut real, mut imaginary) = ([[0.0; LANES]; FRAME], [[0.0; LANES]; FRAME]);
    // Two frames share a lane: one as the real part, one as the imaginary part.
    let frames = rows.len() / bins;
    for frame in 0..frames {
        let start = ((first + frame) * HOP) as isize - (FRAME / 2) as isize;
        let to = if frame % 2 == 0 { &mut real } else { &mut imaginary };
        for (i, (to, window)) in to.iter_mut().zip(&transform.window).enumerate() {
            to[frame / 2] = sample(samples, start + i as isize) * window;
        }
    }
    transform.run(&mut real, &mut imaginary);
    for frame in 0..frames {
        let lane = frame / 2;
        // Spectra of the two real signals: sums and differences of mirrored values.
        let power = |k: usize| {
            let mirrored = (FRAME - k) % FRAME;
            let (a, b) = (real[k][lane], imaginary[k][lane]);
            let (c, d) = (real[mirrored][lane], imaginary[mirrored][lane]);
            let (x, y) = if frame % 2 == 0 { (a + c, b - d) } else { (b + d, c - a) };
            (x * x + y * y) / 4.0
        };
        let mut powers = [0.0; FREQUENCIES];
        powers.iter_mut().enumerate().for_each(|(k, to)| *to = power(k));
        for (to, filter) in rows[frame * bins..][..bins].iter_mut().zip(filters) {
            let weighted = filter.weights.iter().zip(&powers[filter.first..]);
            let sum: f64 = weighted.map(|(weight, power)| weight * power).sum();
            *to = (ln(sum.max(1e-10)) / std::f64::consts::LN_10) as f32;
        }
    }
}

/// Triangular filter: weights of consecutive frequencies.
struct Filter {
    first: usize,
    weights: Vec<f64>,
}

/// Returns the mel filters between 0 and half the sample rate, each of area 1 (Slaney, "Auditory Toolbox", 1998).
fn filters(bins: usize) -> Vec<Filter> {
    /// Mel of 1000 Hz: below it, the scale is linear.
    const KNEE: f64 = 15.0;
    let nyquist = f64::from(SAMPLE_RATE) / 2.0;
    let step = ln(6.4) / 27.0;
    let highest = KNEE + ln(nyquist / 1000.0) / step;
    let hertz = |mel: f64| {
        if mel < KNEE { mel * 200.0 / 3.0 } else { 1000.0 * pow(std::f64::consts::E, step * (mel - KNEE)) }
    };
    let edge = |i: usize| hertz(highest * i as f64 / (bins + 1) as f64);
    let filter = |bin: usize| {
        let (low, middle, high) = (edge(bin), edge(bin + 1), edge(bin + 2));
        let weight = |k: usize| {
            let f = nyquist * k as f64 / (FREQUENCIES - 1) as f64;
            let slope = ((f - low) / (middle - low)).min((high - f) / (high - middle));
            slope.max(0.0) * 2.0 / (high - low)
        };
        let all: Vec<f64> = (0..FREQUENCIES).map(weight).collect();
        let first = all.iter().position(|w| *w > 0.0).unwrap_or(0);
        let end = all.iter().rposition(|w| *w > 0.0).map_or(first, |last| last + 1);
        Filter { first, weights: all[first..end].to_vec() }
    };
    (0..bins).map(filter).collect()
}

/// Discrete Fourier transform of 400 complex values: Stockham's algorithm with the factors [`RADICES`].
struct Transform {
    /// Hann window.
    window: Vec<f64>,
    /// Powers of the 400th root of one: cosine and negative sine.
    roots: Vec<(f64, f64)>,
}

impl Transform {
    fn new() -> Transform {
        let turn = |i: usize| sin_cos(std::f64::consts::TAU * i as f64 / FRAME as f64);
        let window = (0..FRAME).map(|i| 0.5 - 0.5 * turn(i).1).collect();
        let roots = (0..FRAME).map(turn).map(|(sin, cos)| (cos, -sin)).collect();
        Transform { window, roots }
    }

    /// Transforms the values in place, all lanes at once.
    fn run(&self, real: &mut [Values; FRAME], imaginary: &mut [Values; FRAME]) {
        let (mut to_real, mut to_imaginary) = ([[0.0; LANES]; FRAME], [[0.0; LANES]; FRAME]);
        let (mut n, mut stride) = (FRAME, 1);
        for radix in RADICES {
            let from = (&*real, &*imaginary);
            let to = (&mut to_real, &mut to_imaginary);
            match radix {
                5 => self.pass::<5>(n, stride, from, to),
                _ => self.pass::<4>(n, stride, from, to),
            }
            std::mem::swap(real, &mut to_real);
            std::mem::swap(imaginary, &mut to_imaginary);
            (n, stride) = (n / radix, stride * radix);
        }
    }

    /// Executes one pass: `n` is the length of the transforms that are left, `stride` their number.
    fn pass<const R: usize>(
        &self,
        n: usize,
        stride: usize,
        (real, imaginary): (&[Values; FRAME], &[Values; FRAME]),
        (to_real, to_imaginary): (&mut [Values; FRAME], &mut [Values; FRAME]),
    ) {
        let m = n / R;
        for p in 0..m {
            for q in 0..stride {
                let at = |j: usize| q + stride * (p + m * j);
                for k in 0..R {
                    // Root of this output in the short transform, and its twiddle.
                    let (mut x, mut y) = ([0.0; LANES], [0.0; LANES]);
                    for j in 0..R {
                        let (c, s) = self.roots[(j * k % R) * (FRAME / R)];
                        let (a, b) = (&real[at(j)], &imaginary[at(j)]);
                        for lane in 0..LANES {
                            x[lane] += a[lane] * c - b[lane] * s;
                            y[lane] += a[lane] * s + b[lane] * c;
                        }
                    }
                    let (c, s) = self.roots[p * k * stride % FRAME];
                    let to = q + stride * (R * p + k);
                    for lane in 0..LANES {
                        to_real[to][lane] = x[lane] * c - y[lane] * s;
                        to_imaginary[to][lane] = x[lane] * s + y[lane] * c;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leyden_kernels::Tier;

    #[test]
    fn transform_equals_its_definition() {
        let transform = Transform::new();
        let value = |i: usize| ((i * 7919 % 1013) as f64 - 506.0) / 506.0;
        let mut real = [[0.0; LANES]; FRAME];
        real.iter_mut().enumerate().for_each(|(i, x)| x.fill(value(i)));
        let mut imaginary = [[0.0; LANES]; FRAME];
        transform.run(&mut real, &mut imaginary);
        for k in 0..FRAME {
            let (mut x, mut y) = (0.0, 0.0);
            for i in 0..FRAME {
                let angle = std::f64::consts::TAU * (i * k % FRAME) as f64 / FRAME as f64;
                x += value(i) * angle.cos();
                y -= value(i) * angle.sin();
            }
            assert!((real[k][3] - x).abs() < 1e-9 && (imaginary[k][0] - y).abs() < 1e-9, "{k}");
        }
    }

    #[test]
    fn filters_of_both_sizes_have_area_one() {
        for bins in [80, 128] {
            for (i, filter) in filters(bins).iter().enumerate() {
                let area: f64 = filter.weights.iter().sum::<f64>() * 40.0;
                // The narrowest of 128 filters are sampled by one or two frequencies.
                assert!((0.45..1.7).contains(&area), "{bins} {i} {area}");
            }
        }
    }

    #[test]
    fn spectrograms_of_short_audio_have_silence_for_a_window() {
        let cpu = Cpu::new(Tier::SCALAR, 1).unwrap();
        for n in [0, 1, 159, 160, 5000] {
            let mel = Mel::new(&cpu, &vec![0.5; n], 80);
            assert_eq!((mel.frames(), mel.window(mel.frames(), 3000).len()), (n / 160, 3000 * 80));
        }
    }
}
