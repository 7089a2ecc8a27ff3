//! Measurement of model and reference.

use std::path::Path;

use leyden::Model;
use leyden_eval::{Error, Outcome, Progress, Reference, Run, Suite, Windows};
use leyden_verify::{Floor, Measured, Pairs, WindowFigures};

use super::args::Args;
use super::data::{Contents, Data};
use crate::cli::eval::Watcher;
use crate::cli::failure::Failure;
use crate::cli::run;

/// A floor with the name of its data and the measurements on them.
type Case = (Floor, String, Measured);

/// Measures the model, and the reference where a floor needs it, on all data.
pub(super) fn all(
    args: &Args,
    (path, reference): (&Path, Option<&Path>),
    data: &[Data],
    watcher: &Watcher,
) -> Result<Vec<Case>, Failure> {
    let load = |path: &Path| run::load(path, &args.load_options(), args.notes);
    let mut cases = Vec::new();
    if data.is_empty() {
        return Ok(cases);
    }
    let model = load(path)?;
    let own = data.iter().map(|data| answers(args, &model, data, watcher)).collect::<Result<Vec<_>, _>>()?;
    let mut other = None;
    for data in data {
        let Contents::Text(text) = &data.contents else { continue };
        if other.is_none()
            && let Some(path) = reference
        {
            other = Some(load(path)?);
        }
        let measured = Measured::Windows(windows(args, &model, other.as_ref(), (data, text), watcher)?);
        cases.extend(
            data.floors.iter().map(|(floor, _)| (floor.clone(), data.name.clone(), measured.clone())),
        );
    }
    drop(model);
    let needed = data.iter().any(needs_reference);
    if needed
        && other.is_none()
        && let Some(path) = reference
    {
        other = Some(load(path)?);
    }
    for (data, own) in data.iter().zip(own) {
        let Some(own) = own else { continue };
        let theirs = match &other {
            Some(model) if needs_reference(data) => answers(args, model, data, watcher)?,
            _ => None,
        };
        for (floor, index) in &data.floors {
            let hit = |outcome: &Outcome| outcome.hits.get(*index) == Some(&true);
            let other = |i: usize| theirs.as_ref().and_then(|all| all.get(i)).is_some_and(hit);
            let pairs = Pairs::count(own.iter().enumerate().map(|(i, outcome)| (hit(outcome), other(i))));
            cases.push((floor.clone(), data.name.clone(), Measured::Questions(pairs)));
        }
    }
    Ok(cases)
}

fn needs_reference(data: &Data) -> bool {
    data.floors.iter().any(|(floor, _)| floor.needs_reference())
}

/// Asks a model the questions of data; `None` for a text.
fn answers(
    args: &Args,
    model: &Model,
    data: &Data,
    watcher: &Watcher,
) -> Result<Option<Vec<Outcome>>, Failure> {
    let Contents::Questions(suite) = &data.contents else { return Ok(None) };
    let mut outcomes = Vec::new();
    ask(args, model, suite, &mut outcomes, watcher)?;
    Ok(Some(outcomes))
}

fn ask(
    args: &Args,
    model: &Model,
    suite: &Suite,
    outcomes: &mut Vec<Outcome>,
    watcher: &Watcher,
) -> Result<(), Failure> {
    let mut watch = |progress: Progress<'_>| watcher.hear(&progress);
    Ok(suite.run(model, args.kv_type, outcomes, &mut |_| Ok(()), &mut watch)?)
}

fn windows(
    args: &Args,
    model: &Model,
    reference: Option<&Model>,
    (data, text): (&Data, &str),
    watcher: &Watcher,
) -> Result<Vec<WindowFigures>, Failure> {
    let run = Run::new(args.kv_type, args.seed);
    let windows = Windows::of_text(model, text, args.context, args.chunks).map_err(|error| match error {
        Error::Usage(what) => Failure::new(format!("{}: {what}", data.file.display()))
            .hint("give a longer text, or a smaller --ctx"),
        error => error.into(),
    })?;
    let mut watch = |progress: Progress<'_>| watcher.hear(&progress);
    let Some(reference) = reference else {
        let found = leyden_eval::perplexity(model, &windows, &run, &mut watch)?;
        let figures = |(sum, tokens): &(f64, usize)| WindowFigures {
            tokens: *tokens,
            nll: sum / (*tokens).max(1) as f64,
            ..WindowFigures::default()
        };
        return Ok(found.by_window.iter().map(figures).collect());
    };
    let mut reference = Reference::Model(reference);
    let found = leyden_eval::divergence(model, &windows, &mut reference, &run, &mut watch)?;
    let figures = |window: &leyden_eval::WindowMeans| WindowFigures {
        tokens: window.tokens,
        nll: window.nll,
        nll_reference: Some(window.nll_reference),
        kld: window.kld,
        same_top: window.same_top,
    };
    Ok(found.by_window.iter().map(figures).collect())
}
