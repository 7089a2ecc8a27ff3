//! Speech to text: audio files, log-mel spectrograms, Whisper's network and its decoding.
//!
//! * [`Audio`] decodes files to samples of one channel at 16 kHz, [`Mel`] computes their spectrogram.
//! * [`Whisper`] is a loaded model: [`Whisper::transcribe`] gives a [`Transcription`] with segments and, if asked for,
//!   words and their times. [`Format`] writes it as text, JSON, SRT or WebVTT.
//!
//! ```no_run
//! use leyden_kernels::{Cpu, Tier};
//! use leyden_speech::{Audio, AudioLimits, Options, Precision, Whisper};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cpu = Cpu::new(Tier::best(), 2)?;
//! let model = Whisper::load(&cpu, "whisper-base".as_ref(), Precision::Stored)?;
//! let audio = Audio::open("speech.wav".as_ref(), &AudioLimits::default())?;
//! let result = model.transcribe(&cpu, &audio, &Options::default(), &mut |_| true)?;
//! println!("{}", result.text);
//! # Ok(())
//! # }
//! ```
//!
//! # A loop of its own
//!
//! The engine's step computes sequences of tokens over one paged cache, whose blocks it shares by their tokens. A text of
//! Whisper's decoder depends on its audio too: every layer attends to keys and values that no token stands for, prefixes
//! must not be shared between recordings, and texts are decoded again from the start at another temperature. So this crate
//! has its own small loop, on the same kernels, packed weights, attention and thread pool.
#![forbid(unsafe_code)]

mod audio;
mod decoding;
mod error;
mod formats;
mod languages;
mod mel;
mod network;
mod options;
mod timing;
mod transcribe;
mod transcript;
mod vocabulary;
mod whisper;

pub use audio::{Audio, AudioLimits, SAMPLE_RATE};
pub use error::{Error, ErrorKind};
pub use formats::{Cues, Format};
pub use languages::{language_code, language_codes, language_name};
pub use mel::Mel;
pub use network::{Config, Network, Precision, Stack};
pub use options::{Options, Thresholds, Timestamps};
pub use transcript::{Event, Segment, Transcription, Word};
pub use whisper::{Weights, Whisper};
