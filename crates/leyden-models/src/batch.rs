//! [`Batch`]: input of one forward pass.

use crate::lora::AdapterSet;
use crate::state_rounds::StateCheckpoint;
use leyden_kernels::attention::AttentionSpan;

/// New tokens of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// Number of tokens of the batch that belong to it.
    pub tokens: usize,
    /// Position of the first token in its sequence.
    pub position: usize,
    /// Cache blocks of the sequence, enough for all its tokens.
    pub blocks: &'a [u32],
    /// Index of the sequence's recurrent state in the cache, for models with such states.
    pub state: usize,
    /// Copies of that state to make within the span, ascending by tokens.
    pub checkpoints: &'a [StateCheckpoint],
    /// Position of the first token of a pair's second text, for models with token types.
    pub second: Option<usize>,
    /// LoRA adapters of the sequence.
    pub adapters: &'a AdapterSet,
}

/// Tokens of any number of sequences, span by span.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Token ids `[n_tokens]`.
    pub tokens: &'a [u32],
    /// Spans of the sequences.
    pub spans: &'a [Span<'a>],
    /// Indices of the tokens whose logits are wanted, ascending.
    pub outputs: &'a [usize],
    /// Indices of the tokens whose states are wanted without logits, ascending.
    pub states: &'a [usize],
    /// Maximum number of tokens of a sequence. It must be the same in all batches of a cache.
    pub context: usize,
}

impl Batch<'_> {
    /// Returns the indices of the tokens whose logits or states are wanted, ascending.
    pub(crate) fn wanted(&self) -> Vec<usize> {
        let mut all = [self.outputs, self.states].concat();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Rows of a batch that layers compute: all of them, or those whose results are asked for.
#[derive(Debug)]
pub(crate) struct Rows<'a> {
    /// Indices in the batch `[n_rows]`, ascending.
    pub(crate) indices: Vec<usize>,
    /// Runs of consecutive rows of a sequence.
    pub(crate) spans: Vec<AttentionSpan<'a>>,
    /// Index in the batch of the first token of each span's sequence, for texts that are whole in the batch.
    pub(crate) text_starts: Vec<usize>,
}

impl<'a> Rows<'a> {
    /// Returns all rows of a batch.
    pub(crate) fn all(batch: &Batch<'a>) -> Rows<'a> {
        Rows::some(batch, (0..batch.tokens.len()).collect())
    }

    /// Returns rows of a batch by their indices, which ascend.
    pub(crate) fn some(batch: &Batch<'a>, indices: Vec<usize>) -> Rows<'a> {
        let (mut spans, mut text_starts) = (Vec::new(), Vec::new());
        // First row of the sequence in the batch, and among `indices`.
        let (mut start, mut first) = (0, 0);
        for span in batch.spans {
            let end = indices.partition_point(|row| *row < start + span.tokens);
            for run in indices[first..end].chunk_by(|a, b| a + 1 == *b) {
                spans.push(AttentionSpan {
                    first,
                    tokens: run.len(),
                    position: span.position + run[0] - start,
                    stored: span.position + span.tokens,
                    blocks: span.blocks,
                });
                text_starts.push(start);
                first += run.len();
            }
            start += span.tokens;
        }
        Rows { indices, spans, text_starts }
    }
}
