//! The report about a calibration, as text and as JSON.

use std::io::{self, Write};
use std::path::Path;

use leyden::calibration::{Basis, Calibration, Decider, LabelKind, Promise};
use leyden_eval::calibrate::Resampled;
use serde_json::{Value, json};

use crate::cli::text::{Facts, plural};

/// Promise that the rows support, with its check.
pub(super) struct Kept {
    pub(super) decider: Decider,
    pub(super) resampled: Option<Resampled>,
}

/// Calibration with everything that is reported about it.
pub(super) struct Report<'a> {
    pub(super) model: &'a Path,
    pub(super) data: &'a Path,
    pub(super) output: Option<&'a Path>,
    pub(super) calibration: &'a Calibration,
    pub(super) kept: &'a [Kept],
}

/// Formats a share in percent.
fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

impl Report<'_> {
    /// Writes the report as text.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let calibration = self.calibration;
        let mut facts = Facts::default();
        facts
            .add("model", format!("{}, {}", self.model.display(), plural(calibration.labels.len(), "label")));
        let rows = calibration.rows;
        facts.add(
            "rows",
            format!(
                "{} of {}: {} for temperature and order of tests, {} for thresholds",
                rows.tuning + rows.thresholds,
                self.data.display(),
                rows.tuning,
                rows.thresholds
            ),
        );
        let unseen = calibration.sets.iter().filter(|scores| scores.is_empty()).count();
        if unseen > 0 {
            facts.add(
                "unseen",
                format!("{} without a threshold row; they share thresholds", plural(unseen, "label")),
            );
        }
        let quality = calibration.quality;
        facts.add("accuracy", format!("{} of the threshold rows", percent(quality.accuracy)));
        facts.add(
            "temperature",
            format!(
                "{:.4}: expected calibration error {} before and {} after it, log loss {:.4} and {:.4}",
                calibration.temperature,
                percent(quality.ece.0),
                percent(quality.ece.1),
                quality.nll.0,
                quality.nll.1
            ),
        );
        for kept in self.kept {
            let name = match kept.decider.promise() {
                Promise::Coverage { .. } => "coverage",
                Promise::MaxError { .. } => "max-error",
            };
            let statement = kept.decider.statement();
            let mut text = statement.strip_prefix(&format!("{name} ")).unwrap_or(&statement).to_owned();
            if let Some(found) = &kept.resampled {
                text += &format!("\n{}", resampled(found, kept.decider.promise(), calibration.kind));
            }
            if !kept.decider.silent().is_empty() {
                let names = kept.decider.silent().iter().filter_map(|label| calibration.labels.get(*label));
                let names: Vec<&str> = names.map(String::as_str).take(8).collect();
                let n = plural(kept.decider.silent().len(), "label");
                text += &format!("\n{n} never given, too few rows: {}", names.join(", "));
            }
            facts.add(name, text);
        }
        if let Some(output) = self.output {
            facts.add("file", output.display().to_string());
        }
        facts.write(out)
    }

    /// Writes the report as one JSON object.
    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let calibration = self.calibration;
        let promises: Vec<Value> = self.kept.iter().map(promise).collect();
        let document = json!({
            "model": self.model.display().to_string(),
            "data": self.data.display().to_string(),
            "file": self.output.map(|path| path.display().to_string()),
            "made_for": calibration.made_for,
            "labels": calibration.labels.len(),
            "kind": calibration.kind,
            "rows": calibration.rows,
            "score": calibration.score,
            "temperature": calibration.temperature,
            "accuracy": calibration.quality.accuracy,
            "ece": { "before": calibration.quality.ece.0, "after": calibration.quality.ece.1 },
            "log_loss": { "before": calibration.quality.nll.0, "after": calibration.quality.nll.1 },
            "promises": promises,
        });
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)
    }
}

/// Returns the figures of held-out halves in a few lines.
fn resampled(found: &Resampled, promise: Promise, kind: LabelKind) -> String {
    let (one, several, none) = found.shares;
    let range = format!("{} to {}", percent(found.range.0), percent(found.range.1));
    let first = match promise {
        Promise::Coverage { .. } => {
            let mut text = format!("{}, from {range}", percent(found.coverage));
            if let Some((expected, (low, high))) = found.expected {
                text += &format!(
                    "; expected {}, and 95 % of them in {} to {}: {} are",
                    percent(expected),
                    percent(low),
                    percent(high),
                    found.inside
                );
            }
            text
        }
        Promise::MaxError { .. } => format!(
            "{} wrong of those answered, from {range}; {} above the limit, {} of them beyond chance, {} without a threshold",
            percent(found.error),
            found.above,
            found.far_above,
            found.without_threshold
        ),
    };
    let sets = match (promise, kind) {
        (Promise::MaxError { .. }, LabelKind::One) => {
            format!("answered {}, abstained {}", percent(one + several), percent(none))
        }
        (_, LabelKind::One) => format!(
            "one label {}, several {}, none {}; {:.3} labels on average",
            percent(one),
            percent(several),
            percent(none),
            found.set_size
        ),
        (_, LabelKind::Any) => {
            format!("{:.3} labels on average, abstained {}", found.set_size, percent(none))
        }
    };
    format!("{} held-out halves of {} rows: {first}\n{sets}", found.resamples, found.rows.1)
}

/// Returns a promise with its basis and its check.
fn promise(kept: &Kept) -> Value {
    let mut value = match kept.decider.promise() {
        Promise::Coverage { coverage, per_class } => json!({ "coverage": coverage, "per_class": per_class }),
        Promise::MaxError { max_error, confidence } => {
            json!({ "max_error": max_error, "confidence": confidence })
        }
    };
    value["statement"] = kept.decider.statement().into();
    value["basis"] = match kept.decider.basis() {
        Basis::Coverage { rows, rank, interval } => {
            json!({ "rows": rows, "rank": rank, "interval": [interval.0, interval.1] })
        }
        Basis::MaxError { rows, answered, wrong, bound } => {
            json!({ "rows": rows, "answered": answered, "wrong": wrong, "bound": bound })
        }
    };
    value["held_out"] = kept.resampled.as_ref().map_or(Value::Null, |found| {
        let (one, several, none) = found.shares;
        let mut shown = json!({
            "resamples": found.resamples,
            "calibrated_rows": found.rows.0,
            "held_out_rows": found.rows.1,
            "range": [found.range.0, found.range.1],
            "one_label": one,
            "several_labels": several,
            "abstained": none,
            "set_size": found.set_size,
        });
        match kept.decider.promise() {
            Promise::Coverage { .. } => {
                shown["coverage"] = found.coverage.into();
                if let Some((expected, (low, high))) = found.expected {
                    shown["expected"] = expected.into();
                    shown["interval"] = json!([low, high]);
                    shown["inside"] = found.inside.into();
                }
            }
            Promise::MaxError { .. } => {
                shown["error"] = found.error.into();
                shown["above"] = found.above.into();
                shown["far_above"] = found.far_above.into();
                shown["without_threshold"] = found.without_threshold.into();
            }
        }
        shown
    });
    value
}
