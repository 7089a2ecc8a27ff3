//! [`Config`]: sizes of a network, from `config.json` or the header of a GGML file.

use crate::error::Error;
use leyden_tensor::Json;

/// Largest value of every size: far beyond all published models, and small enough that no product overflows.
const MAX_SIZE: usize = 1 << 20;

/// Head dimension of all published models.
const MAX_HEAD_DIM: usize = 256;

/// Sizes of the encoder or of the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Number of layers.
    pub layers: usize,
    /// Number of attention heads.
    pub heads: usize,
    /// Width of the feed-forward layers.
    pub hidden: usize,
}

/// Sizes of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bins of the spectrogram.
    pub bins: usize,
    /// Width of hidden states.
    pub width: usize,
    /// Encoder.
    pub encoder: Stack,
    /// Decoder.
    pub decoder: Stack,
    /// Number of tokens.
    pub vocabulary: usize,
    /// Number of the encoder's positions: two frames each.
    pub audio_context: usize,
    /// Number of the decoder's positions.
    pub text_context: usize,
}

impl Config {
    /// Returns the frames of a window.
    #[must_use]
    pub fn window_frames(&self) -> usize {
        2 * self.audio_context
    }

    /// Reads `config.json` of a Hugging Face folder.
    pub(super) fn from_json(json: &Json) -> Result<Config, Error> {
        let model = json.str("model_type")?;
        if model != "whisper" {
            return Err(Error::model(format!("{model:?} is not `whisper`"))
                .item("model_type")
                .file(json.file()));
        }
        for (key, wanted) in [("activation_function", "gelu")] {
            if let Some(found) = json.opt_str(key)?
                && found != wanted
            {
                return Err(Error::model(format!("{found:?} is not supported ({wanted} is)"))
                    .item(key)
                    .file(json.file()));
            }
        }
        for (key, wanted) in [("scale_embedding", false), ("tie_word_embeddings", true)] {
            if json.opt_bool(key)?.is_some_and(|found| found != wanted) {
                return Err(Error::model(format!("{} is not supported", !wanted))
                    .item(key)
                    .file(json.file()));
            }
        }
        let size = |key: &str| -> Result<usize, Error> { Ok(json.usize(key)?) };
        let width = size("d_model")?;
        let stack = |side: &str| -> Result<Stack, Error> {
            Ok(Stack {
                layers: size(&format!("{side}_layers"))?,
                heads: size(&format!("{side}_attention_heads"))?,
                hidden: size(&format!("{side}_ffn_dim"))?,
            })
        };
        let config = Config {
            bins: size("num_mel_bins")?,
            width,
            encoder: stack("encoder")?,
            decoder: stack("decoder")?,
            vocabulary: size("vocab_size")?,
            audio_context: size("max_source_positions")?,
            text_context: size("max_target_positions")?,
        };
        config.checked().map_err(|error| error.file(json.file()))
    }

    /// Returns the configuration if its sizes are possible.
    pub(super) fn checked(self) -> Result<Config, Error> {
        let Config { bins, width, encoder, decoder, vocabulary, audio_context, text_context } = &self;
        let sizes = [
            ("mel bins", *bins, 1024),
            ("width", *width, 1 << 16),
            ("encoder layers", encoder.layers, 1024),
            ("encoder heads", encoder.heads, 1 << 12),
            ("encoder hidden width", encoder.hidden, 1 << 18),
            ("decoder layers", decoder.layers, 1024),
            ("decoder heads", decoder.heads, 1 << 12),
            ("decoder hidden width", decoder.hidden, 1 << 18),
            ("vocabulary", *vocabulary, MAX_SIZE),
            ("audio context", *audio_context, 1500),
            ("text context", *text_context, 1 << 14),
        ];
        for (name, size, most) in sizes {
            if size == 0 || size > most {
                return Err(Error::model(format!("{size} is not between 1 and {most}")).item(name));
            }
        }
        for (name, heads) in [("encoder heads", encoder.heads), ("decoder heads", decoder.heads)] {
            let dim = width / heads;
            if !width.is_multiple_of(heads) || !dim.is_multiple_of(16) || dim > MAX_HEAD_DIM {
                let message = format!(
                    "{heads} heads do not divide a width of {width} into parts of at most {MAX_HEAD_DIM} values, a multiple of 16"
                );
                return Err(Error::model(message).item(name));
            }
        }
        Ok(self)
    }
}
