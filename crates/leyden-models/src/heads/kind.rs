//! [`HeadKind`]: interface of a head; its output and errors.

use super::weights::HeadWeights;
use crate::config::ModelConfig;
use crate::pooling::Pooling;
use crate::span_search::LabelledSpan;
use leyden_kernels::Cpu;
use std::fmt::Debug;

/// Output of a head for one text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum HeadOutput {
    /// Vectors of the text or of its tokens.
    Vectors {
        /// Number of values of a vector.
        width: usize,
        /// Values `[n_vectors, width]`.
        values: Vec<f32>,
    },
    /// Logits of labels for the text, its tokens or its spans.
    Logits {
        /// Number of labels.
        labels: usize,
        /// Values `[n_rows, labels]`.
        values: Vec<f32>,
    },
    /// Sparse vector: token ids with their weights, by ascending id.
    Sparse(Vec<(u32, f32)>),
    /// Spans of words with their labels, by first word, then by length.
    Spans(Vec<LabelledSpan>),
}

impl HeadOutput {
    /// Returns true if all values are finite.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        match self {
            HeadOutput::Vectors { values, .. } | HeadOutput::Logits { values, .. } => {
                values.iter().all(|x| x.is_finite())
            }
            HeadOutput::Sparse(weights) => weights.iter().all(|(_, weight)| weight.is_finite()),
            HeadOutput::Spans(spans) => spans.iter().all(|span| span.score.is_finite()),
        }
    }

    /// Divides rows among texts by their numbers of rows. An output without rows is returned whole.
    pub(super) fn split(self, n_rows: &[usize]) -> Vec<HeadOutput> {
        let parts = |width: usize, mut rest: &[f32]| -> Vec<Vec<f32>> {
            let mut next = |n: &usize| {
                let (part, others) = rest.split_at(n * width);
                rest = others;
                part.to_vec()
            };
            n_rows.iter().map(&mut next).collect()
        };
        match self {
            HeadOutput::Vectors { width, values } if n_rows.len() > 1 => {
                let vectors = |values| HeadOutput::Vectors { width, values };
                parts(width, &values).into_iter().map(vectors).collect()
            }
            HeadOutput::Logits { labels, values } if n_rows.len() > 1 => {
                let logits = |values| HeadOutput::Logits { labels, values };
                parts(labels, &values).into_iter().map(logits).collect()
            }
            whole => vec![whole],
        }
    }
}

/// Reason why a model cannot compute a head for a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeadError {
    /// A head that the model does not have.
    #[error("the model has no head for {0}")]
    Missing(&'static str),
    /// Data of the request that does not fit the text.
    #[error("{0}")]
    Request(String),
}

/// Head: data of a request, and the computation from hidden states.
pub(crate) trait HeadKind: Debug {
    /// Returns the pooling of the hidden states that are its input; `None` if it reads those of all tokens.
    fn pooling(&self) -> Option<Pooling> {
        None
    }

    /// Checks that the model has the head and that the request's data fits a text of `n_tokens` tokens.
    ///
    /// # Errors
    /// As [`HeadError`].
    fn check(&self, config: &ModelConfig, n_tokens: usize) -> Result<(), HeadError>;

    /// Returns true if each row of the output depends on the same row of the input alone, so that several texts can be
    /// computed in one product.
    fn is_row_wise(&self) -> bool {
        false
    }

    /// Computes the output from a text's token ids and its hidden states `[n_tokens, hidden]`, or `[1, hidden]` if
    /// they are pooled. A row-wise head gets no token ids, and rows of several texts. `None`: values are not finite.
    ///
    /// # Panics
    /// If [`check`](Self::check) fails.
    fn output(&self, weights: &HeadWeights, cpu: &Cpu, tokens: &[u32], states: &[f32]) -> Option<HeadOutput>;
}
