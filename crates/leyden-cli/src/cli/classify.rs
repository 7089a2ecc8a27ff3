//! `leyden classify`: labels of texts.

use super::encoding::Encoding;
use super::failure::Failure;
use super::rows::Rows;
use leyden::{EmbedOptions, Label, Model};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The most lines of a file of labels.
const MOST_LABELS: usize = 1 << 16;

/// Prints each text's best label and its score on a line, in the order of the texts. The model must have a head for sequence
/// classification; a score is a probability, by the softmax of all labels or, where several can hold, of each by itself. With
/// --labels any model that makes vectors will do, and a score is the cosine of the text's vector and that of the label's
/// description.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    encoding: Encoding,
    /// How many labels are printed, the best first; with --json those behind the first stand in `labels` with it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// Route texts to the labels of this file, without training: one on a line, with a tab and a description behind it where
    /// the label itself says too little; several lines may describe one label, and the nearest counts
    #[arg(long, value_name = "LABELS.txt")]
    labels: Option<PathBuf>,
}

/// Labels with the vectors of their descriptions.
struct Described {
    labels: Vec<String>,
    /// Of which label each is.
    vectors: Vec<(usize, Vec<f32>)>,
}

impl Described {
    fn read(path: &Path, model: &Model) -> Result<Described, Failure> {
        let lines = Rows::open(Some(path))?.all(MOST_LABELS)?;
        let lines: Vec<&str> =
            lines.iter().map(|row| row.text.trim()).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() {
            return Err(Failure::new(format!("{}: no labels", path.display())).hint("write one on a line"));
        }
        let (mut labels, mut of, mut texts): (Vec<String>, Vec<usize>, Vec<&str>) = Default::default();
        for line in lines {
            let (label, text) = line.split_once('\t').unwrap_or((line, line));
            let known = labels.iter().position(|known| known == label);
            of.push(known.unwrap_or(labels.len()));
            if known.is_none() {
                labels.push(label.to_owned());
            }
            texts.push(text);
        }
        let vectors = model.embedder(&EmbedOptions::default())?.embed(&texts)?;
        Ok(Described { labels, vectors: of.into_iter().zip(vectors).collect() })
    }

    /// The labels of a text with this vector, the nearest first.
    fn nearest(&self, vector: &[f32]) -> Vec<Label<'_>> {
        let mut scores = vec![f32::NEG_INFINITY; self.labels.len()];
        for (label, description) in &self.vectors {
            let cosine =
                vector.iter().zip(description).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            scores[*label] = scores[*label].max(cosine as f32);
        }
        let mut labels: Vec<Label<'_>> =
            self.labels.iter().zip(scores).map(|(label, score)| Label { label, score }).collect();
        // Of equal scores the first label's comes first.
        labels.sort_by(|a, b| b.score.total_cmp(&a.score));
        labels
    }
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
    if let Some(path) = &args.labels {
        let described = Described::read(path, &model)?;
        let nearest =
            |vectors: Vec<Vec<f32>>| vectors.iter().map(|vector| described.nearest(vector)).collect();
        return args.encoding.each(&model, options, out, |e, rows| Ok(nearest(e.embed(rows)?)), print);
    }
    args.encoding.each(&model, options, out, |embedder, rows| embedder.classify(rows), print)
}
