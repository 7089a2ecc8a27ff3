//! [`SpanConfig`]: parameters of the head of GLiNER, which scores spans of words for labels.

use crate::pooling::Pooling;

/// Largest number of scores of a window.
const MAX_SCORES: usize = 1 << 24;

/// The head that gives spans of words a score for each label of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanConfig {
    /// Numbers of a word's, a span's and a label's representation.
    pub hidden: usize,
    /// The most words of a span.
    pub max_width: usize,
    /// The most words that are read at once.
    pub max_words: usize,
    /// Layers of the LSTM over words, which reads in both directions.
    pub rnn_layers: usize,
    /// Which states of a word's tokens make its own.
    pub pooling: Pooling,
    /// The token before each label.
    pub mark: String,
    /// Its id, where the file says so.
    pub mark_id: Option<u32>,
    /// Whether that token's state is the label's; otherwise that of the token behind it is.
    pub of_mark: bool,
    /// What stands between labels and text.
    pub separator: String,
}

impl SpanConfig {
    /// The most words that are read at once with so many labels: with many labels fewer, so that their scores take no more than 64 MiB.
    #[must_use]
    pub fn words_at_once(&self, labels: usize) -> usize {
        (MAX_SCORES / (labels * self.max_width).max(1)).clamp(1, self.max_words)
    }

    /// The tokens whose states are those of labels with marks at these places.
    #[must_use]
    pub fn label_tokens(&self, marks: &[usize]) -> Vec<usize> {
        marks.iter().map(|at| at + usize::from(!self.of_mark)).collect()
    }
}
