//! [`Mixer`]: decoded samples to one channel at 16 kHz, within limits.

use super::resample::Resampler;
use crate::error::{Error, ErrorKind};

/// Sample rate of all models in samples per second.
pub const SAMPLE_RATE: u32 = 16_000;

/// Sample rates of files.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=768_000;

/// Largest number of channels of a file.
const MAX_CHANNELS: usize = 64;

/// Limits on an audio file.
#[derive(Clone, Copy, Debug)]
pub struct AudioLimits {
    /// Largest size of the file in bytes.
    pub bytes: u64,
    /// Longest duration in seconds.
    pub seconds: u64,
}

impl Default for AudioLimits {
    /// Returns limits of 2 GiB and four hours, whose samples take 0.9 GB of memory.
    fn default() -> AudioLimits {
        AudioLimits { bytes: 2 << 30, seconds: 4 * 3600 }
    }
}

/// Form of the samples of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SampleForm {
    pub(super) rate: u32,
    pub(super) channels: usize,
}

impl SampleForm {
    /// Returns the form if it can be converted.
    pub(super) fn new(rate: u32, channels: usize) -> Result<SampleForm, Error> {
        if !RATES.contains(&rate) {
            let message =
                format!("{rate} samples per second, not between {} and {}", RATES.start(), RATES.end());
            return Err(Error::audio(message).item("sample rate"));
        }
        if channels == 0 || channels > MAX_CHANNELS {
            return Err(Error::audio(format!("{channels} channels, not between 1 and {MAX_CHANNELS}"))
                .item("channels"));
        }
        Ok(SampleForm { rate, channels })
    }
}

/// Receiver of decoded samples: mixes channels by their mean, and resamples.
pub(super) struct Mixer {
    pub(super) form: SampleForm,
    resampler: Resampler,
    mono: Vec<f32>,
    /// Samples at [`SAMPLE_RATE`].
    out: Vec<f32>,
    limits: AudioLimits,
}

impl Mixer {
    pub(super) fn new(form: SampleForm, limits: &AudioLimits) -> Mixer {
        let resampler = Resampler::new(form.rate, SAMPLE_RATE);
        Mixer { form, resampler, mono: Vec::new(), out: Vec::new(), limits: *limits }
    }

    /// Adds interleaved samples, whole frames of them. Values that are no numbers count as silence.
    pub(super) fn add(&mut self, interleaved: impl ExactSizeIterator<Item = f32>) -> Result<(), Error> {
        self.mono.clear();
        let (channels, mut sum, mut at) = (self.form.channels, 0.0, 0);
        for sample in interleaved {
            // Floats of a file may be anything; far beyond full scale no sound is meant.
            sum += if sample.is_finite() { sample.clamp(-1e3, 1e3) } else { 0.0 };
            at += 1;
            if at == channels {
                self.mono.push(sum / channels as f32);
                (sum, at) = (0.0, 0);
            }
        }
        self.resampler.add(&self.mono, &mut self.out);
        match self.out.len() as u64 > self.limits.seconds.saturating_mul(u64::from(SAMPLE_RATE)) {
            true => Err(Error::new(ErrorKind::TooLong(self.limits.seconds))),
            false => Ok(()),
        }
    }

    /// Returns all samples.
    pub(super) fn finish(mut self) -> Vec<f32> {
        self.resampler.finish(&mut self.out);
        self.out
    }
}
