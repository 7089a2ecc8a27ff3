//! The decoder: embedding, transformer blocks, output head.
//!
//! Layers run eagerly, one after the other, on buffers of the workspace. A block is: normalise, multiply by Q, K
//! and V, rotate, store keys and values, attend, multiply by O onto the residual stream; normalise, gated
//! feed-forward, multiply by down onto the stream. In a mixture of experts that is done by those of a token. What is
//! normalised once more before it goes onto the stream, [`LayerConfig::norms`] says.
//!
//! Of the last block's output only the rows that are asked for are of use, for most of a prompt none: the others end with
//! their keys and values.

use crate::batch::{Batch, Workspace};
use crate::config::{DecoderConfig, LayerConfig};
use crate::error::Error;
use crate::layers::{Layer, Norm, Ropes, keep};
use crate::load::Loader;
use crate::network::Network;
use leyden_kernels::Cpu;
use leyden_kernels::attention::{AttentionSpan, KvCache, KvShape, KvType};
use leyden_kernels::gemm::{PackedWeights, Product, Write, multiply};
use leyden_kernels::ops::soft_cap;
use leyden_tensor::{Gguf, WeightSource, quant};
use std::fmt;
use std::sync::Arc;

/// A loaded decoder-only transformer.
pub(crate) struct Decoder {
    config: DecoderConfig,
    source: Arc<dyn WeightSource>,
    /// The file that matrices lie in, where they are not in memory of our own.
    pack: Option<Arc<Gguf>>,
    parts: Parts,
}

/// Everything in a decoder that comes from tensors.
pub(crate) struct Parts {
    vocabulary: usize,
    ropes: Ropes,
    layers: Vec<Layer>,
    norm: Norm,
    head: PackedWeights,
}

impl Parts {
    pub(crate) fn load(loader: &Loader<'_>, c: &DecoderConfig) -> Result<Parts, Error> {
        let vocabulary = loader.rows_of("token_embd.weight", c.width)?;
        let mut ropes = Ropes::default();
        let layers =
            (0..c.layers.len()).map(|i| Layer::load(loader, c, i, &mut ropes)).collect::<Result<_, _>>()?;
        let norm = Norm::load(loader, c.norm, "output_norm.weight", c.width)?;
        // Without a matrix of its own the output shares the embedding's.
        let head = match loader.has("output.weight")? {
            true => loader.matrix("output.weight", vocabulary, c.width)?,
            false => loader.matrix("token_embd.weight", vocabulary, c.width)?,
        };
        Ok(Parts { vocabulary, ropes, layers, norm, head })
    }

    /// Every matrix, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        self.layers.iter().flat_map(Layer::matrices).chain([&self.head]).collect()
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Network for Decoder {
    fn config(&self) -> &DecoderConfig {
        &self.config
    }

    fn vocabulary(&self) -> usize {
        self.parts.vocabulary
    }

    fn kv_shape(&self, kv_type: KvType) -> Result<KvShape, Error> {
        let layers = &self.config.layers;
        let layer = &layers[0];
        if layers.iter().any(|l| (l.kv_heads, l.head_dim) != (layer.kv_heads, layer.head_dim)) {
            let what = "keys and values of different sizes in different layers are not supported";
            return Err(Error::invalid(&self.source.path().display().to_string(), "layers", what));
        }
        if kv_type == KvType::Q8_0 && !layer.head_dim.is_multiple_of(32) {
            let what =
                format!("q8_0 keys and values need heads of a multiple of 32 values, not {}", layer.head_dim);
            return Err(Error::invalid(&self.source.path().display().to_string(), "head size", what));
        }
        Ok(KvShape { layers: layers.len(), heads: layer.kv_heads, head_dim: layer.head_dim, kv_type })
    }

    fn workspace_bytes(&self, tokens: usize, outputs: usize) -> usize {
        // In floats per token: the stream and its norm, queries, keys and values, what attention mixes, the two halves of
        // the feed-forward layer, and the activations of each in a product's form; then logits.
        let floats = |most: &dyn Fn(&LayerConfig) -> usize| {
            self.config.layers.iter().map(most).max().unwrap_or_default()
        };
        let (heads, ffn) = (floats(&|l| l.heads * l.head_dim), floats(&|l| l.ffn));
        4 * (tokens * (4 * self.config.width + 4 * heads + 3 * ffn) + outputs * self.parts.vocabulary)
    }

    fn weight_bytes(&self) -> usize {
        self.parts.matrices().iter().map(|m| m.bytes()).sum()
    }

    fn step_bytes(&self, tokens: usize) -> usize {
        let tokens = i32::try_from(tokens).unwrap_or(i32::MAX);
        let passed_over = |(layer, config): (&Layer, &LayerConfig)| {
            let Some(experts) = config.experts else { return 0.0 };
            let stacks: usize = layer.matrices().iter().filter(|m| m.count() > 1).map(|m| m.bytes()).sum();
            stacks as f64 * (1.0 - experts.used as f64 / experts.count as f64).powi(tokens)
        };
        let layers = self.parts.layers.iter().zip(&self.config.layers);
        self.weight_bytes() - layers.map(passed_over).sum::<f64>() as usize
    }

    fn step_macs(&self, tokens: usize, outputs: usize) -> u64 {
        let macs = |(layer, config): (&Layer, &LayerConfig)| {
            let used = config.experts.map_or(1, |e| e.used);
            let macs = |m: &&PackedWeights| (m.rows() * m.k() * if m.count() > 1 { used } else { 1 }) as u64;
            let stored = layer.attention.stored().iter().map(macs).sum::<u64>();
            (layer.matrices().iter().map(macs).sum::<u64>(), stored)
        };
        let all: Vec<(u64, u64)> = self.parts.layers.iter().zip(&self.config.layers).map(macs).collect();
        let skipped = all.last().map_or(0, |(whole, stored)| whole - stored);
        let layers = all.iter().map(|(whole, _)| whole).sum::<u64>();
        let head = (self.parts.head.rows() * self.parts.head.k()) as u64;
        outputs as u64 * (layers + head) + tokens.saturating_sub(outputs) as u64 * (layers - skipped)
    }

    fn forward(
        &self,
        cpu: &Cpu,
        batch: &Batch<'_>,
        cache: &mut KvCache,
        work: &mut Workspace,
    ) -> Result<(), Error> {
        let n = batch.tokens.len();
        assert_eq!(batch.spans.iter().map(|s| s.tokens).sum::<usize>(), n, "spans cover the batch");
        self.embed(batch.tokens, work)?;
        self.parts.ropes.place(batch, &mut work.rotations);
        work.place(batch);
        let mut first = 0;
        let spans: Vec<AttentionSpan<'_>> = batch
            .spans
            .iter()
            .map(|s| {
                let (tokens, position, blocks) = (s.tokens, s.position, s.blocks);
                let span = AttentionSpan { first, tokens, position, stored: position + tokens, blocks };
                first += tokens;
                span
            })
            .collect();
        let (all, wanted) = ((0..n).collect::<Vec<_>>(), batch.wanted());
        let wanted_spans = spans_of(&wanted, &spans);
        for (i, layer) in self.parts.layers.iter().enumerate() {
            let last = i + 1 == self.parts.layers.len();
            let (rows, spans) = if last { (&wanted, &wanted_spans) } else { (&all, &spans) };
            layer.attention_norm.rows(cpu, &work.stream, &mut work.normed);
            layer.attention.store(cpu, rows, cache, work);
            if rows.is_empty() {
                break;
            }
            layer.attention.attend(cpu, spans, cache, layer.attention_half(), work);
            layer.ffn_norm.rows(cpu, &work.stream, &mut work.normed);
            layer.ffn.forward(cpu, layer.ffn_half(), work);
        }
        let Parts { norm, .. } = &self.parts;
        norm.some_rows(cpu, &work.stream, &places(&wanted, batch.states), &mut work.wanted_states);
        self.predict(cpu, &places(&wanted, batch.outputs), work);
        match &self.pack {
            Some(pack) => Ok(pack.check_intact()?),
            None => Ok(()),
        }
    }
}

impl Decoder {
    pub(crate) fn new(
        config: DecoderConfig,
        source: Arc<dyn WeightSource>,
        pack: Option<Arc<Gguf>>,
        parts: Parts,
    ) -> Decoder {
        Decoder { config, source, pack, parts }
    }

    /// Rows of the embedding matrix, decoded from the file.
    fn embed(&self, tokens: &[u32], work: &mut Workspace) -> Result<(), Error> {
        let table = self.source.require("token_embd.weight")?;
        let (width, scale) = (self.config.width, self.config.embedding_scale);
        work.stream.resize(tokens.len() * width);
        for (&token, out) in tokens.iter().zip(work.stream.chunks_exact_mut(width)) {
            quant::decode_row(table.dtype(), table.row(token as usize), out);
            if scale != 1.0 {
                out.iter_mut().for_each(|x| *x *= scale);
            }
        }
        if self.source.truncated() {
            return Err(Error::truncated(&self.source.path().display().to_string()));
        }
        Ok(())
    }

    /// Logits of the wanted rows of the stream.
    fn predict(&self, cpu: &Cpu, outputs: &[usize], work: &mut Workspace) {
        let Parts { vocabulary, norm, head, .. } = &self.parts;
        let width = self.config.width;
        work.logits.resize(outputs.len() * vocabulary);
        if outputs.is_empty() {
            return;
        }
        keep(outputs, width, &mut work.stream);
        norm.rows(cpu, &work.stream, &mut work.normed);
        work.activations.fill(cpu.tier(), cpu.pool(), head.act_format(), &work.normed, width);
        let product = Product { weights: head, bias: None, out: &mut work.logits, write: Write::Set };
        multiply(cpu, &work.activations, &mut [product]);
        if let Some(cap) = self.config.logit_soft_cap {
            cpu.for_rows(&mut work.logits, *vocabulary, |_, row| soft_cap(cpu.tier(), row, cap));
        }
    }
}

/// Where each of `some` stands among `rows`, which it is one of; both ascend.
fn places(rows: &[usize], some: &[usize]) -> Vec<usize> {
    some.iter().map(|row| rows.partition_point(|r| r < row)).collect()
}

/// What `spans` are of `rows` alone, which ascend: a span for those of a sequence that follow one another.
fn spans_of<'a>(rows: &[usize], spans: &[AttentionSpan<'a>]) -> Vec<AttentionSpan<'a>> {
    let mut of_rows = Vec::new();
    let mut first = 0;
    for span in spans {
        let end = rows.partition_point(|row| *row < span.first + span.tokens);
        for run in rows[first..end].chunk_by(|a, b| a + 1 == *b) {
            let position = span.position + run[0] - span.first;
            of_rows.push(AttentionSpan { first, tokens: run.len(), position, ..*span });
            first += run.len();
        }
    }
    of_rows
}
