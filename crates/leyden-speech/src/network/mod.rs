//! Whisper's network (Radford et al., 2022): an encoder of spectrograms and a decoder of text, on packed weights.
//!
//! [`Network`] holds the weights, [`Encoded`] the keys and values of a window of audio, [`Texts`] the caches of the
//! texts that are decoded for it.

mod config;
mod decoder;
mod encoder;
mod ggml;
mod ggml_file;
mod layers;
mod precision;
mod source;
mod steps;
mod tensor;
mod whole;
mod work;

pub use config::{Config, Stack};
pub(crate) use decoder::{Ask, MAX_TEXTS, Texts};
pub use precision::Precision;
pub(crate) use source::Source;
pub use whole::Network;
pub(crate) use work::Work;
