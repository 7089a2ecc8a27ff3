//! Encoder: two convolutions over the frames, positions, and layers of attention over the whole window.

use super::config::Config;
use super::layers::{FeedForward, Linear, Loader, Norm, Projections, apply, resize};
use super::precision::Precision;
use super::work::Work;
use crate::error::Error;
use leyden_kernels::Cpu;
use leyden_kernels::attention::{
    AttentionOptions, AttentionSpan, BLOCK_TOKENS, KvCache, KvShape, Mask, WholeTexts, attention,
    attention_of_texts,
};
use leyden_kernels::gemm::Write;

/// Frames that a convolution reads for one result.
const TAPS: usize = 3;

/// Encoder's weights.
#[derive(Debug)]
pub(super) struct Encoder {
    convolutions: [Linear; 2],
    /// Positions `[audio_context][width]`, added after the convolutions.
    positions: Vec<f32>,
    layers: Vec<Layer>,
    norm: Norm,
    sizes: Config,
    precision: Precision,
}

#[derive(Debug)]
struct Layer {
    attention: Projections,
    feed_forward: FeedForward,
}

impl Encoder {
    pub(super) fn load(loader: &Loader<'_>, config: &Config) -> Result<Encoder, Error> {
        let width = config.width;
        let layer = |i: usize| {
            let name = format!("encoder.layers.{i}");
            let norm = format!("{name}.self_attn_layer_norm");
            Ok(Layer {
                attention: Projections::load(loader, &format!("{name}.self_attn"), &norm, width, false)?,
                feed_forward: FeedForward::load(loader, &name, width, config.encoder.hidden)?,
            })
        };
        Ok(Encoder {
            convolutions: [
                convolution(loader, "encoder.conv1", width, config.bins)?,
                convolution(loader, "encoder.conv2", width, width)?,
            ],
            positions: loader.floats("encoder.embed_positions.weight", &[config.audio_context, width])?,
            layers: (0..config.encoder.layers).map(layer).collect::<Result<_, Error>>()?,
            norm: Norm::load(loader, "encoder.layer_norm", width)?,
            sizes: config.clone(),
            precision: loader.precision,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        let layers: usize = self.layers.iter().map(|l| l.attention.bytes() + l.feed_forward.bytes()).sum();
        layers + self.convolutions.iter().map(Linear::bytes).sum::<usize>() + self.positions.len() * 4
    }

    /// Computes hidden states `[audio_context][width]` of a window `[frame][bin]`.
    pub(super) fn encode(&self, cpu: &Cpu, window: &[f32], work: &mut Work) -> Result<Vec<f32>, Error> {
        let Config { bins, width, audio_context: n, .. } = self.sizes;
        assert_eq!(window.len(), self.sizes.window_frames() * bins, "frames of a window");
        let [first, second] = &self.convolutions;
        let (mut rows, mut hidden, mut x) = (Vec::new(), Vec::new(), Vec::new());
        gather(window, bins, 1, &mut rows);
        first.apply_gelu(cpu, &mut work.activations, &rows, &mut hidden);
        gather(&hidden, width, 2, &mut rows);
        second.apply_gelu(cpu, &mut work.activations, &rows, &mut x);
        drop((rows, hidden));
        cpu.for_rows(&mut x, width, |i, row| {
            let positions = &self.positions[i * width..][..width];
            row.iter_mut().zip(positions).for_each(|(x, position)| *x += position);
        });
        let heads = self.sizes.encoder.heads;
        let mut attend = Attend::new(self.precision, n, heads, width / heads)?;
        for layer in &self.layers {
            layer.attention.norm.apply(cpu, &x, &mut work.normed);
            let Work { activations, normed, queries, keys, values, mixed, .. } = work;
            [&mut *queries, keys, values, mixed].into_iter().for_each(|buffer| resize(buffer, n * width));
            let Projections { query, key, value, out, .. } = &layer.attention;
            apply(
                cpu,
                activations,
                normed,
                Write::Set,
                &mut [(query, queries), (key, keys), (value, values)],
            );
            attend.all(cpu, (queries, keys, values), mixed);
            out.apply(cpu, activations, mixed, &mut x, Write::Add);
            layer.feed_forward.add(cpu, &mut x, work);
        }
        let mut out = Vec::new();
        self.norm.apply(cpu, &x, &mut out);
        Ok(out)
    }
}

/// Loads a convolution of [`TAPS`] frames as a matrix `[width][tap][channel]`: `[width][channel][tap]` in the file.
fn convolution(loader: &Loader<'_>, name: &str, width: usize, channels: usize) -> Result<Linear, Error> {
    let weight = format!("{name}.weight");
    let stored = loader.floats(&weight, &[width, channels, TAPS])?;
    let mut turned = vec![0.0; stored.len()];
    for (from, to) in stored.chunks_exact(channels * TAPS).zip(turned.chunks_exact_mut(channels * TAPS)) {
        for channel in 0..channels {
            for tap in 0..TAPS {
                to[tap * channels + channel] = from[channel * TAPS + tap];
            }
        }
    }
    let weights = loader.float_matrix(&weight, width, &turned)?;
    Ok(Linear::new(weights, Some(loader.vector(&format!("{name}.bias"), width)?)))
}

/// Gathers the rows that a convolution reads, `stride` frames apart; there is silence around the window.
fn gather(x: &[f32], channels: usize, stride: usize, rows: &mut Vec<f32>) {
    let frames = x.len() / channels;
    rows.clear();
    rows.reserve(frames.div_ceil(stride) * TAPS * channels);
    for middle in (0..frames).step_by(stride) {
        for tap in 0..TAPS {
            match (middle + tap).checked_sub(1).filter(|frame| *frame < frames) {
                Some(frame) => rows.extend_from_slice(&x[frame * channels..][..channels]),
                None => rows.extend(std::iter::repeat_n(0.0, channels)),
            }
        }
    }
}

/// Attention of all positions of a window to all.
struct Attend {
    /// Cache of one layer; `None` for attention in 8-bit integers, which needs none.
    cache: Option<KvCache>,
    blocks: Vec<u32>,
    slots: Vec<(u32, u8)>,
    tokens: usize,
    heads: usize,
    dim: usize,
}

impl Attend {
    fn new(precision: Precision, tokens: usize, heads: usize, dim: usize) -> Result<Attend, Error> {
        let blocks = tokens.div_ceil(BLOCK_TOKENS);
        let shape = || KvShape::uniform(1, heads, dim, precision.kv_type());
        let cache = (precision != Precision::Int8).then(|| KvCache::new(shape(), blocks)).transpose()?;
        let blocks = (0..blocks as u32).collect();
        Ok(Attend { cache, blocks, slots: slots(0, tokens, 0), tokens, heads, dim })
    }

    fn all(&mut self, cpu: &Cpu, (queries, keys, values): (&[f32], &[f32], &[f32]), out: &mut [f32]) {
        let (n, scale) = (self.tokens, (self.dim as f32).sqrt().recip());
        let span = AttentionSpan { first: 0, tokens: n, position: 0, stored: n, blocks: &self.blocks };
        let Some(cache) = &mut self.cache else {
            let texts = WholeTexts {
                spans: &[span],
                starts: &[0],
                queries,
                keys,
                values,
                heads: [self.heads; 2],
                dims: [self.dim; 2],
                scale,
                mask: Mask::Full,
                by_distance: None,
            };
            return attention_of_texts(cpu, &texts, out);
        };
        cache.append(cpu, 0, &self.slots, keys, values);
        let options = AttentionOptions { mask: Mask::Full, ..AttentionOptions::causal(scale) };
        attention(cpu, cache, 0, &[span], queries, &options, out);
    }
}

/// Returns the places of `count` tokens from position `first` on, in blocks from `block` on.
pub(super) fn slots(first: usize, count: usize, block: usize) -> Vec<(u32, u8)> {
    let place = |position: usize| ((block + position / BLOCK_TOKENS) as u32, (position % BLOCK_TOKENS) as u8);
    (first..first + count).map(place).collect()
}
