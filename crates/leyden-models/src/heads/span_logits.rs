//! [`SpanLogits`]: logits of a request's labels for spans of words (GLiNER).

use super::kind::{HeadError, HeadKind, HeadOutput};
use super::weights::HeadWeights;
use crate::config::ModelConfig;
use leyden_kernels::Cpu;
use std::ops::Range;

/// Logits of a request's labels for each span of at most [`SpanConfig::max_width`](crate::SpanConfig::max_width) words:
/// `[n_spans, labels]`, by first word, then by length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanLogits {
    /// Token ranges of the words; at most [`SpanConfig::words_at_once`](crate::SpanConfig::words_at_once).
    pub words: Vec<Range<usize>>,
    /// Index of each label's token, see [`SpanConfig::label_tokens`](crate::SpanConfig::label_tokens).
    pub labels: Vec<usize>,
}

impl HeadKind for SpanLogits {
    fn check(&self, config: &ModelConfig, n_tokens: usize) -> Result<(), HeadError> {
        let Some(spans) = &config.spans else { return Err(HeadError::Missing("spans of words")) };
        let fails = |what: String| Err(HeadError::Request(what));
        let max_words = spans.words_at_once(self.labels.len());
        if self.words.len() > max_words {
            let (n, labels) = (self.words.len(), self.labels.len());
            return fails(format!("{n} words with {labels} labels; at most {max_words} words are possible"));
        }
        if let Some(at) = self.words.iter().position(|word| word.start > word.end || word.end > n_tokens) {
            return fails(format!("word {at} has tokens {:?} of {n_tokens}", self.words[at]));
        }
        if let Some(at) = self.labels.iter().position(|token| *token >= n_tokens) {
            return fails(format!("label {at} has token {} of {n_tokens}", self.labels[at]));
        }
        Ok(())
    }

    fn output(
        &self,
        weights: &HeadWeights,
        cpu: &Cpu,
        _tokens: &[u32],
        states: &[f32],
    ) -> Option<HeadOutput> {
        let Some(spans) = &weights.spans else { panic!("spans of a model without a head for them") };
        let values = spans.logits(cpu, states, &self.words, &self.labels);
        Some(HeadOutput::Logits { labels: self.labels.len(), values })
    }
}
