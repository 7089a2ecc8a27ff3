//! [`ResultDigest`]: SHA-256 of what a model computed for a request.
//!
//! It is the same whether the answer is sent whole or as a stream, however that is divided: texts are hashed as they
//! come, by their kind.

use crate::mailbox::{End, Update};
use leyden_audit::{Digest, hex};
use leyden_models::heads::HeadOutput;
use leyden_text::output::OutputEvent;
use sha2::{Digest as _, Sha256};

/// Digest of the results of a computation.
#[derive(Debug)]
pub(crate) struct ResultDigest(Vec<Choice>);

/// Digests of a choice.
#[derive(Debug, Default)]
struct Choice {
    content: Sha256,
    reasoning: Sha256,
    calls: Sha256,
    generated: usize,
    output: Option<String>,
    end: Option<End>,
}

impl ResultDigest {
    /// Returns the digest of so many choices without a result.
    pub(crate) fn new(choices: usize) -> ResultDigest {
        ResultDigest((0..choices).map(|_| Choice::default()).collect())
    }

    /// Adds an update of a choice.
    pub(crate) fn add(&mut self, choice: usize, update: &Update) {
        let Some(one) = self.0.get_mut(choice) else { return };
        for part in &update.parts {
            match part {
                OutputEvent::Content(text) => one.content.update(text),
                OutputEvent::Reasoning(text) => one.reasoning.update(text),
                OutputEvent::ToolCallArguments { fragment, .. } => one.calls.update(fragment),
                // Ids of calls are random.
                OutputEvent::ToolCallStart { index, name, .. } => {
                    one.calls.update(format!("\u{1}{index} {} {name}", name.len()));
                }
                OutputEvent::ToolCallEnd { .. } => one.calls.update("\u{2}"),
                _ => one.calls.update("\u{3}"),
            }
        }
        one.generated = one.generated.max(update.generated);
        one.end = one.end.or(update.end);
        if let Some(output) = &update.output {
            one.output = Some(of_output(output));
        }
    }

    /// Returns the digest in hexadecimal digits.
    pub(crate) fn finish(self) -> String {
        let mut digest = Digest::new();
        for one in self.0 {
            for text in [one.content, one.reasoning, one.calls] {
                digest.text(&hex(&text.finalize()));
            }
            digest.text(&format!("{} {:?}", one.generated, one.end));
            digest.text(&one.output.unwrap_or_default());
        }
        digest.finish()
    }
}

/// Returns the digest of an output of a head.
fn of_output(output: &HeadOutput) -> String {
    let mut digest = Digest::new();
    match output {
        HeadOutput::Vectors { width, values } => digest.text(&format!("vectors {width}")).numbers(values),
        HeadOutput::Logits { labels, values } => digest.text(&format!("logits {labels}")).numbers(values),
        HeadOutput::Sparse(weights) => {
            let (ids, weights): (Vec<u32>, Vec<f32>) = weights.iter().copied().unzip();
            digest.text("sparse").ids(&ids).numbers(&weights)
        }
        other => digest.text(&format!("{other:?}")),
    };
    digest.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(parts: Vec<OutputEvent>) -> Update {
        Update { parts, generated: 3, end: Some(End::Stop), ..Update::default() }
    }

    #[test]
    fn a_divided_answer_has_the_digest_of_the_whole_one() {
        let content = |text: &str| OutputEvent::Content(text.to_owned());
        let digest = |updates: &[Update]| {
            let mut digest = ResultDigest::new(1);
            updates.iter().for_each(|update| digest.add(0, update));
            digest.finish()
        };
        let whole = digest(&[said(vec![content("ab"), content("c")])]);
        assert_eq!(digest(&[said(vec![content("a")]), said(vec![content("bc")])]), whole);
        assert_ne!(digest(&[said(vec![content("abd")])]), whole);
        assert_ne!(digest(&[said(vec![OutputEvent::Reasoning("abc".to_owned())])]), whole);
        assert_ne!(digest(&[Update { end: Some(End::Length), ..said(vec![content("abc")]) }]), whole);
        let vector = |values: Vec<f32>| {
            let output = Some(HeadOutput::Vectors { width: 2, values });
            digest(&[Update { output, end: Some(End::Stop), ..Update::default() }])
        };
        assert_ne!(vector(vec![0.0, 1.0]), vector(vec![-0.0, 1.0]));
    }
}
