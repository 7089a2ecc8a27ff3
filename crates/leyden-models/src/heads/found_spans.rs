//! [`FoundSpans`]: spans of words whose labels score above a threshold (GLiNER).

use super::kind::{HeadError, HeadKind, HeadOutput};
use super::span_logits::SpanLogits;
use super::weights::HeadWeights;
use crate::config::ModelConfig;
use leyden_kernels::Cpu;

/// Spans of words whose best label scores above a threshold; words are indices into [`SpanLogits::words`].
#[derive(Clone, Debug, PartialEq)]
pub struct FoundSpans {
    /// Words and labels.
    pub spans: SpanLogits,
    /// Score above which a span is found, from 0 to 1.
    pub threshold: f32,
}

impl HeadKind for FoundSpans {
    fn check(&self, config: &ModelConfig, n_tokens: usize) -> Result<(), HeadError> {
        self.spans.check(config, n_tokens)
    }

    fn output(&self, weights: &HeadWeights, cpu: &Cpu, tokens: &[u32], states: &[f32]) -> Option<HeadOutput> {
        let logits = self.spans.output(weights, cpu, tokens, states).filter(HeadOutput::is_finite)?;
        let (Some(spans), HeadOutput::Logits { labels, mut values }) = (&weights.spans, logits) else {
            return None;
        };
        let words = (0, self.spans.words.len());
        let found = spans.config().found(cpu.tier(), &mut values, labels, words, self.threshold, |_| true);
        Some(HeadOutput::Spans(found))
    }
}
