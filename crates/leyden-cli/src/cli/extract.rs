//! `leyden extract`: parts of texts that have labels.

use super::encoding::Encoding;
use super::failure::Failure;
use super::rows::Row;
use leyden::{Aggregation, EmbedOptions, Entity, SpanOptions};
use serde_json::{Value, json};
use std::io::Write;

/// Prints each part of a text that has a label on a line: label, score, where it begins and ends in characters, and the part.
/// Behind the parts of a text comes an empty line, unless TEXT is the only one. The model must have a head for token
/// classification, or be one of GLiNER, which finds parts for the labels that --labels names. A text that is too long for the model
/// is read in windows that overlap, so nothing is left out.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    encoding: Encoding,
    /// How labels of tokens become those of parts: none (every token by itself), simple (tokens in a row with one label), or
    /// the same with whole words that have the label of their first token (first), of the best mean (average), of the surest
    /// token (max)
    #[arg(long, value_name = "STRATEGY", default_value_t)]
    aggregation: Aggregation,
    /// Find parts with these labels, in words of any kind: person,organisation,"date of birth"; for models of GLiNER alone. The option
    /// may be given several times
    #[arg(long, value_name = "LABEL,…", value_delimiter = ',', conflicts_with = "aggregation")]
    labels: Vec<String>,
    /// The score above which words are a part, from 0 to 1
    #[arg(long, value_name = "SCORE", default_value_t = 0.5, requires = "labels")]
    threshold: f32,
    /// Let parts lie within one another
    #[arg(long, requires = "labels")]
    nested: bool,
}

/// Prints parts.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let model = args.encoding.load()?;
    let print = |out: &mut dyn Write, (text, entities): (String, Vec<Entity>)| {
        let shown = entities.iter().map(|entity| {
            let characters = |at: usize| text[..at].chars().count();
            let (start, end) = (characters(entity.range.start), characters(entity.range.end));
            (entity, &text[entity.range.clone()], start, end)
        });
        if args.encoding.json {
            let key = if args.aggregation == Aggregation::None { "entity" } else { "entity_group" };
            let object = |(entity, word, start, end): (&Entity, &str, usize, usize)| json!({ key: entity.label, "score": entity.score, "word": word, "start": start, "end": end });
            serde_json::to_writer(&mut *out, &json!({ "entities": shown.map(object).collect::<Value>() }))?;
            writeln!(out)?;
            return Ok(());
        }
        for (entity, word, start, end) in shown {
            // A line has one line.
            let word: String = word.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            writeln!(out, "{}\t{:.6}\t{start}\t{end}\t{word}", entity.label, entity.score)?;
        }
        if args.encoding.has_rows() {
            writeln!(out)?;
        }
        Ok(())
    };
    let options = EmbedOptions::default();
    args.encoding.each(
        &model,
        options,
        out,
        |embedder, rows: &[Row]| {
            let options = SpanOptions::default().threshold(args.threshold).nested(args.nested);
            let found = match &args.labels[..] {
                [] => embedder.extract(rows, args.aggregation)?,
                labels => embedder.extract_labels(rows, labels, options)?,
            };
            Ok(rows.iter().map(|row| row.text.clone()).zip(found).collect())
        },
        print,
    )
}
