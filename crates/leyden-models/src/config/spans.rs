//! [`SpanConfig`]: parameters of GLiNER's head, which scores spans of words for labels.

use crate::pooling::Pooling;

/// Maximum number of scores in a window.
const MAX_SCORES: usize = 1 << 24;

/// Head that scores spans of words for each label of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanConfig {
    /// Dimension of the representations of words, spans and labels.
    pub hidden: usize,
    /// Maximum number of words in a span.
    pub max_width: usize,
    /// Maximum number of words in a window.
    pub max_words: usize,
    /// Number of layers of the bidirectional LSTM over words.
    pub rnn_layers: usize,
    /// Pooling of a word's token states.
    pub pooling: Pooling,
    /// Marker token before each label.
    pub mark: String,
    /// Id of the marker token, if the file gives it.
    pub mark_id: Option<u32>,
    /// True if the state of the marker token represents the label; false for the token after it.
    pub of_mark: bool,
    /// Separator between labels and text.
    pub separator: String,
}

impl SpanConfig {
    /// Returns the maximum number of words in a window with `labels` labels, which is smaller for many labels, so
    /// that the scores take at most 64 MiB.
    #[must_use]
    pub fn words_at_once(&self, labels: usize) -> usize {
        (MAX_SCORES / (labels * self.max_width).max(1)).clamp(1, self.max_words)
    }

    /// Returns the indices of the tokens whose states represent labels, for markers at these indices.
    #[must_use]
    pub fn label_tokens(&self, marks: &[usize]) -> Vec<usize> {
        marks.iter().map(|at| at + usize::from(!self.of_mark)).collect()
    }
}
