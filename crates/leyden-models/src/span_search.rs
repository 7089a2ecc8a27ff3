//! Selection of entities from scored spans: greedily by score, skipping spans that conflict with one already chosen.

use crate::config::SpanConfig;
use leyden_kernels::Tier;
use leyden_kernels::ops::sigmoid;
use std::ops::Range;

/// Span of words with a label.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledSpan {
    /// Range of word indices in the text.
    pub words: Range<usize>,
    /// Index of the label in the request.
    pub label: usize,
    /// Score from 0 to 1: sigmoid of the logit.
    pub score: f32,
}

impl SpanConfig {
    /// Returns the spans whose best label scores above `threshold`, from the logits of
    /// [`SpanLogits`](crate::heads::SpanLogits) for `words` words that begin with word `first`. Spans for which
    /// `counts` is false are skipped.
    pub fn found(
        &self,
        tier: Tier,
        logits: &mut [f32],
        labels: usize,
        (first, words): (usize, usize),
        threshold: f32,
        counts: impl Fn(&Range<usize>) -> bool,
    ) -> Vec<LabelledSpan> {
        let ends = |start: usize| start + 1..=words.min(start + self.max_width);
        let spans = (0..words).flat_map(|start| ends(start).map(move |end| first + start..first + end));
        let mut found = Vec::new();
        for (span, row) in spans.zip(logits.chunks_exact_mut(labels.max(1))) {
            if !counts(&span) {
                continue;
            }
            sigmoid(tier, row);
            // The first of equal scores.
            let best = row.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1));
            if let Some((label, &score)) = best.filter(|(_, score)| **score > threshold) {
                found.push(LabelledSpan { words: span, label, score });
            }
        }
        found
    }
}

/// Returns the entities among spans of at most 64 words, sorted by their first words. No word is in two entities;
/// with `nested`, two entities may also lie one within the other, but not overlap partially. Higher scores win, then
/// earlier positions.
#[must_use]
pub fn choose_spans(mut spans: Vec<LabelledSpan>, nested: bool) -> Vec<LabelledSpan> {
    spans.sort_by(|a, b| {
        let place = |span: &LabelledSpan| (span.words.start, span.words.end, span.label);
        b.score.total_cmp(&a.score).then_with(|| place(a).cmp(&place(b)))
    });
    let words = spans.iter().map(|span| span.words.end).max().unwrap_or(0);
    // For each first word, the lengths of chosen spans as bits; without `nested`, 1 if the word is taken.
    let mut taken = vec![0_u64; words];
    spans.retain(|span| {
        let Range { start, end } = span.words;
        let blocked =
            if nested { crosses(&taken, &span.words) } else { taken[start..end].iter().any(|t| *t > 0) };
        if !blocked && nested {
            taken[start] |= 1 << (end - start - 1);
        } else if !blocked {
            taken[start..end].fill(1);
        }
        !blocked
    });
    spans.sort_by_key(|span| span.words.start);
    spans
}

/// Returns whether a span is already chosen or partially overlaps a chosen one.
fn crosses(taken: &[u64], span: &Range<usize>) -> bool {
    let Range { start, end } = *span;
    // Bits of the lengths from `from` to below `below`.
    let lengths = |from: usize, below: usize| {
        let up_to = |n: usize| if n > 64 { u64::MAX } else { (1_u64 << (n - 1)).wrapping_sub(1) };
        up_to(below) & !up_to(from)
    };
    let mut before = start.saturating_sub(63)..start;
    taken[start] >> (end - start - 1) & 1 == 1
        || before.any(|at| taken[at] & lengths(start - at + 1, end - at) != 0)
        || (start + 1..end).any(|at| taken[at] & lengths(end - at + 1, 65) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(all: &[(Range<usize>, f32)]) -> Vec<LabelledSpan> {
        all.iter()
            .map(|(words, score)| LabelledSpan { words: words.clone(), label: 0, score: *score })
            .collect()
    }

    /// Applies the rules pair by pair.
    fn plainly(mut all: Vec<LabelledSpan>, nested: bool) -> Vec<LabelledSpan> {
        all.sort_by(|a, b| b.score.total_cmp(&a.score));
        let mut kept: Vec<LabelledSpan> = Vec::new();
        for span in all {
            let hinders = |other: &LabelledSpan| {
                let (a, b) = (&span.words, &other.words);
                let apart = a.end <= b.start || b.end <= a.start;
                let within = |a: &Range<usize>, b: &Range<usize>| a.start >= b.start && a.end <= b.end;
                a == b || !apart && !(nested && (within(a, b) || within(b, a)))
            };
            if !kept.iter().any(hinders) {
                kept.push(span);
            }
        }
        kept.sort_by_key(|span| span.words.start);
        kept
    }

    #[test]
    fn choice_matches_the_pairwise_rules() {
        let mut state = 7_u64;
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for round in 0..300 {
            let longest = [3, 12, 64][round % 3];
            let mut all = Vec::new();
            for i in 0..random(60) {
                let start = random(90) as usize;
                let end = start + 1 + random(longest) as usize;
                // No two are equal.
                all.push((start..end, random(1000) as f32 + i as f32 / 64.0));
            }
            for nested in [false, true] {
                assert_eq!(choose_spans(spans(&all), nested), plainly(spans(&all), nested), "{all:?}");
            }
        }
    }

    #[test]
    fn first_of_equal_scores_wins() {
        let chosen = choose_spans(spans(&[(1..3, 0.5), (0..2, 0.5), (0..1, 0.5)]), false);
        assert_eq!(chosen, spans(&[(0..1, 0.5), (1..3, 0.5)]));
    }
}
