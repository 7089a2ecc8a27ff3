//! Resampling by a windowed sinc (Smith, "Digital Audio Resampling Home Page"): a low-pass filter below half of the lower
//! rate, evaluated at the times of the new samples.
//!
//! Rates are reduced by their greatest common divisor, so that the filter has few phases. Rates without a large divisor
//! have more phases than [`MAX_PHASES`]; their times are rounded to one of them.

use leyden_kernels::ops::sin_cos;

/// Zero crossings of the sinc on each side.
const CROSSINGS: usize = 32;

/// Share of half the lower rate at which the filter attenuates by half.
const CUTOFF: f64 = 0.95;

/// Shape of the Kaiser window: stop band at about -100 dB.
const BETA: f64 = 10.0;

/// Largest number of phases of a filter.
const MAX_PHASES: u64 = 2048;

/// Converter of a stream of samples from one rate to another.
pub(super) struct Resampler {
    /// Rates divided by their greatest common divisor; `None` if they are equal.
    rates: Option<(u64, u64)>,
    /// Filter of each phase, of [`taps`](Self::taps) values.
    filters: Vec<f32>,
    taps: usize,
    phases: u64,
    /// Input that is still needed; it begins with input number `start` (of the padded stream).
    input: Vec<f32>,
    start: u64,
    /// Number of samples written and read.
    written: u64,
    read: u64,
}

impl Resampler {
    /// Returns a converter from rate `from` to rate `to`.
    pub(super) fn new(from: u32, to: u32) -> Resampler {
        let divisor = gcd(from, to);
        let (from, to) = (u64::from(from / divisor), u64::from(to / divisor));
        let mut new = Resampler {
            rates: None,
            filters: Vec::new(),
            taps: 0,
            phases: 0,
            input: Vec::new(),
            start: 0,
            written: 0,
            read: 0,
        };
        if from == to {
            return new;
        }
        // Width in input samples of one crossing.
        let width = (from as f64 / to as f64).max(1.0) / CUTOFF;
        let half = (CROSSINGS as f64 * width).ceil() as usize;
        new.rates = Some((from, to));
        (new.taps, new.phases) = (2 * half, to.min(MAX_PHASES));
        new.filters.reserve_exact(new.taps * new.phases as usize);
        for phase in 0..new.phases {
            let between = phase as f64 / new.phases as f64;
            let at = |tap: usize| (tap as f64 - (half - 1) as f64 - between) / width;
            let weights: Vec<f64> = (0..new.taps).map(|tap| windowed_sinc(at(tap))).collect();
            // A constant signal keeps its value in every phase.
            let sum: f64 = weights.iter().sum();
            new.filters.extend(weights.iter().map(|weight| (weight / sum) as f32));
        }
        // The first sample lies in the middle of its filter.
        new.input = vec![0.0; half - 1];
        new
    }

    /// Converts the next samples, as far as the filter reaches.
    pub(super) fn add(&mut self, samples: &[f32], out: &mut Vec<f32>) {
        let Some(rates) = self.rates else { return out.extend_from_slice(samples) };
        self.read += samples.len() as u64;
        self.input.extend_from_slice(samples);
        self.convert(rates, out, u64::MAX);
    }

    /// Converts the rest, followed by silence.
    pub(super) fn finish(&mut self, out: &mut Vec<f32>) {
        let Some((from, to)) = self.rates else { return };
        self.input.extend(std::iter::repeat_n(0.0, self.taps));
        self.convert((from, to), out, (self.read * to).div_ceil(from));
    }

    fn convert(&mut self, (from, to): (u64, u64), out: &mut Vec<f32>, most: u64) {
        while self.written < most {
            let time = self.written * from;
            let mut first = time / to;
            // Nearest phase; exact unless there are too many.
            let mut phase = (time % to * self.phases * 2 + to) / (2 * to);
            if phase == self.phases {
                (phase, first) = (0, first + 1);
            }
            let at = (first - self.start) as usize;
            let Some(input) = self.input.get(at..at + self.taps) else { break };
            out.push(dot(input, &self.filters[phase as usize * self.taps..][..self.taps]));
            self.written += 1;
        }
        let next = (self.written * from / to - self.start) as usize;
        let done = next.min(self.input.len());
        self.input.drain(..done);
        self.start += done as u64;
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Returns the product of two rows, with 16 partial sums.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    let (a, a_rest) = a.as_chunks::<16>();
    let (b, b_rest) = b.as_chunks::<16>();
    for (a, b) in a.iter().zip(b) {
        for i in 0..16 {
            sums[i] += a[i] * b[i];
        }
    }
    for (sum, (a, b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum += a * b;
    }
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
    }
    sums[0]
}

/// Returns the sinc at `x` crossings times a Kaiser window over [`CROSSINGS`].
fn windowed_sinc(x: f64) -> f64 {
    let place = x / CROSSINGS as f64;
    if place.abs() >= 1.0 {
        return 0.0;
    }
    let angle = std::f64::consts::PI * x;
    let sinc = if x.abs() < 1e-9 { 1.0 } else { sin_cos(angle).0 / angle };
    sinc * bessel(BETA * (1.0 - place * place).sqrt()) / bessel(BETA)
}

/// Returns the modified Bessel function of the first kind of order 0, by its power series.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term, quarter) = (1.0, 1.0, x * x / 4.0);
    for n in 1..40 {
        term *= quarter / f64::from(n * n);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resampled(samples: &[f32], from: u32, piece: usize) -> Vec<f32> {
        let (mut resampler, mut out) = (Resampler::new(from, 16_000), Vec::new());
        samples.chunks(piece).for_each(|piece| resampler.add(piece, &mut out));
        resampler.finish(&mut out);
        out
    }

    fn tone(rate: u32, hertz: f64, n: usize) -> Vec<f32> {
        let angle = |i: usize| std::f64::consts::TAU * hertz * i as f64 / f64::from(rate);
        (0..n).map(|i| angle(i).sin() as f32).collect()
    }

    #[test]
    fn resampler_keeps_tones_in_the_band_and_removes_others() {
        for from in [8_000, 11_025, 22_050, 44_100, 44_101, 48_000, 96_000, 16_000] {
            let n = from as usize / 2;
            for hertz in [50.0, 1000.0, 3300.0] {
                let out = resampled(&tone(from, hertz, n), from, 999);
                assert_eq!(out.len(), 8_000, "{from}");
                let want = tone(16_000, hertz, out.len());
                let error = (500..7_500).map(|i| (out[i] - want[i]).abs()).fold(0.0, f32::max);
                assert!(error < if from == 44_101 { 2e-3 } else { 2e-4 }, "{from} {hertz}: {error}");
            }
            if from > 22_050 {
                let out = resampled(&tone(from, 8_800.0, n), from, 999);
                let most = out[500..7_500].iter().fold(0.0, |a: f32, x| a.max(x.abs()));
                assert!(most < 1e-3, "{from}: {most}");
            }
        }
    }

    #[test]
    fn resampler_does_not_depend_on_pieces() {
        let tone = tone(44_100, 440.0, 20_000);
        assert!(resampled(&tone, 44_100, 1) == resampled(&tone, 44_100, 20_000));
    }
}
