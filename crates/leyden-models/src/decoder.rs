//! The decoder: embedding, transformer blocks, output head.
//!
//! Layers run eagerly, one after the other, on buffers of the workspace. A block is: normalise, multiply by Q, K
//! and V, rotate, store keys and values, attend, multiply by O onto the residual stream; normalise, gated
//! feed-forward, multiply by down onto the stream. In a mixture of experts that is done by those of a token.
//!
//! Of the last block's output only the rows that are asked for are of use, for most of a prompt none: the others end with
//! their keys and values.

use crate::batch::{Batch, Workspace};
use crate::config::DecoderConfig;
use crate::error::Error;
use crate::frequencies::Frequencies;
use crate::layers::{FeedForward, GatedFeedForward, Layer, Linear, Mixture, Parts};
use leyden_kernels::attention::{AttentionSpan, BLOCK_TOKENS, KvCache, KvShape, KvType, attention};
use leyden_kernels::matmul::{
    Experts, PackedMatrix, Product, Write, multiply, multiply_experts, multiply_gated_onto,
};
use leyden_kernels::memory::Aligned;
use leyden_kernels::ops::{Rotation, rms_norm, rms_norm_in_place, rope, silu_mul};
use leyden_kernels::{Activations, Cpu};
use leyden_tensor::{Gguf, WeightSource, quant};
use std::fmt;
use std::sync::Arc;

/// A loaded decoder-only transformer.
pub struct Decoder {
    config: DecoderConfig,
    source: Arc<dyn WeightSource>,
    /// The file that matrices lie in, where they are not in memory of our own.
    pack: Option<Arc<Gguf>>,
    vocabulary: usize,
    frequencies: Frequencies,
    layers: Vec<Layer>,
    norm: Vec<f32>,
    head: PackedMatrix,
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Decoder {
    pub(crate) fn new(
        config: DecoderConfig,
        source: Arc<dyn WeightSource>,
        pack: Option<Arc<Gguf>>,
        parts: Parts,
    ) -> Decoder {
        let Parts { vocabulary, frequencies, layers, norm, head } = parts;
        Decoder { config, source, pack, vocabulary, frequencies, layers, norm, head }
    }

    /// The model's parameters.
    #[must_use]
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// Number of token ids the model knows.
    #[must_use]
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// What a cache for this model holds.
    ///
    /// # Errors
    /// The head size does not fit the storage type.
    pub fn kv_shape(&self, kv_type: KvType) -> Result<KvShape, Error> {
        let c = &self.config;
        if kv_type == KvType::Q8_0 && !c.head_dim.is_multiple_of(32) {
            let what =
                format!("q8_0 keys and values need heads of a multiple of 32 values, not {}", c.head_dim);
            return Err(Error::invalid(&self.source.path().display().to_string(), "head size", what));
        }
        Ok(KvShape { layers: c.layers, heads: c.kv_heads, head_dim: c.head_dim, kv_type })
    }

    /// Bytes of packed weights.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let layer = |l: &Layer| l.matrices().iter().map(|m| m.bytes()).sum::<usize>();
        self.layers.iter().map(layer).sum::<usize>() + self.head.bytes()
    }

    /// Bytes of packed weights that a step of `tokens` tokens reads: all of them, except that of a mixture's experts
    /// only those count that a token chose, as many as there would be if all were chosen equally often.
    #[must_use]
    pub fn step_bytes(&self, tokens: usize) -> usize {
        let all = self.weight_bytes();
        let Some(experts) = self.config.experts else { return all };
        let stacks =
            |l: &Layer| l.matrices().iter().filter(|m| m.count() > 1).map(|m| m.bytes()).sum::<usize>();
        let stacked: usize = self.layers.iter().map(stacks).sum();
        let passed_over = 1.0 - experts.used as f64 / experts.count as f64;
        all - (stacked as f64 * passed_over.powi(i32::try_from(tokens).unwrap_or(i32::MAX))) as usize
    }

    /// Multiplications with weights in a step of `tokens` tokens, of which as many go through the whole model as `outputs`
    /// says: of the others the last layer takes keys and values alone.
    #[must_use]
    pub fn step_macs(&self, tokens: usize, outputs: usize) -> u64 {
        let used = self.config.experts.map_or(1, |e| e.used);
        let macs = |m: &PackedMatrix| (m.rows() * m.k() * if m.count() > 1 { used } else { 1 }) as u64;
        let layer = |l: &Layer| l.matrices().into_iter().map(macs).sum::<u64>();
        let skipped = self
            .layers
            .last()
            .map_or(0, |l| layer(l) - macs(&l.attention.key.weights) - macs(&l.attention.value.weights));
        let whole = self.layers.iter().map(layer).sum::<u64>() + macs(&self.head);
        outputs as u64 * whole + tokens.saturating_sub(outputs) as u64 * (whole - skipped - macs(&self.head))
    }

    /// Runs a batch. Keys and values of its tokens go into `cache`; logits of `batch.outputs` are then in
    /// `work.logits()`.
    ///
    /// # Errors
    /// The model file, or that of its packed weights, was truncated while in use.
    ///
    /// # Panics
    /// If a token id is outside the vocabulary, spans and tokens do not match, or a span lacks blocks: the engine
    /// checks requests before they come here.
    pub fn forward(
        &self,
        cpu: &Cpu,
        batch: &Batch<'_>,
        cache: &mut KvCache,
        work: &mut Workspace,
    ) -> Result<(), Error> {
        let n = batch.tokens.len();
        assert_eq!(batch.spans.iter().map(|s| s.tokens).sum::<usize>(), n, "spans cover the batch");
        self.embed(batch.tokens, work)?;
        self.place(batch, work);
        let mut first = 0;
        let spans: Vec<AttentionSpan<'_>> = batch
            .spans
            .iter()
            .map(|s| {
                let span = AttentionSpan { first, tokens: s.tokens, position: s.position, blocks: s.blocks };
                first += s.tokens;
                span
            })
            .collect();
        let (all, wanted) = ((0..n).collect::<Vec<_>>(), batch.wanted());
        let wanted_spans = spans_of(&wanted, &spans);
        for (i, layer) in self.layers.iter().enumerate() {
            let last = i + 1 == self.layers.len();
            let (rows, spans) = if last { (&wanted, &wanted_spans) } else { (&all, &spans) };
            self.store(cpu, i, layer, rows, cache, work);
            if rows.is_empty() {
                break;
            }
            self.attend(cpu, i, layer, spans, cache, work);
            self.normalise(cpu, &layer.ffn_norm, work);
            match &layer.ffn {
                FeedForward::Gated(f) => self.feed_forward(cpu, f, work),
                FeedForward::Mixture(m) => self.mix(cpu, m, work),
            }
        }
        self.show(cpu, &places(&wanted, batch.states), work);
        self.predict(cpu, &places(&wanted, batch.outputs), work);
        match &self.pack {
            Some(pack) => Ok(pack.check_intact()?),
            None => Ok(()),
        }
    }

    /// Rows of the embedding matrix, decoded from the file.
    fn embed(&self, tokens: &[u32], work: &mut Workspace) -> Result<(), Error> {
        let table = self.source.require("token_embd.weight")?;
        let width = self.config.width;
        work.stream.resize(tokens.len() * width);
        for (&token, out) in tokens.iter().zip(work.stream.chunks_exact_mut(width)) {
            quant::decode_row(table.dtype(), table.row(token as usize), out);
        }
        if self.source.truncated() {
            return Err(Error::truncated(&self.source.path().display().to_string()));
        }
        Ok(())
    }

    /// Cache slots and rotations of the batch's tokens.
    fn place(&self, batch: &Batch<'_>, work: &mut Workspace) {
        work.slots.clear();
        work.rotations.resize_with(batch.tokens.len().max(work.rotations.len()), Default::default);
        for span in batch.spans {
            for position in span.position..span.position + span.tokens {
                let rotation = &mut work.rotations[work.slots.len()];
                rotation.set(position, &self.frequencies.values, self.frequencies.scale);
                // A block holds 64 tokens, so the place fits u8.
                work.slots.push((span.blocks[position / BLOCK_TOKENS], (position % BLOCK_TOKENS) as u8));
            }
        }
    }

    /// Normalises every row of the stream into `work.normed`.
    fn normalise(&self, cpu: &Cpu, weight: &[f32], work: &mut Workspace) {
        let (width, eps) = (self.config.width, self.config.norm_eps);
        work.normed.resize(work.stream.len());
        let stream = &work.stream;
        cpu.for_rows(&mut work.normed, width, |i, out| {
            rms_norm(cpu.tier(), &stream[i * width..(i + 1) * width], weight, eps, out);
        });
    }

    /// Keys and values of all rows, into the cache. The stream then holds `rows` alone, whose queries are in `work.queries`.
    fn store(
        &self,
        cpu: &Cpu,
        index: usize,
        layer: &Layer,
        rows: &[usize],
        cache: &mut KvCache,
        work: &mut Workspace,
    ) {
        let c = &self.config;
        let n = work.slots.len();
        self.normalise(cpu, &layer.attention_norm, work);
        work.queries.resize(rows.len() * c.heads * c.head_dim);
        work.keys.resize(n * c.kv_heads * c.head_dim);
        work.values.resize(n * c.kv_heads * c.head_dim);
        let a = &layer.attention;
        let query = (&a.query, &mut work.queries[..]);
        let [key, value] = [(&a.key, &mut work.keys[..]), (&a.value, &mut work.values[..])];
        if rows.len() == n {
            apply(cpu, &mut work.activations, &work.normed, Write::Set, [query, key, value]);
        } else {
            apply(cpu, &mut work.activations, &work.normed, Write::Set, [key, value]);
            keep(rows, c.width, &mut work.normed);
            keep(rows, c.width, &mut work.stream);
            apply(cpu, &mut work.activations, &work.normed, Write::Set, [query]);
        }
        let (rotations, norms) = (&work.rotations, &a.head_norm);
        let norm = |side: usize| norms.as_ref().map(|norms| &norms[side][..]);
        self.turn(cpu, &mut work.queries, c.heads, norm(0), |i| &rotations[rows[i]]);
        self.turn(cpu, &mut work.keys, c.kv_heads, norm(1), |i| &rotations[i]);
        cache.append(cpu, index, &work.slots, &work.keys, &work.values);
    }

    /// Normalises, if `norm` says how, and rotates the heads of every row.
    fn turn<'r>(
        &self,
        cpu: &Cpu,
        vectors: &mut [f32],
        heads: usize,
        norm: Option<&[f32]>,
        rotation: impl Fn(usize) -> &'r Rotation + Sync,
    ) {
        let c = &self.config;
        cpu.for_rows(vectors, heads * c.head_dim, |i, row| {
            if let Some(weight) = norm {
                rms_norm_in_place(cpu.tier(), row, weight, c.norm_eps);
            }
            rope(cpu.tier(), row, c.head_dim, c.rope.pairs, rotation(i));
        });
    }

    /// Attention of the rows of the stream, which `spans` describe, onto the stream.
    fn attend(
        &self,
        cpu: &Cpu,
        index: usize,
        layer: &Layer,
        spans: &[AttentionSpan<'_>],
        cache: &KvCache,
        work: &mut Workspace,
    ) {
        work.mixed.resize(work.queries.len());
        let scale = 1.0 / (self.config.head_dim as f32).sqrt();
        attention(cpu, cache, index, spans, &work.queries, scale, &mut work.mixed);
        let products = [(&layer.attention.output, &mut work.stream[..])];
        apply(cpu, &mut work.activations, &work.mixed, Write::Add, products);
    }

    fn feed_forward(&self, cpu: &Cpu, f: &GatedFeedForward, work: &mut Workspace) {
        let (gate, up, down) = (&f.gate.weights, &f.up.weights, &f.down.weights);
        let plain = f.gate.bias.is_none() && f.up.bias.is_none();
        if plain && gate.grid() == up.grid() {
            work.activations.fill(cpu.tier(), cpu.pool(), gate.grid(), &work.normed, gate.k());
            let (input, gated) = (&work.activations, &mut work.gated);
            multiply_gated_onto(cpu, input, gate, up, down.grid(), gated, &mut work.hidden);
            let (bias, out) = (f.down.bias.as_deref(), &mut work.stream[..]);
            multiply(cpu, gated, &mut [Product { weights: down, bias, out, write: Write::Add }]);
            return;
        }
        work.hidden.resize(work.stream.len() / self.config.width * self.config.ffn);
        work.other.resize(work.hidden.len());
        let products = [(&f.gate, &mut work.hidden[..]), (&f.up, &mut work.other[..])];
        apply(cpu, &mut work.activations, &work.normed, Write::Set, products);
        let (up, ffn) = (&work.other, self.config.ffn);
        cpu.for_rows(&mut work.hidden, ffn, |i, row| {
            silu_mul(cpu.tier(), row, &up[i * ffn..(i + 1) * ffn]);
        });
        let products = [(&f.down, &mut work.stream[..])];
        apply(cpu, &mut work.activations, &work.hidden, Write::Add, products);
    }

    fn mix(&self, cpu: &Cpu, m: &Mixture, work: &mut Workspace) {
        let c = &m.config;
        // The scores are not needed for longer than this.
        work.other.resize(work.stream.len() / self.config.width * c.count);
        work.activations.fill(cpu.tier(), cpu.pool(), m.router.grid(), &work.normed, m.router.k());
        let product = Product { weights: &m.router, bias: None, out: &mut work.other, write: Write::Set };
        multiply(cpu, &work.activations, &mut [product]);
        work.routing.choose(cpu, &work.other, c.count, c.used, c.normalise);
        let experts = Experts { gate: &m.gate, up: &m.up, down: &m.down };
        multiply_experts(cpu, &experts, &work.routing, &work.normed, &mut work.grouped, &mut work.stream);
    }

    /// States of the rows of the stream that are wanted for themselves.
    fn show(&self, cpu: &Cpu, states: &[usize], work: &mut Workspace) {
        let (width, eps) = (self.config.width, self.config.norm_eps);
        work.wanted_states.resize(states.len() * width);
        let (stream, weight) = (&work.stream, &self.norm[..]);
        cpu.for_rows(&mut work.wanted_states, width, |i, out| {
            let from = states[i] * width;
            rms_norm(cpu.tier(), &stream[from..from + width], weight, eps, out);
        });
    }

    /// Logits of the wanted rows of the stream.
    fn predict(&self, cpu: &Cpu, outputs: &[usize], work: &mut Workspace) {
        let width = self.config.width;
        work.logits.resize(outputs.len() * self.vocabulary);
        if outputs.is_empty() {
            return;
        }
        keep(outputs, width, &mut work.stream);
        self.normalise(cpu, &self.norm, work);
        work.activations.fill(cpu.tier(), cpu.pool(), self.head.grid(), &work.normed, width);
        let product = Product { weights: &self.head, bias: None, out: &mut work.logits, write: Write::Set };
        multiply(cpu, &work.activations, &mut [product]);
    }
}

/// Keeps some rows of `width` values, which ascend.
fn keep(rows: &[usize], width: usize, values: &mut Aligned<f32>) {
    // Each moves to a place at or before its own.
    for (to, &from) in rows.iter().enumerate() {
        values.copy_within(from * width..(from + 1) * width, to * width);
    }
    values.resize(rows.len() * width);
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
            of_rows.push(AttentionSpan { first, tokens: run.len(), position, blocks: span.blocks });
            first += run.len();
        }
    }
    of_rows
}

/// Multiplies one batch with several matrices: one job per activation grid among them.
fn apply<const N: usize>(
    cpu: &Cpu,
    activations: &mut Activations,
    input: &[f32],
    write: Write,
    products: [(&Linear, &mut [f32]); N],
) {
    let mut rest: Vec<Product<'_>> = products
        .into_iter()
        .map(|(l, out)| Product { weights: &l.weights, bias: l.bias.as_deref(), out, write })
        .collect();
    while let Some(first) = rest.first() {
        let (grid, k) = (first.weights.grid(), first.weights.k());
        let (mut same, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|p| p.weights.grid() == grid);
        activations.fill(cpu.tier(), cpu.pool(), grid, input, k);
        multiply(cpu, activations, &mut same);
        rest = others;
    }
}
