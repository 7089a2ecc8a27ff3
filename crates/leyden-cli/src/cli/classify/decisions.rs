//! Decisions of `leyden classify --calibration`: a label, a set of labels or nothing, and the other model for the texts
//! that get nothing.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::path::{Path, PathBuf};

use leyden::calibration::{Answer, Calibration, Promise};
use leyden::{EmbedOptions, Embedder, Error, Label, LabelDecision, Model, Place, TaskError};
use serde_json::Value;

use crate::cli::calibration_file;
use crate::cli::encoding::Encoding;
use crate::cli::failure::Failure;
use crate::cli::rows::{self, Shown};

/// Options of calibrated decisions.
#[derive(Debug, clap::Args)]
pub(super) struct Calibrated {
    /// File of leyden calibrate, made with this model and these settings: answers are a label, a set of labels, or
    /// `abstain`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["labels", "labels_file", "top"])]
    calibration: Option<PathBuf>,
    /// Sets that have the right label with at least this probability, such as 0.95
    #[arg(long, value_name = "C", requires = "calibration", conflicts_with = "max_error")]
    coverage: Option<f64>,
    /// With --coverage: for the texts of each class, where it has enough rows
    #[arg(long, requires = "coverage")]
    per_class: bool,
    /// With --coverage: a larger set is an abstention
    #[arg(long, value_name = "N", requires = "coverage", value_parser = clap::value_parser!(u32).range(1..))]
    max_set: Option<u32>,
    /// Answers of which at most this share is wrong, such as 0.02; other texts get `abstain`
    #[arg(long, value_name = "E", requires = "calibration")]
    max_error: Option<f64>,
    /// With --max-error: confidence that the error rate is kept [default: 0.95]
    #[arg(long, value_name = "P", requires = "max_error")]
    confidence: Option<f64>,
    /// Model with the same labels that answers the texts which get `abstain`. The promise does not cover its answers
    #[arg(long, value_name = "MODEL", requires = "calibration")]
    fallback: Option<PathBuf>,
}

impl Calibrated {
    /// Reads the calibration; `None` without the option.
    pub(super) fn read(&self) -> Result<Option<(Calibration, Promise)>, Failure> {
        let Some(path) = &self.calibration else { return Ok(None) };
        let promise = match (self.coverage, self.max_error) {
            (Some(coverage), _) => Promise::Coverage { coverage, per_class: self.per_class },
            (None, Some(max_error)) => {
                let confidence = self.confidence.unwrap_or(Promise::CONFIDENCE);
                Promise::MaxError { max_error, confidence }
            }
            (None, None) => {
                let what = "--calibration: neither --coverage nor --max-error says what is promised";
                return Err(Failure::usage(what).hint("such as --coverage 0.95 or --max-error 0.02"));
            }
        };
        Ok(Some((calibration_file::read(path)?, promise)))
    }

    fn path(&self) -> &Path {
        self.calibration.as_deref().unwrap_or(Path::new(""))
    }
}

/// Returns the failure of a calibration that cannot be used.
fn refused(error: Error, path: &Path) -> Failure {
    use leyden::calibration::CalibrationError as Kind;
    let Error::Calibration { error, .. } = error else { return error.into() };
    let message = format!("{}: {error}", path.display());
    match error {
        Kind::Range { .. } => Failure::usage(error),
        Kind::Other { .. } => {
            Failure::new(message).hint("make one for this model and these settings with leyden calibrate")
        }
        Kind::TooFew { .. } => Failure::new(message).hint("label more texts, or ask for less"),
        Kind::NoThreshold { .. } => Failure::new(message)
            .hint("allow more errors, label more texts for leyden calibrate, or use a more accurate model"),
        _ => Failure::new(message),
    }
}

/// Decision on a text as it is printed.
struct Decided<'m> {
    answer: Answer,
    labels: Vec<Label<'m>>,
    /// True if the promise is about sets, so that an abstention has one.
    of_sets: bool,
    /// Name of the model that answered, if there are two.
    by: Option<&'m str>,
    is_fallback: bool,
}

impl Shown for Decided<'_> {
    const NAMES: &'static [&'static str] = &["answer", "label", "score", "labels", "model"];

    fn lines(&self) -> String {
        let labels = self.labels.iter().map(|label| format!("{}\t{:.6}", label.label, label.score));
        let mut line = match self.answer {
            Answer::Abstain => self.answer.name().to_owned(),
            _ => labels.collect::<Vec<_>>().join("\t"),
        };
        if self.is_fallback && self.answer != Answer::Abstain {
            line += "\tfallback";
        }
        line + "\n"
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let text = |text: &str| Value::from(text).to_string();
        let mut fields = vec![("answer", text(self.answer.name()))];
        if let (Answer::Label, [first, ..]) = (self.answer, &self.labels[..]) {
            fields.push(("label", text(first.label)));
            fields.push(("score", rows::number(first.score)));
        }
        if self.of_sets || self.answer == Answer::Set {
            let object = |label: &Label<'_>| {
                format!("{{\"label\":{},\"score\":{}}}", text(label.label), rows::number(label.score))
            };
            let labels: Vec<String> = self.labels.iter().map(object).collect();
            fields.push(("labels", format!("[{}]", labels.join(","))));
        }
        if let Some(by) = self.by {
            fields.push(("model", text(by)));
        }
        fields
    }
}

/// The other model, for texts that get nothing.
struct Fallback<'m> {
    embedder: RefCell<Embedder<'m>>,
    name: &'m str,
    /// Number of texts that it answered.
    answered: Cell<usize>,
}

impl<'m> Fallback<'m> {
    /// Answers the texts that the first model abstains from.
    fn answer(&self, texts: &[&str], decided: &mut [Decided<'m>]) -> Result<(), Error> {
        let open: Vec<usize> = (0..texts.len()).filter(|i| decided[*i].answer == Answer::Abstain).collect();
        if open.is_empty() {
            return Ok(());
        }
        let left: Vec<&str> = open.iter().map(|i| texts[*i]).collect();
        let found = self.embedder.borrow_mut().classify(&left).map_err(|error| match error {
            // The place is that among all texts.
            Error::Task { file, error: TaskError { kind, place: Place::Text(i) } } if i < open.len() => {
                Error::Task { file, error: TaskError { kind, place: Place::Text(open[i]) } }
            }
            error => error,
        })?;
        for (i, mut labels) in open.into_iter().zip(found) {
            labels.truncate(1);
            decided[i] = Decided {
                answer: Answer::Label,
                labels,
                of_sets: false,
                by: Some(self.name),
                is_fallback: true,
            };
            self.answered.set(self.answered.get() + 1);
        }
        Ok(())
    }
}

/// Refuses a fallback with other labels.
fn check_labels(first: &Model, second: &Model, name: &Path) -> Result<(), Failure> {
    let labels = |model: &Model| {
        let mut all = model.config().classifier().map_or(Vec::new(), |c| c.labels.clone());
        all.sort();
        all
    };
    let (first, second) = (labels(first), labels(second));
    if first == second {
        return Ok(());
    }
    let lacking = first.iter().find(|label| !second.contains(label));
    let more = second.iter().find(|label| !first.contains(label));
    let what = match (lacking, more) {
        (Some(label), _) => format!("it has no label `{label}`"),
        (None, Some(label)) => format!("it has a label more, `{label}`"),
        (None, None) => "its labels differ".to_owned(),
    };
    Err(Failure::new(format!("--fallback {}: {what}", name.display()))
        .hint("the model for abstained texts must have the same labels"))
}

/// Counts of answers, for the note at the end.
#[derive(Default)]
struct Counts {
    labels: Cell<usize>,
    sets: Cell<usize>,
    abstentions: Cell<usize>,
}

/// Decides on the texts and prints decisions.
pub(super) fn execute(
    encoding: &Encoding,
    calibrated: &Calibrated,
    (calibration, promise): &(Calibration, Promise),
    out: &mut (dyn Write + Send),
) -> Result<(), Failure> {
    let max_set = calibrated.max_set.map(|n| n as usize);
    let loaded = encoding.load()?;
    let model = &loaded.0;
    let decider =
        model.decider(calibration, *promise, max_set).map_err(|error| refused(error, calibrated.path()))?;
    let check = decider.check_texts(encoding.truncates(), model.config().context);
    check.map_err(|error| {
        let hint = if decider.truncates() { "use --truncate" } else { "leave out --truncate" };
        Failure::new(format!("{}: {error}", calibrated.path().display()))
            .hint(format!("{hint}, or make a calibration for it with leyden calibrate"))
    })?;
    let second = calibrated.fallback.as_ref().map(|path| encoding.load_model(path)).transpose()?;
    let names = [&encoding.model, calibrated.fallback.as_ref().unwrap_or(&encoding.model)]
        .map(|path| path.display().to_string());
    let fallback = match (&second, &calibrated.fallback) {
        (Some((second, _)), Some(path)) => {
            check_labels(model, second, path)?;
            let embedder = second.embedder(&encoding.options(EmbedOptions::default()))?;
            Some(Fallback { embedder: RefCell::new(embedder), name: &names[1], answered: Cell::new(0) })
        }
        _ => None,
    };
    encoding.notes.say(&decider.statement());
    let (of_sets, counts) = (matches!(promise, Promise::Coverage { .. }), Counts::default());
    let other = second.as_ref().map_or("", |(_, identity)| identity);
    let run = format!(
        "classify {} {promise:?} {max_set:?} {} {other}",
        calibration.made_for.sha256,
        xxhash_rust::xxh3::xxh3_64(calibration.to_json().as_bytes())
    );
    encoding.each(&loaded, EmbedOptions::default(), &run, out, |embedder, texts| {
        let by = fallback.as_ref().map(|_| &names[0][..]);
        let one =
            |LabelDecision { answer, labels }| Decided { answer, labels, of_sets, by, is_fallback: false };
        let mut decided: Vec<Decided<'_>> = embedder.decide(texts, &decider)?.into_iter().map(one).collect();
        if let Some(fallback) = &fallback {
            fallback.answer(texts, &mut decided)?;
        }
        let count = |of: &Cell<usize>, answer| {
            let own = decided.iter().filter(|d| !d.is_fallback && d.answer == answer).count();
            of.set(of.get() + own);
        };
        count(&counts.labels, Answer::Label);
        count(&counts.sets, Answer::Set);
        count(&counts.abstentions, Answer::Abstain);
        Ok(decided)
    })?;
    let routed = fallback.as_ref().map_or(0, |fallback| fallback.answered.get());
    if encoding.has_rows() {
        let other = match &fallback {
            Some(_) => format!(", {routed} answered by {}, without a promise", names[1]),
            None => String::new(),
        };
        encoding.notes.say(&format!(
            "one label {}, several {}, abstained {}{other}",
            counts.labels.get(),
            counts.sets.get(),
            counts.abstentions.get()
        ));
    }
    Ok(())
}
