//! `leyden extract`: entities in texts.

use super::encoding::Encoding;
use super::failure::Failure;
use super::labels::Labels;
use super::rows::{self, Shown};
use leyden::{Aggregation, EmbedOptions, Entity, SpanOptions};
use serde_json::Value;
use std::io::Write;

/// Prints one line for each entity: label, score, begin and end in characters, and text. An empty line follows the
/// entities of each text, unless there is only one TEXT. The model needs a head for token classification, or is a
/// GLiNER model, which finds entities with the labels of --labels. Long texts are read in overlapping windows.
///
/// Output rows have the fields of the input row and `entities`. A row that cannot be computed gets `error` with the
/// reason, and the exit code is then 1. With --output, the same command continues an interrupted run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    encoding: Encoding,
    /// Aggregation of tokens to entities, as in transformers: none (single tokens), simple (adjacent tokens with the
    /// same label); or adjacent words, with the label of the first token (first), the best mean score (average) or the
    /// best token (max)
    #[arg(long, value_name = "STRATEGY", default_value_t, conflicts_with_all = ["labels", "labels_file"])]
    aggregation: Aggregation,
    #[command(flatten)]
    labels: Labels,
    /// Minimum score of an entity, from 0 to 1; with --labels
    #[arg(long, value_name = "SCORE", default_value_t = 0.5)]
    threshold: f32,
    /// Allow entities within entities; with --labels
    #[arg(long)]
    nested: bool,
}

/// Entities of one text.
pub(super) struct Parts {
    text: String,
    entities: Vec<Entity>,
    /// Name of the field with the label.
    key: &'static str,
    /// True if an empty line follows the entities.
    in_rows: bool,
}

impl Parts {
    /// Returns each entity with its text, and its begin and end in characters.
    fn parts(&self) -> impl Iterator<Item = (&Entity, &str, usize, usize)> {
        self.entities.iter().map(|entity| {
            let characters = |at: usize| self.text[..at].chars().count();
            let (start, end) = (characters(entity.range.start), characters(entity.range.end));
            (entity, &self.text[entity.range.clone()], start, end)
        })
    }
}

impl Shown for Parts {
    const NAMES: &'static [&'static str] = &["entities"];

    fn lines(&self) -> String {
        let line = |(entity, word, start, end): (&Entity, &str, usize, usize)| {
            // Line breaks would split the output line.
            let word: String = word.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            format!("{}\t{:.6}\t{start}\t{end}\t{word}\n", entity.label, entity.score)
        };
        self.parts().map(line).collect::<String>() + if self.in_rows { "\n" } else { "" }
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let text = |text: &str| Value::from(text).to_string();
        let object = |(entity, word, start, end): (&Entity, &str, usize, usize)| {
            let (label, score, word) = (text(&entity.label), rows::number(entity.score), text(word));
            format!(
                "{{\"{}\":{label},\"score\":{score},\"word\":{word},\"start\":{start},\"end\":{end}}}",
                self.key
            )
        };
        let parts: Vec<String> = self.parts().map(object).collect();
        vec![("entities", format!("[{}]", parts.join(",")))]
    }

    fn error_lines(reason: &str) -> String {
        let reason: String = reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("error: {reason}\n\n")
    }
}

/// Returns the entities found in texts, for objects.
pub(super) fn parts(texts: &[&str], found: Vec<Vec<Entity>>, aggregation: Aggregation) -> Vec<Parts> {
    let key = if aggregation == Aggregation::None { "entity" } else { "entity_group" };
    let one = |(text, entities): (&&str, _)| Parts { text: (*text).to_owned(), entities, key, in_rows: true };
    texts.iter().zip(found).map(one).collect()
}

/// Finds entities and prints them.
pub(super) fn execute(args: &Args, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let Args { encoding, aggregation, labels: given, threshold, nested } = args;
    let labels = given.names()?;
    if !given.are_given() && (*nested || *threshold != 0.5) {
        let option = if *nested { "--nested" } else { "--threshold" };
        return Err(Failure::usage(format!("{option}: only with --labels")));
    }
    let run = format!("extract {aggregation} {labels:?} {threshold} {nested}");
    let model = encoding.load()?;
    let in_rows = encoding.has_rows();
    encoding.each(&model, EmbedOptions::default(), &run, out, |embedder, texts| {
        let options = SpanOptions::default().threshold(*threshold).nested(*nested);
        let found = match &labels[..] {
            [] => embedder.extract(texts, *aggregation)?,
            labels => embedder.extract_labels(texts, labels, options)?,
        };
        let mut all = parts(texts, found, *aggregation);
        all.iter_mut().for_each(|parts| parts.in_rows = in_rows);
        Ok(all)
    })
}
