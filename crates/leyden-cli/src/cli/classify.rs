//! `leyden classify`: labels of texts.

mod decisions;

use super::encoding::Encoding;
use super::failure::Failure;
use super::labels::Labels;
use super::rows::{self, Shown};
use decisions::Calibrated;
use leyden::{EmbedOptions, Label, Model};
use serde_json::Value;
use std::io::Write;

/// Prints the best label of each text with its score, one line for each text. The model needs a head for sequence
/// classification. Scores are softmax probabilities, or for models with several labels per text the logistic
/// probability of each label. With
/// --labels any embedding model works; scores are then cosines of the vectors of text and label.
///
/// With --calibration, a file of leyden calibrate, each text gets a label, a set of labels or `abstain`, with the
/// coverage of --coverage or the error rate of --max-error (docs/calibrate.md).
///
/// Output rows have the fields of the input row. A row that cannot be computed gets `error` with the reason, and the
/// exit code is then 1. With --output, the same command continues an interrupted run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    encoding: Encoding,
    /// Number of labels to print, the best first; with several, JSON objects have them in `labels`
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    #[command(flatten)]
    labels: Labels,
    #[command(flatten)]
    calibrated: Calibrated,
}

/// Labels, with vectors of their descriptions.
pub(super) struct Described {
    labels: Vec<String>,
    /// Index of a label, and the vector of one of its descriptions.
    vectors: Vec<(usize, Vec<f32>)>,
}

impl Described {
    /// Computes the vectors of descriptions.
    pub(super) fn new(described: &[(String, String)], model: &Model) -> Result<Described, Failure> {
        let (mut labels, mut of): (Vec<String>, Vec<usize>) = Default::default();
        for (label, _) in described {
            let known = labels.iter().position(|known| known == label);
            of.push(known.unwrap_or(labels.len()));
            if known.is_none() {
                labels.push(label.clone());
            }
        }
        let texts: Vec<&str> = described.iter().map(|(_, text)| &text[..]).collect();
        let vectors = model.embedder(&EmbedOptions::default())?.embed(&texts)?;
        Ok(Described { labels, vectors: of.into_iter().zip(vectors).collect() })
    }

    /// Returns the labels for a text's vector, the nearest first.
    pub(super) fn nearest(&self, vector: &[f32]) -> Vec<Label<'_>> {
        let mut scores = vec![f32::NEG_INFINITY; self.labels.len()];
        for (label, description) in &self.vectors {
            let cosine =
                vector.iter().zip(description).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
            scores[*label] = scores[*label].max(cosine as f32);
        }
        let mut labels: Vec<Label<'_>> =
            self.labels.iter().zip(scores).map(|(label, score)| Label { label, score }).collect();
        // Labels with equal scores stay in order.
        labels.sort_by(|a, b| b.score.total_cmp(&a.score));
        labels
    }
}

/// Best labels of a text.
pub(super) struct Best<'m> {
    labels: Vec<Label<'m>>,
    /// True if more than one label was requested.
    several: bool,
}

impl Shown for Best<'_> {
    const NAMES: &'static [&'static str] = &["label", "score", "labels"];

    fn lines(&self) -> String {
        let labels: Vec<String> =
            self.labels.iter().map(|l| format!("{}\t{:.6}", l.label, l.score)).collect();
        labels.join("\t") + "\n"
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let text = |label: &str| Value::from(label).to_string();
        let Some(first) = self.labels.first() else { return Vec::new() };
        let mut fields = vec![("label", text(first.label)), ("score", rows::number(first.score))];
        if self.several {
            let object = |l: &Label<'_>| {
                format!("{{\"label\":{},\"score\":{}}}", text(l.label), rows::number(l.score))
            };
            let labels: Vec<String> = self.labels.iter().map(object).collect();
            fields.push(("labels", format!("[{}]", labels.join(","))));
        }
        fields
    }
}

/// Returns the first `top` labels.
pub(super) fn best(mut labels: Vec<Label<'_>>, top: u32) -> Best<'_> {
    labels.truncate(top as usize);
    Best { labels, several: top > 1 }
}

/// Classifies the texts and prints labels.
pub(super) fn execute(args: &Args, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    if let Some(read) = args.calibrated.read()? {
        return decisions::execute(&args.encoding, &args.calibrated, &read, out);
    }
    let described = args.labels.described()?;
    let run = format!("classify {} {described:?}", args.top);
    let model = args.encoding.load()?;
    let options = EmbedOptions::default();
    if !args.labels.are_given() {
        return args.encoding.each(&model, options, &run, out, |embedder, texts| {
            Ok(embedder.classify(texts)?.into_iter().map(|labels| best(labels, args.top)).collect())
        });
    }
    let described = Described::new(&described, &model.0)?;
    args.encoding.each(&model, options, &run, out, |embedder, texts| {
        Ok(embedder.embed(texts)?.iter().map(|vector| best(described.nearest(vector), args.top)).collect())
    })
}
