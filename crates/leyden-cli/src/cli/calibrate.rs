//! `leyden calibrate`: temperature and thresholds of a classifier from labelled texts.

mod args;
mod report;

use std::io::{self, Write};
use std::path::PathBuf;

use indicatif::ProgressBar;
use leyden::calibration::{CalibrationError, Decider, LabelKind, MIN_ROWS, Promise};
use leyden::{EmbedOptions, Error, Model, Place, TaskError, TaskErrorKind, TaskKind};
use leyden_eval::Source;
use leyden_eval::calibrate::{
    Checked, FitOptions, LabelledRow, Resampled, ScoredRows, duplicates, fit, read_labelled, resample,
    shared_texts,
};
use leyden_files::OutputOptions;
use leyden_rows::Reader;

pub(crate) use args::Args;
use report::{Kept, Report};

use super::failure::Failure;
use super::inputs;
use super::interrupt::Interrupt;
use super::packs;
use super::progress;
use super::text::plural;

/// Number of texts that are computed together.
const BATCH: usize = 64;
/// Maximum number of logits in memory: 4 GiB of them.
const MAX_LOGITS: usize = 1 << 30;

/// Calibrates, and prints the report.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let path = args.hub.obtain(&args.model, args.notes)?;
    if let Some(output) = &args.output {
        let of_model = inputs::of_model(&path);
        let read = of_model.iter().chain(std::iter::once(&args.data)).chain(&args.against);
        inputs::none_is(output, read.map(PathBuf::as_path))?;
        inputs::can_be_written(output)?;
    }
    let model = Model::open(&path, &args.load_options())?;
    packs::report(&model, args.notes);
    let of_model = |error: CalibrationError| Failure::new(format!("{}: {error}", path.display()));
    let Some(classifier) =
        model.config().classifier().filter(|_| TaskKind::Classify.is_possible(model.config()))
    else {
        return Err(of_model(CalibrationError::Head("the model has no head that gives texts labels"))
            .hint("use a model with a head for sequence classification"));
    };
    let kind = LabelKind::of(classifier).map_err(of_model)?;
    let source = Source {
        format: args.format,
        column: args.column.as_deref(),
        label: args.label.as_deref(),
        limit: args.limit,
    };
    let rows = read_labelled(&args.data, &source, (&classifier.labels, kind))?;
    check_count(args, rows.len())?;
    warn_of_duplicates(args, &rows)?;
    if rows.len().saturating_mul(classifier.labels.len()) > MAX_LOGITS {
        return Err(Failure::new(format!(
            "{}: {} with {} labels are too many for the memory",
            args.data.display(),
            plural(rows.len(), "row"),
            classifier.labels.len()
        ))
        .hint("use the first rows with --limit"));
    }
    let made_for = model.made_for(args.truncate)?;
    let logits = logits(args, &model, &rows)?;
    let labels: Vec<Vec<usize>> = rows.into_iter().map(|row| row.labels).collect();
    let scored = ScoredRows { logits: &logits, labels: &labels, kind };
    let options =
        FitOptions { made_for, labels: classifier.labels.clone(), score: args.score, seed: args.seed };
    let fitted = fit(&scored, &options);
    if !fitted.has_temperature {
        args.notes.say(
            "warning: the likelihood of the labels has no optimum, as where every tuning row is right: the temperature is 1",
        );
    }
    let promises = args.promises();
    let decider = |promise: &Promise| Decider::new(&fitted.calibration, *promise, None);
    let deciders = promises.iter().map(decider).collect::<Result<Vec<_>, _>>();
    let deciders = deciders.map_err(|error| refused(args, error))?;
    let checked: Vec<Checked> = promises.iter().map(|promise| (*promise, None)).collect();
    let checks: Vec<Option<Resampled>> = match args.resamples as usize {
        0 => vec![None; promises.len()],
        n => {
            let each = resample(&scored, &options, &checked, n).into_iter().zip(&promises);
            each.map(|(found, promise)| check_of(args, found, *promise)).collect::<Result<_, Failure>>()?
        }
    };
    let kept = deciders.into_iter().zip(checks).map(|(decider, resampled)| Kept { decider, resampled });
    let kept: Vec<Kept> = kept.collect();
    if let Some(output) = &args.output {
        let text = fitted.calibration.to_json();
        leyden_files::write(output, text.as_bytes(), OutputOptions::new())
            .map_err(|error| Failure::new(format!("{}: cannot write: {error}", output.display())))?;
    }
    let report = Report {
        model: &path,
        data: &args.data,
        output: args.output.as_deref(),
        calibration: &fitted.calibration,
        kept: &kept,
    };
    let mut err = io::stderr();
    let out = inputs::report_beside(args.output.as_deref(), out, &mut err);
    if args.json {
        report.write_json(out)?
    } else {
        report.write(out)?
    }
    Ok(out.flush()?)
}

/// Returns the check of a promise; `None` if half of the rows are too few for it.
fn check_of(
    args: &Args,
    found: Result<Resampled, CalibrationError>,
    promise: Promise,
) -> Result<Option<Resampled>, Failure> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(CalibrationError::TooFew { .. }) => {
            args.notes.say(&format!("{promise}: half of the rows are too few for a check"));
            Ok(None)
        }
        Err(error) => Err(refused(args, error)),
    }
}

/// Refuses too few rows, with the number that is needed.
fn check_count(args: &Args, rows: usize) -> Result<(), Failure> {
    for promise in args.promises() {
        promise.check().map_err(|error| refused(args, error))?;
    }
    let needed = |promise: &Promise| leyden::calibration::labelled_rows(promise.needed_rows());
    let most = args.promises().into_iter().map(|promise| (needed(&promise), promise));
    match most.max_by_key(|(needed, _)| *needed) {
        Some((needed, promise)) if rows < needed && needed > MIN_ROWS => Err(Failure::new(format!(
            "{}: {promise} needs at least {needed} labelled rows, and there are {rows}",
            args.data.display()
        ))
        .hint("label more texts, or ask for less")),
        _ if rows < MIN_ROWS => Err(Failure::new(format!(
            "{}: a calibration needs at least {MIN_ROWS} labelled rows, and there are {rows}",
            args.data.display()
        ))
        .hint("label more texts")),
        _ => Ok(()),
    }
}

/// Returns the failure of a promise that the rows do not support.
fn refused(args: &Args, error: CalibrationError) -> Failure {
    let usage = matches!(error, CalibrationError::Range { .. });
    let message = format!("{}: {error}", args.data.display());
    match error {
        _ if usage => Failure::usage(error),
        CalibrationError::TooFew { .. } => Failure::new(message).hint("label more texts, or ask for less"),
        CalibrationError::NoThreshold { .. } => {
            Failure::new(message).hint("label more texts, allow more errors, or use a more accurate model")
        }
        _ => Failure::new(message),
    }
}

/// Warns of texts that occur more than once, or in the other files.
fn warn_of_duplicates(args: &Args, rows: &[LabelledRow]) -> Result<(), Failure> {
    let found = duplicates(rows.iter().map(|row| (&row.text[..], &row.labels[..])));
    if found.rows > 0 {
        let other = match found.contradictions {
            0 => String::new(),
            n => format!(", {n} of them with other labels"),
        };
        args.notes.say(&format!(
            "warning: {}: rows with a text that occurs before: {}{other}; the promises count them as independent",
            args.data.display(),
            found.rows
        ));
    }
    for path in &args.against {
        let mut reader = Reader::open(path, args.format)?;
        let mut others = Vec::new();
        while let Some(row) = reader.next()? {
            let text = row.text(args.column.as_deref());
            others.push(
                text.map_err(|what| Failure::new(format!("{}: {}: {what}", path.display(), row.place)))?
                    .to_owned(),
            );
        }
        let shared = shared_texts(rows.iter().map(|row| &row.text[..]), others.iter().map(|text| &text[..]));
        if shared > 0 {
            args.notes.say(&format!(
                "warning: {}: rows whose text is also in {}: {shared}; with texts that the model was trained on, the \
                 promises are too good",
                args.data.display(),
                path.display()
            ));
        }
    }
    Ok(())
}

/// Computes the logits of all rows.
fn logits(args: &Args, model: &Model, rows: &[LabelledRow]) -> Result<Vec<Vec<f32>>, Failure> {
    let mut embedder = model.embedder(&EmbedOptions::default().truncate(args.truncate))?;
    let stop = Interrupt::install()?;
    let bar = match args.notes.is_quiet() {
        true => None,
        false => progress::bar("{msg} {wide_bar} {pos}/{len} {eta} left"),
    };
    let bar = bar.unwrap_or_else(ProgressBar::hidden);
    bar.set_length(rows.len() as u64);
    let mut all = Vec::with_capacity(rows.len());
    for batch in rows.chunks(BATCH) {
        let texts: Vec<&str> = batch.iter().map(|row| &row.text[..]).collect();
        let found = embedder.label_logits(&texts).map_err(|error| match error {
            Error::Task { error: TaskError { kind, place: Place::Text(number) }, .. }
                if number < batch.len() =>
            {
                let failure = Failure::new(format!("{}: {kind}", batch[number].place));
                match kind {
                    TaskErrorKind::TooLong { .. } => failure.hint("shorten the text, or use --truncate"),
                    _ => failure,
                }
            }
            error => {
                let (first, last) = (&batch[0].place, &batch[batch.len() - 1].place);
                Failure::new(format!("{first} to {last}: {error}"))
            }
        })?;
        for (row, logits) in batch.iter().zip(&found) {
            if logits.iter().any(|logit| !logit.is_finite()) {
                return Err(Failure::new(format!("{}: {}", row.place, CalibrationError::Scores)));
            }
        }
        all.extend(found);
        bar.set_position(all.len() as u64);
        if stop.is_set() {
            bar.finish_and_clear();
            return Err(Failure::interrupted());
        }
    }
    bar.finish_and_clear();
    Ok(all)
}
