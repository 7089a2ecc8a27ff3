//! Arguments of `leyden calibrate`.

use std::path::PathBuf;

use leyden::LoadOptions;
use leyden::calibration::{Promise, SetScore};
use leyden_rows::Format;

use crate::cli::arithmetic::Arithmetic;
use crate::cli::notes::Notes;
use crate::cli::obtain::Hub;
use crate::cli::packs::Packs;

/// Measures on labelled texts how far a classifier's scores can be trusted, and writes the thresholds with which leyden
/// classify and leyden serve answer with a label, a set of labels, or not at all.
///
/// Two promises are possible. Coverage: the set has the right label with at least this probability. Error rate: of the
/// answered texts at most this share is wrong. Both hold for texts like the labelled ones, which the model must not
/// have been trained on. docs/calibrate.md explains them. The report has figures of held-out halves of the data.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    leyden calibrate sst2 --data labelled.csv --label class -o sst2.json\n  \
    leyden calibrate sst2 --data rows.jsonl --max-error 0.02 -o sst2.json\n  \
    leyden classify sst2 --calibration sst2.json --max-error 0.02 --file new.csv")]
pub(crate) struct Args {
    /// Classifier: a name, a GGUF or ONNX file, or a folder with config.json and safetensors or ONNX
    pub(super) model: PathBuf,
    /// Labelled texts: .csv, .tsv, .json, .jsonl or .parquet
    #[arg(long, value_name = "FILE")]
    pub(super) data: PathBuf,
    /// File for the calibration; without it only the report is printed
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Column with the text, where its name is not `text`
    #[arg(long, value_name = "NAME")]
    pub(super) column: Option<String>,
    /// Column with the right label, where its name is not `label`; for texts with any number of labels a list of them
    #[arg(long, value_name = "NAME")]
    pub(super) label: Option<String>,
    /// Format of the data, where the file's ending does not tell it: csv, tsv, json, jsonl or parquet
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    /// Use the first N rows
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Files with texts that must not be among the data, such as those the model was trained on; a warning tells how
    /// many are. They have the same columns. May be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) against: Vec<PathBuf>,
    /// Coverages to report, such as 0.9,0.95; too few rows for one of them are an error
    #[arg(long, value_name = "C", value_delimiter = ',', default_value = "0.95")]
    pub(super) coverage: Vec<f64>,
    /// Report the coverage per class: classes with enough rows have thresholds of their own
    #[arg(long)]
    pub(super) per_class: bool,
    /// Error rates of answers to report, such as 0.01,0.05; too few rows for one of them are an error
    #[arg(long, value_name = "E", value_delimiter = ',')]
    pub(super) max_error: Vec<f64>,
    /// Confidence in the error rates
    #[arg(long, value_name = "P", default_value_t = Promise::CONFIDENCE)]
    pub(super) confidence: f64,
    /// Score of labels in sets: lac (smallest sets, some empty), aps (sets grow with the uncertainty) or raps (as aps,
    /// with fewer large sets)
    #[arg(long, value_name = "SCORE", default_value = "lac", value_parser = score)]
    pub(super) score: SetScore,
    /// Number of random halves that are calibrated and checked on the other half; 0 for none
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(..=10_000))]
    pub(super) resamples: u32,
    /// Seed of the random splits
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,
    /// Truncate texts that are too long for the model; by default they are errors. The calibration holds for the same
    /// choice alone
    #[arg(long)]
    pub(super) truncate: bool,
    /// Print the report as one JSON object
    #[arg(long)]
    pub(super) json: bool,
    /// Number of threads; by default one per available physical core
    #[arg(long, short, value_name = "T")]
    pub(super) threads: Option<usize>,
    #[command(flatten)]
    pub(super) arithmetic: Arithmetic,
    #[command(flatten)]
    pub(super) packs: Packs,
    #[command(flatten)]
    pub(super) hub: Hub,
    #[command(flatten)]
    pub(super) notes: Notes,
}

/// Parses the name of a score.
fn score(name: &str) -> Result<SetScore, String> {
    let found = SetScore::ALL.iter().find(|(_, known)| *known == name);
    found.map(|(score, _)| *score).ok_or_else(|| "known scores: lac, aps, raps".to_owned())
}

impl Args {
    /// Returns the options with which the model is loaded.
    pub(super) fn load_options(&self) -> LoadOptions {
        let arithmetic = self.arithmetic;
        LoadOptions::new()
            .threads(self.threads)
            .isa(arithmetic.isa)
            .exact(arithmetic.exact)
            .int8(arithmetic.int8)
            .packs(self.packs.cache())
    }

    /// Returns the promises to report.
    pub(super) fn promises(&self) -> Vec<Promise> {
        let coverage = |coverage: &f64| Promise::Coverage { coverage: *coverage, per_class: self.per_class };
        let error =
            |max_error: &f64| Promise::MaxError { max_error: *max_error, confidence: self.confidence };
        self.coverage.iter().map(coverage).chain(self.max_error.iter().map(error)).collect()
    }
}
