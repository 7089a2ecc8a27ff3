//! [`Network`]: interface of a loaded model for engine, server and library.

use crate::batch::Batch;
use crate::config::ModelConfig;
use crate::error::Error;
use crate::heads::{HeadInput, HeadOutput};
use crate::lora::{Adapter, AdapterSet};
use crate::workspace::Workspace;
use leyden_kernels::Cpu;
use leyden_kernels::attention::{KvCache, KvShape, KvType};
use std::fmt;
use std::path::Path;

/// Loaded network, which computes hidden states and logits from token ids.
pub trait Network: fmt::Debug + Send + Sync {
    /// Returns the model's parameters.
    fn config(&self) -> &ModelConfig;

    /// Returns the number of token ids.
    fn vocabulary(&self) -> usize;

    /// Returns the shape of a cache for this model. If [`ModelConfig::needs_whole_texts`], it is only used within a
    /// step.
    ///
    /// # Errors
    /// The head size does not fit the storage type.
    fn kv_shape(&self, kv_type: KvType) -> Result<KvShape, Error>;

    /// Returns the bytes of the workspace of a step of `tokens` tokens with logits of `outputs` of them.
    fn workspace_bytes(&self, tokens: usize, outputs: usize) -> usize;

    /// Returns the bytes of packed weights.
    fn weight_bytes(&self) -> usize;

    /// Returns the bytes of packed weights that a step of `tokens` tokens reads. Of a mixture's experts only those
    /// chosen by a token count: their expected number if all are chosen equally often.
    fn step_bytes(&self, tokens: usize) -> usize;

    /// Returns the number of multiplications with weights in a step of `tokens` tokens, `outputs` of which go through
    /// the whole model; of the others the last layer computes keys and values only.
    fn step_macs(&self, tokens: usize, outputs: usize) -> u64;

    /// Computes the heads of texts, and calls `take` once for each text, with its index and the output; the output is
    /// `None` if it or the hidden states have values that are not finite. Texts with equal heads share matrix products
    /// where rows do not depend on each other.
    ///
    /// # Panics
    /// If [`Head::check`](crate::heads::Head::check) fails, or the hidden states are not those of the tokens. The engine
    /// checks requests before.
    fn heads(&self, cpu: &Cpu, texts: &[HeadInput<'_>], take: &mut dyn FnMut(usize, Option<HeadOutput>));

    /// Computes the head of one text; see [`heads`](Self::heads).
    ///
    /// # Panics
    /// As [`heads`](Self::heads).
    fn head(&self, cpu: &Cpu, text: HeadInput<'_>) -> Option<HeadOutput> {
        let mut found = None;
        self.heads(cpu, &[text], &mut |_, output| found = output);
        found
    }

    /// Reads an adapter for this network from a PEFT folder or a GGUF file.
    ///
    /// # Errors
    /// A file cannot be read or is not valid, the kind of adapter is not supported, it does not fit the model, or
    /// memory is short. The error names the file and the key or tensor.
    fn adapter(&self, cpu: &Cpu, path: &Path) -> Result<Adapter, Error>;

    /// Returns true if all adapters of a set were read for this network.
    fn takes(&self, adapters: &AdapterSet) -> bool;

    /// Runs a batch: stores keys and values of its tokens in `cache`, and logits of `batch.outputs` in `work`.
    ///
    /// # Errors
    /// The model file, or its file of packed weights, was truncated while in use.
    ///
    /// # Panics
    /// If a token id is outside the vocabulary, spans and tokens do not match, a span lacks blocks, or logits are
    /// wanted of a model without a head for them. The engine checks requests before.
    fn forward(
        &self,
        cpu: &Cpu,
        batch: &Batch<'_>,
        cache: &mut KvCache,
        work: &mut Workspace,
    ) -> Result<(), Error>;
}
