//! [`Calibration`]: the document, its checks, and the numbers of rows that it is made of.

use super::answers::Candidate;
use super::conformal::SetScore;
use super::error::CalibrationError;
use leyden_models::{ClassifierConfig, Labelled, Scores};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Name of the format in the document.
const FORMAT: &str = "leyden-calibration";
/// Version of the format.
const VERSION: u32 = 1;
/// Maximum number of labels.
const MAX_LABELS: usize = 1 << 16;
/// Maximum size of a document in bytes.
pub const MAX_DOCUMENT_BYTES: u64 = 256 << 20;
/// Range of temperatures.
pub const TEMPERATURES: (f64, f64) = (0.05, 20.0);
/// Minimum number of labelled rows.
pub const MIN_ROWS: usize = 50;
/// One of so many rows is a tuning row.
const TUNING_PART: usize = 5;

/// Number of labels that a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelKind {
    /// Exactly one: the scores are a softmax.
    One,
    /// Any number: each score is a sigmoid.
    Any,
}

impl LabelKind {
    /// Returns the kind of a classifier.
    ///
    /// # Errors
    /// The head gives no probabilities of labels of texts.
    pub fn of(classifier: &ClassifierConfig) -> Result<LabelKind, CalibrationError> {
        if classifier.of == Labelled::Tokens {
            return Err(CalibrationError::Head(
                "the model labels tokens, not texts; labels of texts alone can be calibrated",
            ));
        }
        match classifier.scores {
            Scores::Softmax => Ok(LabelKind::One),
            Scores::Sigmoid => Ok(LabelKind::Any),
            Scores::Raw => Err(CalibrationError::Head(
                "the model is a regression: its scores are no probabilities, so they cannot be calibrated",
            )),
            Scores::YesNo => Err(CalibrationError::Head(
                "the model is a reranker: its scores are about pairs of texts, so they cannot be calibrated",
            )),
        }
    }
}

/// Model and settings that a calibration is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeFor {
    /// SHA-256 of the model's files.
    pub sha256: String,
    /// True if matrices stored as floats are multiplied in 8-bit integers.
    pub int8: bool,
    /// True if BF16 weights are multiplied by F32 activations.
    pub exact: bool,
    /// True if texts that are too long are truncated.
    pub truncate: bool,
    /// Maximum number of tokens of a text.
    pub max_tokens: usize,
}

/// Numbers of labelled rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowCounts {
    /// Rows for the temperature and the order of tests.
    pub tuning: usize,
    /// Rows for the thresholds.
    pub thresholds: usize,
    /// Seed of the random split.
    pub seed: u64,
}

/// Quality of probabilities on the threshold rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quality {
    /// Share of right labels: of texts by the best label, or of all labels by a probability of a half.
    pub accuracy: f64,
    /// Expected calibration error before the temperature and after it.
    pub ece: (f64, f64),
    /// Mean negative log likelihood before the temperature and after it.
    pub nll: (f64, f64),
}

/// Temperature and thresholds of a classifier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// `leyden-calibration`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Model and settings.
    pub made_for: MadeFor,
    /// Labels, in the order of the model.
    pub labels: Vec<String>,
    /// Number of labels of a text.
    pub kind: LabelKind,
    /// Numbers of rows.
    pub rows: RowCounts,
    /// Divisor of the logits.
    pub temperature: f64,
    /// Quality of the probabilities.
    pub quality: Quality,
    /// Score of labels in sets.
    pub score: SetScore,
    /// Scores of right labels in the threshold rows, ascending, by label.
    pub sets: Vec<Vec<f32>>,
    /// Candidates for the confidence of answers; for texts with any number of labels those of each label.
    pub answers: Vec<Vec<Candidate>>,
}

impl Calibration {
    /// Returns the name of the format and its version, for a new document.
    #[must_use]
    pub fn format() -> (String, u32) {
        (FORMAT.to_owned(), VERSION)
    }

    /// Parses and checks a document.
    ///
    /// # Errors
    /// It is not valid.
    pub fn from_json(bytes: &[u8]) -> Result<Calibration, CalibrationError> {
        let invalid = |what: String| CalibrationError::Document(what);
        if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
            return Err(invalid(format!("more than {MAX_DOCUMENT_BYTES} bytes")));
        }
        /// Fields by which another document or version is recognised.
        #[derive(Deserialize)]
        struct Head {
            format: Option<String>,
            version: Option<u64>,
        }
        let head: Head = serde_json::from_slice(bytes)
            .map_err(|error| invalid(format!("no calibration of leyden calibrate: {error}")))?;
        if head.format.as_deref() != Some(FORMAT) {
            return Err(invalid(format!("format: not `{FORMAT}`; leyden calibrate makes such files")));
        }
        if head.version != Some(u64::from(VERSION)) {
            return Err(invalid(format!("version: this program reads version {VERSION}")));
        }
        let found: Calibration = serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
        found.check().map_err(invalid)?;
        Ok(found)
    }

    /// Returns the document as JSON, with a line break at the end.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Checks that the parts fit together.
    fn check(&self) -> Result<(), String> {
        let labels = self.labels.len();
        if labels == 0 || labels > MAX_LABELS {
            return Err(format!("labels: {labels}, not between 1 and {MAX_LABELS}"));
        }
        if self.labels.iter().collect::<HashSet<_>>().len() < labels {
            return Err("labels: one occurs twice".to_owned());
        }
        let is_hex = |digest: &str| digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_hex(&self.made_for.sha256) {
            return Err("made_for.sha256: not 64 hexadecimal digits".to_owned());
        }
        if !(TEMPERATURES.0..=TEMPERATURES.1).contains(&self.temperature) {
            return Err(format!("temperature: {}, not between 0.05 and 20", self.temperature));
        }
        if self.sets.len() != labels {
            return Err(format!("sets: {} for {labels} labels", self.sets.len()));
        }
        for (i, scores) in self.sets.iter().enumerate() {
            let sorted = scores.is_sorted_by(|a, b| a <= b);
            let ends = [scores.first(), scores.last()];
            if !sorted || ends.iter().flatten().any(|s| !s.is_finite() || **s < 0.0) {
                return Err(format!("sets[{i}]: not numbers from 0 in ascending order"));
            }
        }
        let rows = self.sets.iter().map(Vec::len).sum::<usize>();
        let each = self.sets.iter().map(Vec::len).max().unwrap_or_default();
        let counted = if self.kind == LabelKind::One { rows } else { each };
        let fits = match self.kind {
            LabelKind::One => counted == self.rows.thresholds,
            LabelKind::Any => counted <= self.rows.thresholds,
        };
        if !fits {
            return Err(format!("sets: {counted} rows, and rows.thresholds is {}", self.rows.thresholds));
        }
        let lists = if self.kind == LabelKind::One { 1 } else { labels };
        if self.answers.len() != lists {
            return Err(format!("answers: {} lists, not {lists}", self.answers.len()));
        }
        self.answers.iter().enumerate().try_for_each(|(i, all)| {
            self.check_candidates(all).map_err(|what| format!("answers[{i}]: {what}"))
        })
    }

    fn check_candidates(&self, all: &[Candidate]) -> Result<(), &'static str> {
        let rows = [self.rows.tuning, self.rows.thresholds];
        for candidate in all {
            if !candidate.at_least.is_finite() || candidate.at_least < 0.0 {
                return Err("`at_least` is not a number from 0");
            }
            if !(0.0..=candidate.tuning.0 as f32).contains(&candidate.expected) {
                return Err("`expected` is not between 0 and the number of answered tuning rows");
            }
            for ((answered, wrong), most) in [candidate.tuning, candidate.rows].into_iter().zip(rows) {
                if wrong > answered || answered as usize > most {
                    return Err("more rows are wrong or answered than there are");
                }
            }
        }
        let grows = |a: (u32, u32), b: (u32, u32)| a.0 <= b.0 && a.1 <= b.1;
        let ordered = all.windows(2).all(|pair| {
            pair[0].at_least > pair[1].at_least
                && grows(pair[0].tuning, pair[1].tuning)
                && grows(pair[0].rows, pair[1].rows)
        });
        if ordered { Ok(()) } else { Err("not in descending order, or rows vanish") }
    }

    /// Checks that the labels are those of a classifier.
    ///
    /// # Errors
    /// They are not, or the head gives no probabilities of labels of texts.
    pub fn check_labels(&self, classifier: &ClassifierConfig) -> Result<(), CalibrationError> {
        let kind = LabelKind::of(classifier)?;
        if self.labels != classifier.labels {
            let n = self.labels.iter().zip(&classifier.labels).take_while(|(a, b)| a == b).count();
            let name = |all: &[String]| all.get(n).map_or("none".to_owned(), |label| format!("`{label}`"));
            let at = |all: &[String]| format!("{} labels, number {n} of them {}", all.len(), name(all));
            return differs("labels", at(&self.labels), at(&classifier.labels));
        }
        if kind != self.kind {
            let name = |kind| match kind {
                LabelKind::One => "texts with one label".to_owned(),
                LabelKind::Any => "texts with any number of labels".to_owned(),
            };
            return differs("labels", name(self.kind), name(kind));
        }
        Ok(())
    }

    /// Checks that the calibration is for a model and its settings.
    ///
    /// # Errors
    /// A part differs; it is named.
    pub fn check_model(&self, found: &MadeFor) -> Result<(), CalibrationError> {
        let stated = &self.made_for;
        if !stated.sha256.eq_ignore_ascii_case(&found.sha256) {
            let short = |digest: &str| format!("SHA-256 {}…", digest.get(..16).unwrap_or(digest));
            return differs("model", short(&stated.sha256), short(&found.sha256));
        }
        let on = |flag: bool, name: &str| {
            format!("{} {name}", if flag { "a model with" } else { "a model without" })
        };
        for (stated, found, name) in
            [(stated.int8, found.int8, "--int8"), (stated.exact, found.exact, "--exact")]
        {
            if stated != found {
                return differs("weights", on(stated, name), on(found, name));
            }
        }
        check_texts((stated.truncate, stated.max_tokens), (found.truncate, found.max_tokens))
    }

    /// Returns the number of labelled rows.
    #[must_use]
    pub fn all_rows(&self) -> usize {
        self.rows.tuning + self.rows.thresholds
    }
}

fn differs(what: &'static str, stated: String, found: String) -> Result<(), CalibrationError> {
    Err(CalibrationError::Other { what, stated, found })
}

/// Checks that texts which are too long are treated as stated: with truncation or without, and at which length.
pub(super) fn check_texts(stated: (bool, usize), found: (bool, usize)) -> Result<(), CalibrationError> {
    let text = |(truncate, tokens): (bool, usize)| match truncate {
        true => format!("texts truncated to {tokens} tokens"),
        false => "texts that are not truncated".to_owned(),
    };
    match stated.0 != found.0 || found.0 && stated.1 != found.1 {
        true => differs("truncation", text(stated), text(found)),
        false => Ok(()),
    }
}

/// Returns the number of tuning rows among labelled rows.
#[must_use]
pub fn tuning_rows(rows: usize) -> usize {
    rows.div_ceil(TUNING_PART)
}

/// Returns the number of labelled rows of which so many are threshold rows.
#[must_use]
pub fn labelled_rows(thresholds: usize) -> usize {
    let Some(estimate) = thresholds.checked_mul(TUNING_PART).map(|n| n / (TUNING_PART - 1)) else {
        return usize::MAX;
    };
    (estimate..).find(|n| n - tuning_rows(*n) >= thresholds).unwrap_or(usize::MAX).max(MIN_ROWS)
}

/// Computes the probabilities of labels from logits and a temperature.
#[must_use]
pub fn probabilities(logits: &[f32], temperature: f64, kind: LabelKind) -> Vec<f64> {
    let scaled = logits.iter().map(|z| f64::from(*z) / temperature);
    if kind == LabelKind::Any {
        return scaled.map(|z| 1.0 / (1.0 + (-z).exp())).collect();
    }
    let most = scaled.clone().fold(f64::NEG_INFINITY, f64::max);
    let mut all: Vec<f64> = scaled.map(|z| (z - most).exp()).collect();
    let sum: f64 = all.iter().sum();
    all.iter_mut().for_each(|p| *p /= sum);
    all
}
