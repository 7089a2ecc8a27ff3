//! Entities aggregated from the labels of a text's tokens.

use leyden_text::Located;
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

/// Aggregates the scores of a text's tokens, `[tokens, labels]`, to entities.
pub(crate) fn entities(
    tokens: &[Located],
    scores: &[f32],
    labels: &[String],
    aggregation: Aggregation,
) -> Vec<Entity> {
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
