//! Decoder: layers of causal attention over the texts so far and of attention over the encoded audio.
//!
//! Keys and values of the audio are computed once per window, and shared by all texts that are decoded for it.

use super::config::Config;
use super::encoder::slots;
use super::layers::{FeedForward, Linear, Loader, Norm, Projections, apply, resize};
use super::{Network, Work};
use crate::error::Error;
use leyden_kernels::Cpu;
use leyden_kernels::attention::{
    AttentionOptions, AttentionSpan, BLOCK_TOKENS, KvCache, KvShape, Mask, attention,
};
use leyden_kernels::gemm::Write;
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
    layers: Vec<Layer>,
    norm: Norm,
    output: Linear,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Layer {
    own: Projections,
    crossed: Projections,
    feed_forward: FeedForward,
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
    own: KvCache,
    crossed: KvCache,
    audio: Vec<u32>,
    /// Cache blocks of each text.
    blocks: Vec<Vec<u32>>,
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
    fn embed(&self, config: &Config, token: u32, position: usize, out: &mut [f32]) {
        let (bytes, dtype) = &self.embeddings;
        let each = bytes.len() / config.vocabulary;
        leyden_tensor::quant::decode_row(*dtype, &bytes[token as usize * each..][..each], out);
        let positions = &self.positions[position * config.width..][..config.width];
        out.iter_mut().zip(positions).for_each(|(x, position)| *x += position);
    }
}

impl Network {
    /// Returns empty caches.
    ///
    /// # Errors
    /// Memory is short.
    pub(crate) fn texts(&self) -> Result<Texts, Error> {
        let Config { audio_context, text_context, decoder, width, .. } = self.config;
        let shape = || {
            KvShape::uniform(decoder.layers, decoder.heads, width / decoder.heads, self.precision.kv_type())
        };
        let (audio, each) = (audio_context.div_ceil(BLOCK_TOKENS), text_context.div_ceil(BLOCK_TOKENS));
        let of_text = |text: usize| (text * each..(text + 1) * each).map(|block| block as u32).collect();
        Ok(Texts {
            own: KvCache::new(shape(), each * MAX_TEXTS)?,
            crossed: KvCache::new(shape(), audio)?,
            audio: (0..audio as u32).collect(),
            blocks: (0..MAX_TEXTS).map(of_text).collect(),
            lengths: vec![0],
            watched: Vec::new(),
        })
    }

    /// Computes keys and values of encoded audio, `[audio_context][width]`, and forgets all texts but an empty one.
    pub(crate) fn hear(&self, cpu: &Cpu, encoded: &[f32], texts: &mut Texts, work: &mut Work) {
        let Config { audio_context, width, .. } = self.config;
        assert_eq!(encoded.len(), audio_context * width, "encoded audio");
        let slots = slots(0, audio_context, 0);
        for (i, layer) in self.decoder.layers.iter().enumerate() {
            let Work { activations, keys, values, .. } = work;
            [&mut *keys, values].into_iter().for_each(|buffer| resize(buffer, encoded.len()));
            let Projections { key, value, .. } = &layer.crossed;
            apply(cpu, activations, encoded, Write::Set, &mut [(key, keys), (value, values)]);
            texts.crossed.append(cpu, i, &slots, keys, values);
        }
        texts.restart(1);
    }

    /// Computes the keys of the audio in one layer, `[audio_context][width]`.
    pub(crate) fn audio_keys(&self, cpu: &Cpu, encoded: &[f32], layer: usize, work: &mut Work) -> Vec<f32> {
        let mut keys = vec![0.0; encoded.len()];
        let Projections { key, .. } = &self.decoder.layers[layer].crossed;
        key.apply(cpu, &mut work.activations, encoded, &mut keys, Write::Set);
        keys
    }

    /// Computes the next tokens of the texts, and logits of the rows asked for, `[row][vocabulary]`.
    ///
    /// # Panics
    /// If a text is longer than the context, or a token is beyond the vocabulary.
    pub(crate) fn step(
        &self,
        cpu: &Cpu,
        texts: &mut Texts,
        tokens: &[&[u32]],
        ask: Ask<'_>,
        work: &mut Work,
        logits: &mut Vec<f32>,
    ) {
        let Config { width, audio_context, text_context, decoder, .. } = self.config;
        assert_eq!(tokens.len(), texts.lengths.len(), "tokens of every text");
        let count: usize = tokens.iter().map(|tokens| tokens.len()).sum();
        let (mut x, mut places) = (vec![0.0; count * width], Vec::with_capacity(count));
        let mut rows = x.chunks_exact_mut(width);
        for (text, tokens) in tokens.iter().enumerate() {
            let first = texts.lengths[text];
            assert!(first + tokens.len() <= text_context, "a text within the context");
            for (i, token) in tokens.iter().enumerate() {
                self.decoder.embed(
                    &self.config,
                    *token,
                    first + i,
                    rows.next().expect("a row for each token"),
                );
            }
            places.extend(slots(first, tokens.len(), texts.blocks[text][0] as usize));
        }
        let (mut spans, mut first) = (Vec::new(), 0);
        for (text, tokens) in tokens.iter().enumerate() {
            let (position, tokens) = (texts.lengths[text], tokens.len());
            let blocks = &texts.blocks[text];
            spans.push(AttentionSpan { first, tokens, position, stored: position + tokens, blocks });
            first += tokens;
        }
        let of_audio: Vec<AttentionSpan<'_>> = (0..count)
            .step_by(audio_context)
            .map(|first| {
                let tokens = (count - first).min(audio_context);
                AttentionSpan { first, tokens, position: 0, stored: audio_context, blocks: &texts.audio }
            })
            .collect();
        let options = AttentionOptions::causal(((width / decoder.heads) as f32).sqrt().recip());
        let over_audio = AttentionOptions { mask: Mask::Full, ..options };
        for (i, layer) in self.decoder.layers.iter().enumerate() {
            layer.own.norm.apply(cpu, &x, &mut work.normed);
            let Work { activations, normed, queries, keys, values, mixed, .. } = &mut *work;
            [&mut *queries, keys, values, mixed].into_iter().for_each(|buffer| resize(buffer, count * width));
            let Projections { query, key, value, out, .. } = &layer.own;
            apply(
                cpu,
                activations,
                normed,
                Write::Set,
                &mut [(query, queries), (key, keys), (value, values)],
            );
            texts.own.append(cpu, i, &places, keys, values);
            attention(cpu, &texts.own, i, &spans, queries, &options, mixed);
            out.apply(cpu, activations, mixed, &mut x, Write::Add);

            layer.crossed.norm.apply(cpu, &x, normed);
            let Projections { query, out, .. } = &layer.crossed;
            query.apply(cpu, activations, normed, queries, Write::Set);
            if let Some((_, kept)) = texts.watched.iter_mut().find(|watched| watched.0 == i) {
                kept.clone_from(queries);
            }
            attention(cpu, &texts.crossed, i, &of_audio, queries, &over_audio, mixed);
            out.apply(cpu, activations, mixed, &mut x, Write::Add);
            layer.feed_forward.add(cpu, &mut x, work);
        }
        for (length, tokens) in texts.lengths.iter_mut().zip(tokens) {
            *length += tokens.len();
        }
        self.output(cpu, &x, tokens, ask, work, logits);
    }

    /// Computes logits of the rows asked for.
    fn output(
        &self,
        cpu: &Cpu,
        x: &[f32],
        tokens: &[&[u32]],
        ask: Ask<'_>,
        work: &mut Work,
        logits: &mut Vec<f32>,
    ) {
        let width = self.config.width;
        let mut end = 0;
        let last = tokens.iter().filter(|tokens| !tokens.is_empty()).map(|tokens| {
            end += tokens.len();
            end - 1
        });
        let rows: Vec<usize> = match ask {
            Ask::All => (0..x.len() / width).collect(),
            Ask::Last => last.collect(),
            Ask::Rows(rows) => rows.to_vec(),
        };
        let wanted: Vec<f32> = rows.iter().flat_map(|row| &x[row * width..][..width]).copied().collect();
        self.decoder.norm.apply(cpu, &wanted, &mut work.normed);
        resize(logits, rows.len() * self.config.vocabulary);
        self.decoder.output.apply(cpu, &mut work.activations, &work.normed, logits, Write::Set);
    }
}
