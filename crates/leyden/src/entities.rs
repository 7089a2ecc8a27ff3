//! Named entities in texts, aggregated from labels of tokens.

use crate::embedder::{Embedder, Text};
use crate::error::Error;
use leyden_models::Labelled;
use leyden_models::heads::{Head, HeadOutput, LabelLogits};
use leyden_text::{Bounds, Located};
use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Aggregation of labels of tokens to entities, with the names and rules of transformers' pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregation {
    /// No aggregation: each token is an entity.
    None,
    /// Consecutive tokens with the same label are one entity; `B-` begins a new one.
    #[default]
    Simple,
    /// Consecutive words with the same label are one entity; a word has the label of its first token.
    First,
    /// Like `First`, but a word has the label with the best mean score of its tokens.
    Average,
    /// Like `First`, but a word has the label of its token with the highest score.
    Max,
}

impl Aggregation {
    /// Names in options.
    pub const NAMES: [(&'static str, Aggregation); 5] = [
        ("none", Aggregation::None),
        ("simple", Aggregation::Simple),
        ("first", Aggregation::First),
        ("average", Aggregation::Average),
        ("max", Aggregation::Max),
    ];
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Aggregation::NAMES.iter().find(|(_, value)| value == self).map(|(name, _)| *name);
        f.write_str(name.unwrap_or_default())
    }
}

impl FromStr for Aggregation {
    type Err = String;

    fn from_str(name: &str) -> Result<Aggregation, String> {
        let found = Aggregation::NAMES.iter().find(|(known, _)| *known == name);
        let known = Aggregation::NAMES.map(|(name, _)| name).join(", ");
        found.map(|(_, value)| *value).ok_or_else(|| format!("no such aggregation; known: {known}"))
    }
}

/// Entity in a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Entity {
    /// Label; without `B-` or `I-` unless each token is an entity.
    pub label: String,
    /// Mean score of its tokens or words; for labels of a request, the score of the span.
    pub score: f32,
    /// Range in the text, in bytes.
    pub range: Range<usize>,
}

/// Label of tokens outside entities.
const OUTSIDE: &str = "O";

impl Embedder<'_> {
    /// Finds the entities in texts, in their order. A text that is longer than the context is read in overlapping
    /// windows, and each token's label comes from the window whose edges are farthest from it.
    ///
    /// # Errors
    /// The model has no labels for tokens, a text cannot be tokenized, or the model failed.
    pub fn extract<T: AsRef<str>>(
        &mut self,
        texts: &[T],
        aggregation: Aggregation,
    ) -> Result<Vec<Vec<Entity>>, Error> {
        let model = self.model;
        let found = model.config().classifier().filter(|classifier| classifier.of == Labelled::Tokens);
        let Some(classifier) = found else {
            let file = self.file();
            let takes = model.config().spans.is_some();
            return Err(if takes { Error::NeedsLabels { file } } else { Error::NoTagger { file } });
        };
        let tokenizer = model.tokenizer();
        let begin = tokenizer.bos().filter(|_| tokenizer.add_bos());
        let end = tokenizer.eos().filter(|_| tokenizer.add_eos());
        let around = usize::from(begin.is_some()) + usize::from(end.is_some());
        let room = self.engine.options().context.saturating_sub(around).max(1);
        let mut tokens = Vec::new();
        let (mut windows, mut of) = (Vec::new(), Vec::new());
        for (number, text) in texts.iter().enumerate() {
            let located = leyden_text::encode_located(tokenizer, text.as_ref(), &Bounds::NONE)?;
            for start in starts(located.len(), room) {
                let window = &located[start..located.len().min(start + room)];
                let ids = begin.into_iter().chain(window.iter().map(|token| token.id)).chain(end).collect();
                windows.push(Text { ids, second: None });
                of.push((number, start));
            }
            tokens.push(located);
        }
        let labels = classifier.labels.len();
        let mut scores: Vec<Vec<f32>> =
            tokens.iter().map(|tokens| vec![0.0; tokens.len() * labels]).collect();
        let first = usize::from(begin.is_some());
        let head: Head = LabelLogits { of: Labelled::Tokens }.into();
        let outputs = self.outputs(&windows, &vec![head; windows.len()])?;
        for (((number, start), window), output) in of.into_iter().zip(&windows).zip(outputs) {
            let HeadOutput::Logits { values: mut found, .. } = output else { continue };
            classifier.scores(self.engine.cpu().tier(), &mut found);
            let all = tokens[number].len();
            let count = window.ids.len() - around;
            for (i, row) in found.chunks_exact(labels).skip(first).take(count).enumerate() {
                if owner(start + i, all, room) == start {
                    scores[number][(start + i) * labels..][..labels].copy_from_slice(row);
                }
            }
        }
        if scores.iter().flatten().any(|score| !score.is_finite()) {
            return Err(Error::NotFinite { file: self.file() });
        }
        let of_text = |(tokens, scores): (&Vec<Located>, &Vec<f32>)| {
            entities(tokens, scores, &classifier.labels, aggregation)
        };
        Ok(tokens.iter().zip(&scores).map(of_text).collect())
    }
}

/// Returns the first tokens of the windows of `room` tokens over `tokens` tokens; each overlaps the previous one by a
/// quarter.
fn starts(tokens: usize, room: usize) -> impl Iterator<Item = usize> {
    let step = (room - room / 4).max(1);
    let count = if tokens <= room { usize::from(tokens > 0) } else { (tokens - room).div_ceil(step) + 1 };
    (0..count).map(move |i| i * step)
}

/// Returns the start of the window whose edges are farthest from a token; beginning and end of the text do not count as
/// edges.
fn owner(token: usize, tokens: usize, room: usize) -> usize {
    let edge = |start: usize| {
        let before = if start == 0 { usize::MAX } else { token - start };
        let end = start + room;
        let after = if end >= tokens { usize::MAX } else { end - 1 - token };
        before.min(after)
    };
    let holds = |start: &usize| (*start..*start + room).contains(&token);
    // Of equally far ones the first.
    starts(tokens, room).filter(holds).max_by_key(|start| (edge(*start), Reverse(*start))).unwrap_or(0)
}

/// Token or word with its best label.
struct Part {
    label: usize,
    score: f32,
    range: Range<usize>,
}

/// Returns the label with the highest score, the first of equal ones.
fn best(scores: &[f32]) -> (usize, f32) {
    let mut best = (0, f32::NEG_INFINITY);
    for (label, &score) in scores.iter().enumerate() {
        if score > best.1 {
            best = (label, score);
        }
    }
    best
}

/// Aggregates the scores of a text's tokens `[tokens, labels]` to entities.
fn entities(tokens: &[Located], scores: &[f32], labels: &[String], aggregation: Aggregation) -> Vec<Entity> {
    let n = labels.len();
    let rows: Vec<&[f32]> = scores.chunks_exact(n).collect();
    let mut parts: Vec<Part> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_word = !matches!(aggregation, Aggregation::None | Aggregation::Simple);
        let more = tokens[at + 1..].iter().take_while(|token| is_word && token.continues).count();
        let word = at..at + 1 + more;
        let (label, score) = match aggregation {
            Aggregation::None | Aggregation::Simple | Aggregation::First => best(rows[at]),
            Aggregation::Max => {
                let surest = |(_, a): &(usize, f32), (_, b): &(usize, f32)| a.total_cmp(b);
                // Reversed, so that of equal scores the first token's counts: `max_by` returns the last.
                word.clone().rev().map(|i| best(rows[i])).max_by(surest).unwrap_or((0, 0.0))
            }
            Aggregation::Average => {
                let mean =
                    |label: usize| word.clone().map(|i| rows[i][label]).sum::<f32>() / word.len() as f32;
                best(&(0..n).map(mean).collect::<Vec<_>>())
            }
        };
        parts.push(Part { label, score, range: tokens[at].range.start..tokens[word.end - 1].range.end });
        at = word.end;
    }
    if aggregation == Aggregation::None {
        let entity =
            |part: Part| Entity { label: labels[part.label].clone(), score: part.score, range: part.range };
        return parts.into_iter().map(entity).filter(|entity| entity.label != OUTSIDE).collect();
    }
    let tag = |label: &str| label.strip_prefix("B-").or(label.strip_prefix("I-")).unwrap_or(label).to_owned();
    let goes_on = |a: &Part, b: &Part| {
        let (a, b) = (&labels[a.label], &labels[b.label]);
        tag(a) == tag(b) && !b.starts_with("B-")
    };
    let entity = |group: &[Part]| Entity {
        // As in transformers, the label is the part after the first hyphen.
        label: labels[group[0].label]
            .split_once('-')
            .map_or(labels[group[0].label].as_str(), |(_, tag)| tag)
            .to_owned(),
        score: group.iter().map(|part| part.score).sum::<f32>() / group.len() as f32,
        range: group[0].range.start..group[group.len() - 1].range.end,
    };
    parts.chunk_by(goes_on).map(entity).filter(|entity| entity.label != OUTSIDE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_has_one_window_far_from_its_edges() {
        for (tokens, room) in [(0, 8), (5, 8), (8, 8), (9, 8), (30, 8), (31, 8), (7, 1), (100, 10)] {
            let all: Vec<usize> = starts(tokens, room).collect();
            assert!(all.last().is_none_or(|last| last + room >= tokens), "{tokens} in {room}: {all:?}");
            for token in 0..tokens {
                let owner = owner(token, tokens, room);
                assert!(all.contains(&owner) && (owner..owner + room).contains(&token));
            }
        }
        // The second window begins at 6; each window gets one of the two common tokens.
        assert_eq!([owner(6, 14, 8), owner(7, 14, 8)], [0, 6]);
    }
}
