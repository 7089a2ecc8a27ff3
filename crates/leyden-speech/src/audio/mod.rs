//! Audio files to samples: one channel at 16 kHz.
//!
//! Decoders hand blocks of interleaved samples to a mixer, which mixes them to one channel and resamples them, so that
//! memory is that of the result. A file is decoded within [`AudioLimits`].

mod compressed;
mod mixer;
mod resample;
mod wav;

use crate::error::{Error, ErrorKind};
use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use mixer::{AudioLimits, SAMPLE_RATE};

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
