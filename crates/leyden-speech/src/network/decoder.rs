//! Decoder's weights, and the caches of the texts that are decoded.

use super::config::Config;
use super::layers::{FeedForward, Linear, Loader, Norm, Projections};
use crate::error::Error;
use leyden_kernels::attention::KvCache;
use leyden_tensor::DType;

/// Largest number of texts that are decoded side by side.
pub(crate) const MAX_TEXTS: usize = 5;

/// Name of the embeddings, which are also the output matrix.
const EMBEDDINGS: &str = "decoder.embed_tokens.weight";

/// Decoder's weights.
pub(super) struct Decoder {
    /// Rows of the embeddings as they are stored, and their type.
    embeddings: (Vec<u8>, DType),
    /// Positions `[text_context][width]`.
    positions: Vec<f32>,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Norm,
    pub(super) output: Linear,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}

/// Layer: attention over its own text, attention over the audio, feed-forward sublayer.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) own: Projections,
    pub(super) crossed: Projections,
    pub(super) feed_forward: FeedForward,
}

/// Rows whose logits are computed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask<'a> {
    /// All tokens of the step.
    All,
    /// The last token of each text.
    Last,
    /// These tokens of the step.
    Rows(&'a [usize]),
}

/// Texts that are decoded for one window of audio: their caches, and that of the audio.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(super) own: KvCache,
    pub(super) crossed: KvCache,
    pub(super) audio: Vec<u32>,
    /// Cache blocks of each text.
    pub(super) blocks: Vec<Vec<u32>>,
    /// Tokens of each text so far.
    pub(crate) lengths: Vec<usize>,
    /// Layers whose queries of the audio are kept, with the queries `[token][width]` of the last step.
    pub(crate) watched: Vec<(usize, Vec<f32>)>,
}

impl Texts {
    /// Forgets the texts, but not the audio; `n` texts follow.
    ///
    /// # Panics
    /// If there are more than [`MAX_TEXTS`].
    pub(crate) fn restart(&mut self, n: usize) {
        assert!(n <= MAX_TEXTS, "{n} texts");
        self.lengths.clear();
        self.lengths.resize(n, 0);
    }
}

impl Decoder {
    pub(super) fn load(loader: &Loader<'_>, config: &Config) -> Result<Decoder, Error> {
        let width = config.width;
        let layer = |i: usize| {
            let name = format!("decoder.layers.{i}");
            let part = |part: &str, norm: &str, crossed| {
                Projections::load(
                    loader,
                    &format!("{name}.{part}"),
                    &format!("{name}.{norm}"),
                    width,
                    crossed,
                )
            };
            Ok(Layer {
                own: part("self_attn", "self_attn_layer_norm", false)?,
                crossed: part("encoder_attn", "encoder_attn_layer_norm", true)?,
                feed_forward: FeedForward::load(loader, &name, width, config.decoder.hidden)?,
            })
        };
        let norm = Norm::load(loader, "decoder.layer_norm", width)?;
        let stored = loader.source.tensor(EMBEDDINGS, &[config.vocabulary, width])?;
        let output = loader.matrix(EMBEDDINGS, config.vocabulary, width, Some(&norm))?;
        Ok(Decoder {
            embeddings: (stored.bytes.to_vec(), stored.dtype),
            positions: loader.floats("decoder.embed_positions.weight", &[config.text_context, width])?,
            layers: (0..config.decoder.layers).map(layer).collect::<Result<_, Error>>()?,
            norm,
            output: Linear::new(output, None),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        let layer = |l: &Layer| l.own.bytes() + l.crossed.bytes() + l.feed_forward.bytes();
        self.layers.iter().map(layer).sum::<usize>()
            + self.output.bytes()
            + self.embeddings.0.len()
            + self.positions.len() * 4
    }

    /// Writes the embedding of a token, plus its position.
    pub(super) fn embed(&self, config: &Config, token: u32, position: usize, out: &mut [f32]) {
        let (bytes, dtype) = &self.embeddings;
        let each = bytes.len() / config.vocabulary;
        leyden_tensor::quant::decode_row(*dtype, &bytes[token as usize * each..][..each], out);
        let positions = &self.positions[position * config.width..][..config.width];
        out.iter_mut().zip(positions).for_each(|(x, position)| *x += position);
    }
}
