//! Which of the spans with scores are entities: the best first, each that none before it stands in the way of.

use crate::config::SpanConfig;
use leyden_kernels::Tier;
use leyden_kernels::ops::sigmoid;
use std::ops::Range;

/// Words with a label.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledSpan {
    /// Among those of the text.
    pub words: Range<usize>,
    /// Among those of the request.
    pub label: usize,
    /// From 0 to 1, by the logistic function.
    pub score: f32,
}

impl SpanConfig {
    /// Of [`Network::span_logits`](crate::Network::span_logits) for words from `first` on, `words` of them: each span whose best label
    /// has a score above `threshold`, if it is one of those that count here.
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
            // Of equal ones the first.
            let best = row.iter().enumerate().rev().max_by(|a, b| a.1.total_cmp(b.1));
            if let Some((label, &score)) = best.filter(|(_, score)| **score > threshold) {
                found.push(LabelledSpan { words: span, label, score });
            }
        }
        found
    }
}

/// The entities among spans of at most 64 words, by their first words: no word is in two of them or, where they may be nested, none
/// has words in common with another one but all of its own or all of the other's. The better score decides, then the place.
#[must_use]
pub fn choose_spans(mut spans: Vec<LabelledSpan>, nested: bool) -> Vec<LabelledSpan> {
    spans.sort_by(|a, b| {
        let place = |span: &LabelledSpan| (span.words.start, span.words.end, span.label);
        b.score.total_cmp(&a.score).then_with(|| place(a).cmp(&place(b)))
    });
    let words = spans.iter().map(|span| span.words.end).max().unwrap_or(0);
    // Of each first word the lengths of spans that were taken, as bits; where they are not nested only whether the word is taken.
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

/// Whether a span is taken, or has some words but not all in common with one that is.
fn crosses(taken: &[u64], span: &Range<usize>) -> bool {
    let Range { start, end } = *span;
    // The lengths from one to below another.
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

    /// The rules one pair at a time.
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
    fn what_is_chosen_follows_the_rules() {
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
    fn of_equal_scores_the_first_place_counts() {
        let chosen = choose_spans(spans(&[(1..3, 0.5), (0..2, 0.5), (0..1, 0.5)]), false);
        assert_eq!(chosen, spans(&[(0..1, 0.5), (1..3, 0.5)]));
    }
}
