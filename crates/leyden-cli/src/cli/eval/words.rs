//! Sentences at the end of an evaluation, for readers who do not know the figures.

use leyden_eval::{Divergence, Paired, Perplexity, Score};

/// Maximum p value of a significant difference.
const SIGNIFICANT: f64 = 0.05;
/// Minimum width of an interval for which more questions are recommended.
const WIDE: f64 = 0.2;

/// Returns sentences about the score of a task and its difference from a reference.
pub(super) fn of_score(name: &str, score: &Score, paired: Option<&Paired>) -> String {
    let (low, high) = score.interval;
    let (low, high) = ((100.0 * low).round(), (100.0 * high).round());
    let of = match score.items {
        1 => "1 question".to_owned(),
        n => format!("{n} questions"),
    };
    let mut text = format!(
        "{name}: {} of {of} were answered right; of 100 similar questions it would be about {low} to {high}.",
        score.hits
    );
    if score.interval.1 - score.interval.0 > WIDE {
        text += " More questions would narrow this range.";
    }
    match paired {
        Some(pair) if pair.p < SIGNIFICANT => {
            let word = if pair.difference > 0.0 { "better" } else { "worse" };
            text += &format!(" The model is {word} than the reference; the difference is significant.");
        }
        Some(_) => text += " The difference from the reference is not significant.",
        None => {}
    }
    text
}

/// Returns a sentence about a perplexity.
pub(super) fn of_perplexity(found: &Perplexity) -> String {
    format!(
        "At each token the model is as uncertain as in a choice among {:.0} equally likely tokens. Lower is better; compare only models \
         with the same tokenizer, on the same text.",
        found.value
    )
}

/// Returns a sentence about the divergence from a reference.
pub(super) fn of_divergence(found: &Divergence) -> String {
    let (low, high) = found.same_top.interval;
    format!(
        "At {:.0} of 100 positions the model and the reference have the same best token ({:.0} to {:.0}).",
        100.0 * found.same_top.value,
        100.0 * low,
        100.0 * high
    )
}
