//! [`Network`]: what engine, server and library know of a loaded model's weights and their execution.

use crate::batch::{Batch, Workspace};
use crate::config::ModelConfig;
use crate::error::Error;
use leyden_kernels::Cpu;
use leyden_kernels::attention::{KvCache, KvShape, KvType};
use std::fmt;

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

    /// The scores of all labels for texts whose first tokens have these states, text by text; empty for a model that does not
    /// classify ([`ModelConfig::classifier`]).
    fn classify(&self, cpu: &Cpu, states: &[f32]) -> Vec<f32>;

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
