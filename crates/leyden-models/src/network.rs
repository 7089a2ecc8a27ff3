//! [`Network`]: what engine, server and library know of a loaded model's weights and their execution.

use crate::batch::Batch;
use crate::config::ModelConfig;
use crate::error::Error;
use crate::lora::{Adapter, AdapterSet};
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::attention::{KvCache, KvShape, KvType};
use std::fmt;
use std::ops::Range;
use std::path::Path;

/// A loaded network: from token ids to states and logits.
pub trait Network: fmt::Debug + Send + Sync {
    /// The model's parameters.
    fn config(&self) -> &ModelConfig;

    /// Number of token ids the model knows.
    fn vocabulary(&self) -> usize;

    /// What a cache for this model holds. Where [`ModelConfig::needs_whole_texts`], it is of use within a step alone.
    ///
    /// # Errors
    /// The head size does not fit the storage type.
    fn kv_shape(&self, kv_type: KvType) -> Result<KvShape, Error>;

    /// Bytes of the workspace of a step of `tokens` tokens, of `outputs` of which logits are wanted.
    fn workspace_bytes(&self, tokens: usize, outputs: usize) -> usize;

    /// Bytes of packed weights.
    fn weight_bytes(&self) -> usize;

    /// Bytes of packed weights that a step of `tokens` tokens reads: all of them, except that of a mixture's experts
    /// only those count that a token chose, as many as there would be if all were chosen equally often.
    fn step_bytes(&self, tokens: usize) -> usize;

    /// Multiplications with weights in a step of `tokens` tokens, of which as many go through the whole model as
    /// `outputs` says: of the others the last layer takes keys and values alone.
    fn step_macs(&self, tokens: usize, outputs: usize) -> u64;

    /// The vectors of texts whose states were pooled to these, one after the other: the same, or what
    /// [`ModelConfig::vector_dense`] makes of them.
    fn vectors(&self, cpu: &Cpu, pooled: Vec<f32>) -> Vec<f32>;

    /// The tokens of the vocabulary that a text has a number for, ascending, of all of its tokens, the special ones left out, and
    /// of their states; none for a model that gives none ([`ModelConfig::sparse`]).
    fn sparse(&self, cpu: &Cpu, tokens: &[Option<u32>], states: &[f32]) -> Vec<(u32, f32)>;

    /// The vectors of a text's tokens, of the states of all of them: these states, or where there is a head for vectors what that
    /// makes of them, which is none for the first token and vectors of length 1 for the others
    /// ([`ModelConfig::token_vectors`]).
    fn token_vectors(&self, cpu: &Cpu, states: Vec<f32>) -> Vec<f32>;

    /// What the scores of labels are made of, for each span of words: of a text's words, of which each has these tokens, and of
    /// labels, of which each has the state of one, and of the states of all tokens. They come by the spans' first words, of each
    /// the shorter span first, for spans of at most [`SpanConfig::max_width`](crate::SpanConfig::max_width) words that end within
    /// the text. Empty for a model without [`ModelConfig::spans`].
    ///
    /// # Panics
    /// If a word or a label has tokens that have no states.
    fn span_logits(&self, cpu: &Cpu, states: &[f32], words: &[Range<usize>], labels: &[usize]) -> Vec<f32>;

    /// What the scores of all labels are made of, for each of some states: those of tokens, or what texts' states were pooled
    /// to, as [`ClassifierConfig::of`](crate::ClassifierConfig::of) says. Empty for a model that does not classify.
    fn label_logits(&self, cpu: &Cpu, states: &[f32]) -> Vec<f32>;

    /// The scores of all labels for these.
    fn classify(&self, cpu: &Cpu, states: &[f32]) -> Vec<f32> {
        let mut logits = self.label_logits(cpu, states);
        self.config().classifier().into_iter().for_each(|c| c.scores(cpu.tier(), &mut logits));
        logits
    }

    /// Reads an adapter for this network: a folder of PEFT, or a GGUF file.
    ///
    /// # Errors
    /// A file cannot be read or is not valid, the adapter is of a kind that is not computed, it does not fit the model, or memory
    /// is short. The error names the file and the key or tensor.
    fn adapter(&self, cpu: &Cpu, path: &Path) -> Result<Adapter, Error>;

    /// Whether all adapters of a set were read for this network.
    fn takes(&self, adapters: &AdapterSet) -> bool;

    /// Runs a batch. Keys and values of its tokens go into `cache`; logits of `batch.outputs` are then in
    /// `work.logits()`.
    ///
    /// # Errors
    /// The model file, or that of its packed weights, was truncated while in use.
    ///
    /// # Panics
    /// If a token id is outside the vocabulary, spans and tokens do not match, a span lacks blocks, or logits are wanted of a
    /// model that has none: the engine checks requests before they come here.
    fn forward(
        &self,
        cpu: &Cpu,
        batch: &Batch<'_>,
        cache: &mut KvCache,
        work: &mut Workspace,
    ) -> Result<(), Error>;
}
