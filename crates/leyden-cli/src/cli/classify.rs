//! `leyden classify`: labels of texts.

use super::encoding::Encoding;
use super::failure::Failure;
use leyden::{EmbedOptions, Label};
use serde_json::{Value, json};
use std::io::Write;

/// Prints each text's best label and its score on a line, in the order of the texts. The model must have a head for sequence
/// classification; a score is a probability, by the softmax of all labels or, where several can hold, of each by itself.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    encoding: Encoding,
    /// How many labels are printed, the best first; with --json those behind the first stand in `labels` with it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
}

/// Prints labels.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let model = args.encoding.load()?;
    let print = |out: &mut dyn Write, labels: Vec<Label<'_>>| {
        let top = &labels[..labels.len().min(args.top as usize)];
        if args.encoding.json {
            let shown = |l: &Label<'_>| json!({ "label": l.label, "score": l.score });
            let mut object = top.first().map_or(Value::Null, shown);
            if args.top > 1 {
                object["labels"] = top.iter().map(shown).collect();
            }
            serde_json::to_writer(&mut *out, &object)?;
        } else {
            for (i, l) in top.iter().enumerate() {
                write!(out, "{}{}\t{:.6}", if i == 0 { "" } else { "\t" }, l.label, l.score)?;
            }
        }
        Ok(writeln!(out)?)
    };
    let options = EmbedOptions::default();
    args.encoding.each(&model, options, out, |embedder, rows| embedder.classify(rows), print)
}
