//! Audio files to samples: one channel at 16 kHz.
//!
//! Decoders hand blocks of interleaved samples to a [`Mixer`], which mixes them to one channel and resamples them, so that
//! memory is that of the result. A file is decoded within [`AudioLimits`].

mod compressed;
mod resample;
mod wav;

use crate::error::{Error, ErrorKind};
use resample::Resampler;
use std::fs::File;
use std::io::Read;
use std::path::Path;

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

/// Samples of one channel at [`SAMPLE_RATE`].
#[derive(Clone, Debug)]
pub struct Audio {
    samples: Vec<f32>,
}

impl Audio {
    /// Returns audio of samples at [`SAMPLE_RATE`], which lie between -1 and 1.
    #[must_use]
    pub fn from_samples(samples: Vec<f32>) -> Audio {
        Audio { samples }
    }

    /// Reads and decodes a file: WAV, FLAC, MP3, Ogg Vorbis, or AAC in MP4. The format is found by the content.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, has no audio, or exceeds a limit. The error names it.
    pub fn open(path: &Path, limits: &AudioLimits) -> Result<Audio, Error> {
        let name = path.display();
        let io = |action| move |source| Error::new(ErrorKind::Io { action, source });
        let read = || {
            let file = File::open(path).map_err(io("open"))?;
            let known = file.metadata().map_err(io("read the size"))?;
            if known.is_dir() {
                return Err(Error::audio("a folder, not an audio file"));
            }
            let mut bytes = Vec::new();
            file.take(limits.bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(io("read"))?;
            Ok(bytes)
        };
        read().and_then(|bytes| Audio::decode(bytes, limits)).map_err(|error| error.file(name))
    }

    /// Decodes the bytes of a file as [`open`](Self::open) does.
    ///
    /// # Errors
    /// As [`open`](Self::open), without the file's name.
    pub fn decode(bytes: Vec<u8>, limits: &AudioLimits) -> Result<Audio, Error> {
        let size = bytes.len() as u64;
        if size > limits.bytes {
            return Err(Error::new(ErrorKind::TooLarge { bytes: size, most: limits.bytes }));
        }
        if bytes.is_empty() {
            return Err(Error::audio("the file is empty"));
        }
        let samples = match wav::is_wav(&bytes) {
            true => wav::decode(&bytes, limits)?,
            false => compressed::decode(bytes, limits)?,
        };
        match samples.is_empty() {
            true => Err(Error::audio("the file has no audio samples")),
            false => Ok(Audio { samples }),
        }
    }

    /// Returns the samples.
    #[must_use]
    pub fn samples(&self) -> &[f32] {
        &self.samples
    }

    /// Returns the duration in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(SAMPLE_RATE)
    }
}

/// Form of the samples of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SampleForm {
    rate: u32,
    channels: usize,
}

impl SampleForm {
    /// Returns the form if it can be converted.
    fn new(rate: u32, channels: usize) -> Result<SampleForm, Error> {
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
struct Mixer {
    form: SampleForm,
    resampler: Resampler,
    mono: Vec<f32>,
    /// Samples at [`SAMPLE_RATE`].
    out: Vec<f32>,
    limits: AudioLimits,
}

impl Mixer {
    fn new(form: SampleForm, limits: &AudioLimits) -> Mixer {
        let resampler = Resampler::new(form.rate, SAMPLE_RATE);
        Mixer { form, resampler, mono: Vec::new(), out: Vec::new(), limits: *limits }
    }

    /// Adds interleaved samples, whole frames of them. Values that are no numbers count as silence.
    fn add(&mut self, interleaved: impl ExactSizeIterator<Item = f32>) -> Result<(), Error> {
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
    fn finish(mut self) -> Vec<f32> {
        self.resampler.finish(&mut self.out);
        self.out
    }
}
