//! [`Transformer`]: embedding, layers and heads of a model.
//!
//! Layers run eagerly, one after the other, on buffers of the workspace. A layer projects its input to queries, keys
//! and values, rotates them, stores keys and values in the cache, computes attention, and adds its output projection to
//! the residual stream; then it adds the results of the feed-forward layer, or of the token's experts in a mixture, to
//! the stream. [`LayerConfig::norms`] says which of these inputs and results are normalised.
//!
//! In the last layer only the wanted rows are computed, which are none for most of a prompt; of the other rows it only
//! stores keys and values.

use crate::batch::{Batch, Rows};
use crate::config::{HeadConfig, LayerConfig, ModelConfig, NormPlacement};
use crate::error::Error;
use crate::heads::{HeadInput, HeadOutput, HeadWeights};
use crate::int8::Int8Finish;
use crate::layers::{Embedding, Layer, Norm, PerLayerEmbedding, Ropes, Streams, keep};
use crate::loader::Loader;
use crate::lora::{self, Adapter, AdapterSet, Targets};
use crate::network::Network;
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::attention::{KvCache, KvShape, KvType};
use leyden_kernels::gemm::{PackedWeights, Product, Write, multiply};
use leyden_kernels::memory::Aligned;
use leyden_kernels::ops::soft_cap;
use leyden_tensor::{Gguf, WeightSource};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Loaded transformer.
pub(crate) struct Transformer {
    config: ModelConfig,
    source: Arc<dyn WeightSource>,
    /// File of packed weights, if they are used as mapped from it.
    pack: Option<Arc<Gguf>>,
    parts: Parts,
    targets: Arc<Targets>,
}

/// Parts of a transformer that are loaded from tensors.
pub(crate) struct Parts {
    embedding: Embedding,
    per_layer: Option<PerLayerEmbedding>,
    streams: Option<Streams>,
    ropes: Ropes,
    layers: Vec<Layer>,
    /// Norm after the last layer, unless each layer ends with one.
    norm: Option<Norm>,
    /// Projection from hidden states to logits.
    head: Option<PackedWeights>,
    head_bias: Option<Vec<f32>>,
    /// Heads on the hidden states of a text.
    heads: HeadWeights,
}

impl Parts {
    pub(crate) fn load(loader: &Loader<'_>, c: &ModelConfig) -> Result<Parts, Error> {
        let embedding = Embedding::load(loader, c)?;
        let per_layer = c.per_layer_input.map(|dim| PerLayerEmbedding::load(loader, c, dim)).transpose()?;
        let streams = c.altup.map(|altup| Streams::load(loader, c, altup)).transpose()?;
        let mut ropes = Ropes::default();
        let layers =
            (0..c.layers.len()).map(|i| Layer::load(loader, c, i, &mut ropes)).collect::<Result<_, _>>()?;
        let norm = match c.layers.last().map(|layer| layer.norms) {
            Some(NormPlacement::Post) => None,
            // GGUF files of LFM2 name it so.
            _ if !loader.has("output_norm.weight")? && loader.has("token_embd_norm.weight")? => {
                Some(Norm::load(loader, c.norm, "token_embd_norm", c.width)?)
            }
            _ => Some(Norm::load(loader, c.norm, "output_norm", c.width)?),
        };
        let vocabulary = embedding.vocabulary();
        let head = match c.head {
            HeadConfig::States | HeadConfig::Classifier(_) => {
                // The file may keep the head that a decoder was trained with.
                loader.ignore("output.weight")?;
                None
            }
            HeadConfig::Logits if loader.has("output.weight")? => {
                Some(loader.matrix("output.weight", vocabulary, c.width)?)
            }
            // Without a matrix of its own the head shares the embedding's (tied embeddings).
            HeadConfig::Logits => Some(loader.matrix("token_embd.weight", vocabulary, c.width)?),
        };
        let head_bias = loader.vector("output.bias", vocabulary)?.filter(|_| head.is_some());
        let heads = HeadWeights::load(loader, c, vocabulary)?;
        Ok(Parts { embedding, per_layer, streams, ropes, layers, norm, head, head_bias, heads })
    }

    /// Returns the number of logits of a token.
    fn logits(&self) -> usize {
        self.head.as_ref().map_or(0, PackedWeights::rows)
    }

    /// Returns every matrix, in the order of the computation.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        let layers = self.layers.iter().flat_map(Layer::matrices);
        let per_layer = self.per_layer.iter().map(PerLayerEmbedding::matrix);
        let streams = self.streams.iter().flat_map(Streams::matrices);
        let layers =
            self.embedding.matrices().chain(per_layer).chain(streams).chain(layers).chain(&self.head);
        layers.chain(self.heads.matrices()).collect()
    }
}

impl fmt::Debug for Transformer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transformer").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Network for Transformer {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn vocabulary(&self) -> usize {
        self.parts.embedding.vocabulary()
    }

    fn kv_shape(&self, kv_type: KvType) -> Result<KvShape, Error> {
        self.config.kv_shape(&self.source.path().display().to_string(), kv_type)
    }

    fn workspace_bytes(&self, tokens: usize, outputs: usize) -> usize {
        self.config.workspace_bytes(tokens, outputs * self.parts.logits())
    }

    fn weight_bytes(&self) -> usize {
        self.parts.matrices().iter().map(|m| m.bytes()).sum()
    }

    fn step_bytes(&self, tokens: usize) -> usize {
        let tokens = i32::try_from(tokens).unwrap_or(i32::MAX);
        let unread = |(layer, config): (&Layer, &LayerConfig)| {
            let Some(experts) = config.experts else { return 0.0 };
            let stacks: usize = layer.matrices().iter().filter(|m| m.count() > 1).map(|m| m.bytes()).sum();
            stacks as f64 * (1.0 - experts.used as f64 / experts.count as f64).powi(tokens)
        };
        let layers = self.parts.layers.iter().zip(&self.config.layers);
        self.weight_bytes() - layers.map(unread).sum::<f64>() as usize
    }

    fn step_macs(&self, tokens: usize, outputs: usize) -> u64 {
        let macs = |(layer, config): (&Layer, &LayerConfig)| {
            let used = config.experts.map_or(1, |e| e.used);
            let macs = |m: &&PackedWeights| (m.rows() * m.k() * if m.count() > 1 { used } else { 1 }) as u64;
            let stored = layer.mixer.stored().iter().map(macs).sum::<u64>();
            (layer.matrices().iter().map(macs).sum::<u64>(), stored)
        };
        let all: Vec<(u64, u64)> = self.parts.layers.iter().zip(&self.config.layers).map(macs).collect();
        let last = self.config.last_of_own();
        let skipped = all[last..].iter().map(|(whole, stored)| whole - stored).sum::<u64>();
        let layers = all.iter().map(|(whole, _)| whole).sum::<u64>();
        let head = self.parts.head.as_ref().map_or(0, |head| (head.rows() * head.k()) as u64);
        outputs as u64 * (layers + head) + tokens.saturating_sub(outputs) as u64 * (layers - skipped)
    }

    fn adapter(&self, cpu: &Cpu, path: &Path) -> Result<Adapter, Error> {
        lora::read(&self.targets, cpu, path)
    }

    fn takes(&self, adapters: &AdapterSet) -> bool {
        adapters.iter().all(|(adapter, _)| adapter.is_of(&self.targets))
    }

    fn forward(
        &self,
        cpu: &Cpu,
        batch: &Batch<'_>,
        cache: &mut KvCache,
        work: &mut Workspace,
    ) -> Result<(), Error> {
        let covered = batch.spans.iter().map(|s| s.tokens).sum::<usize>();
        assert_eq!(covered, batch.tokens.len(), "spans cover the batch");
        self.parts.embedding.forward(cpu, self.source.as_ref(), batch, work)?;
        if let Some(per_layer) = &self.parts.per_layer {
            per_layer.forward(cpu, self.source.as_ref(), batch, work)?;
        }
        if let Some(streams) = &self.parts.streams {
            streams.spread(cpu, work);
        }
        self.parts.ropes.rotations(batch, &mut work.step.rotations);
        work.step.place(batch);
        let (all, wanted_rows) = (Rows::all(batch), Rows::some(batch, batch.wanted()));
        let wanted = &wanted_rows.indices;
        work.adapters.begin(batch, wanted);
        // From the last layer with keys and values of its own on, only the wanted rows are needed.
        let last = self.config.last_of_own();
        for (i, layer) in self.parts.layers.iter().enumerate() {
            let rows = if i >= last { &wanted_rows } else { &all };
            layer.attention_input(cpu, work);
            layer.mixer.store(cpu, &rows.indices, cache, work);
            if rows.indices.is_empty() {
                break;
            }
            layer.forward(cpu, rows, cache, work);
        }
        if let Some(streams) = self.parts.streams.as_ref().filter(|_| !wanted.is_empty()) {
            streams.join(cpu, work);
        }
        let states = indices_of(batch.states, wanted);
        match &self.parts.norm {
            Some(norm) => norm.some_rows(cpu, &work.stream, &states, &mut work.wanted_states),
            None => copy(&states, self.config.width, &work.stream, &mut work.wanted_states),
        }
        self.predict(cpu, &indices_of(batch.outputs, wanted), work);
        match &self.pack {
            Some(pack) => Ok(pack.check_intact()?),
            None => Ok(()),
        }
    }

    fn heads(&self, cpu: &Cpu, texts: &[HeadInput<'_>], take: &mut dyn FnMut(usize, Option<HeadOutput>)) {
        self.parts.heads.compute(cpu, texts, take);
    }
}

impl Transformer {
    pub(crate) fn new(
        config: ModelConfig,
        source: Arc<dyn WeightSource>,
        parts: Parts,
        targets: Targets,
    ) -> Transformer {
        Transformer { config, source, pack: None, parts, targets: Arc::new(targets) }
    }

    /// Returns true if this is an encoder with INT8 rows whose outlier channels are not known yet.
    pub(crate) fn needs_outliers(&self) -> bool {
        let mut matrices = self.parts.layers.iter().flat_map(Layer::matrices);
        self.config.needs_whole_texts() && matrices.any(PackedWeights::lacks_outliers)
    }

    /// Returns true if the outlier channels of some INT8 rows are known and those of others are not.
    pub(crate) fn is_finished_in_part(&self) -> bool {
        let matrices: Vec<_> = self.parts.layers.iter().flat_map(Layer::matrices).collect();
        let finished = |m: &&PackedWeights| m.is_int8_rows() && !m.lacks_outliers();
        self.needs_outliers() && matrices.iter().any(finished)
    }

    /// Finishes the matrices of INT8 rows.
    pub(crate) fn finish_int8(&mut self, finish: &mut Int8Finish<'_>) -> Result<(), leyden_kernels::Error> {
        self.parts.layers.iter_mut().try_for_each(|layer| layer.finish_int8(finish))
    }

    /// Returns all matrices.
    pub(crate) fn matrices(&self) -> Vec<&PackedWeights> {
        self.parts.matrices()
    }

    /// Keeps the file open in which matrices are used.
    pub(crate) fn keep_open(&mut self, pack: Option<Arc<Gguf>>) {
        self.pack = pack;
    }

    /// Computes the logits of the rows `outputs` of the stream.
    fn predict(&self, cpu: &Cpu, outputs: &[usize], work: &mut Workspace) {
        let width = self.config.width;
        let Some(head) = self.parts.head.as_ref().filter(|_| !outputs.is_empty()) else {
            assert!(outputs.is_empty(), "logits of a model that has none");
            work.logits.resize(0);
            return;
        };
        work.logits.resize(outputs.len() * head.rows());
        keep(outputs, width, &mut work.stream);
        match &self.parts.norm {
            Some(norm) => norm.rows(cpu, &work.stream, &mut work.normed),
            None => copy(&(0..outputs.len()).collect::<Vec<_>>(), width, &work.stream, &mut work.normed),
        }
        work.activations.fill(cpu.tier(), cpu.pool(), head.act_format(), &work.normed, width);
        let bias = self.parts.head_bias.as_deref();
        let product = Product { weights: head, bias, out: &mut work.logits, write: Write::Set };
        multiply(cpu, &work.activations, &mut [product]);
        let scale = self.config.logit_scale;
        if scale != 1.0 {
            let all = |_: usize, row: &mut [f32]| row.iter_mut().for_each(|logit| *logit *= scale);
            cpu.for_rows(&mut work.logits, head.rows(), all);
        }
        if let Some(cap) = self.config.logit_soft_cap {
            cpu.for_rows(&mut work.logits, head.rows(), |_, row| soft_cap(cpu.tier(), row, cap));
        }
    }
}

/// Copies rows of `from` `[n, width]` to `to`.
fn copy(rows: &[usize], width: usize, from: &[f32], to: &mut Aligned<f32>) {
    to.resize(rows.len() * width);
    for (&row, to) in rows.iter().zip(to.chunks_exact_mut(width)) {
        to.copy_from_slice(&from[row * width..(row + 1) * width]);
    }
}

/// Returns the index in `rows` of each of `some`, which are among them; both ascend.
fn indices_of(some: &[usize], rows: &[usize]) -> Vec<usize> {
    some.iter().map(|row| rows.partition_point(|r| r < row)).collect()
}
