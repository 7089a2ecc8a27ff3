//! [`Network`]: encoder and decoder, loaded from a source.

use super::config::Config;
use super::decoder::{Ask, Decoder, MAX_TEXTS};
use super::encoder::Encoder;
use super::layers::Loader;
use super::precision::Precision;
use super::source::Source;
use super::work::Work;
use crate::error::Error;
use leyden_kernels::Cpu;
use leyden_kernels::attention::KvType;
use std::path::Path;

/// Whisper's network.
#[derive(Debug)]
pub struct Network {
    pub(super) config: Config,
    pub(super) precision: Precision,
    pub(super) encoder: Encoder,
    pub(super) decoder: Decoder,
}

impl Network {
    /// Loads the weights of a Hugging Face folder or a GGML file of whisper.cpp.
    ///
    /// # Errors
    /// A file is damaged, describes another model, or memory is short. The error names file and field.
    pub fn load(cpu: &Cpu, path: &Path, precision: Precision) -> Result<Network, Error> {
        Network::of(cpu, &Source::open(path)?, precision)
    }

    pub(crate) fn of(cpu: &Cpu, source: &Source, precision: Precision) -> Result<Network, Error> {
        let config = source.config().clone();
        let loader = Loader { cpu, source, precision };
        let encoder = Encoder::load(&loader, &config)?;
        let decoder = Decoder::load(&loader, &config)?;
        source.check_intact()?;
        Ok(Network { config, precision, encoder, decoder })
    }

    /// Returns the sizes of the network.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the types of the weights.
    #[must_use]
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the bytes of the packed weights.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.encoder.bytes() + self.decoder.bytes()
    }

    /// Returns the bytes of memory of a transcription beside the weights and the audio: caches and workspace.
    #[must_use]
    pub fn working_bytes(&self) -> usize {
        let c = &self.config;
        let kv = if self.precision.kv_type() == KvType::F32 { 8 } else { 4 };
        let cached = c.audio_context * c.decoder.layers + c.text_context * c.decoder.layers * MAX_TEXTS;
        cached * c.width * kv + c.audio_context * (c.width * 8 + c.encoder.hidden) * 4 + (c.vocabulary * 40)
    }

    /// Computes the encoder's output for a window of [`Config::window_frames`] frames of a spectrogram,
    /// `[frame][bin]`: hidden states `[audio_context][width]`.
    ///
    /// # Errors
    /// Memory is short.
    ///
    /// # Panics
    /// If the window has another size.
    pub fn encode(&self, cpu: &Cpu, window: &[f32]) -> Result<Vec<f32>, Error> {
        self.encode_with(cpu, window, &mut Work::default())
    }

    /// Computes [`encode`](Self::encode) in given buffers.
    pub(crate) fn encode_with(&self, cpu: &Cpu, window: &[f32], work: &mut Work) -> Result<Vec<f32>, Error> {
        self.encoder.encode(cpu, window, work)
    }

    /// Computes logits of all positions of a text for encoded audio: `[token][vocabulary]`.
    ///
    /// # Errors
    /// Memory is short, or there are more tokens than [`Config::text_context`].
    ///
    /// # Panics
    /// If a token is beyond the vocabulary, or `encoded` has another size.
    pub fn logits(&self, cpu: &Cpu, encoded: &[f32], tokens: &[u32]) -> Result<Vec<f32>, Error> {
        if tokens.len() > self.config.text_context {
            let message = format!("{} tokens, at most {}", tokens.len(), self.config.text_context);
            return Err(Error::option("tokens", message));
        }
        let mut texts = self.texts()?;
        let mut work = Work::default();
        self.hear(cpu, encoded, &mut texts, &mut work);
        let mut out = Vec::new();
        self.step(cpu, &mut texts, &[tokens], Ask::All, &mut work, &mut out);
        Ok(out)
    }
}
