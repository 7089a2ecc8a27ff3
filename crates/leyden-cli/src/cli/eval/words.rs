//! Sentences at the end of an evaluation, for readers who do not know the figures.

use leyden_eval::{Divergence, Paired, Perplexity, Score};

/// Significance below which a difference is called one.
const SIGNIFICANT: f64 = 0.05;
/// Width of an interval from which on more questions are recommended.
const WIDE: f64 = 0.2;

/// A sentence on the score of a task, and on the difference from a reference.
pub(super) fn of_score(name: &str, score: &Score, paired: Option<&Paired>) -> String {
    let (low, high) = score.interval;
    let (low, high) = ((100.0 * low).round(), (100.0 * high).round());
    let of = match score.items {
        1 => "1 question".to_owned(),
        n => format!("{n} questions"),
    };
    let mut text = format!(
        "{name}: {} of {of} answered right; of 100 others like them, about {low} to {high} would be.",
        score.hits
    );
    if score.interval.1 - score.interval.0 > WIDE {
        text += " More questions would narrow that.";
    }
    match paired {
        Some(pair) if pair.p < SIGNIFICANT => {
            let word = if pair.difference > 0.0 { "better" } else { "worse" };
            text += &format!(" The model is {word} than the reference, and chance hardly explains it.");
        }
        Some(_) => text += " The difference from the reference may be chance.",
        None => {}
    }
    text
}

/// A sentence on a perplexity.
pub(super) fn of_perplexity(found: &Perplexity) -> String {
    format!(
        "At each token the model is as unsure as if it chose among {:.0} equally likely ones. Lower is better, and only models with \
         one tokenizer compare, on one text.",
        found.value
    )
}

/// A sentence on the distance from a reference.
pub(super) fn of_divergence(found: &Divergence) -> String {
    let (low, high) = found.same_top.interval;
    format!(
        "In {:.0} of 100 places the model's first choice is the reference's ({:.0} to {:.0}); in the others it may write something else.",
        100.0 * found.same_top.value,
        100.0 * low,
        100.0 * high
    )
}
