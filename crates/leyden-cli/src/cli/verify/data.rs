//! Data of `--data`, and the floors that each is for.

use std::path::{Path, PathBuf};

use leyden_eval::{Source, Suite, Task};
use leyden_verify::{Floor, Metric};

use super::args::Args;
use crate::cli::failure::Failure;
use crate::cli::inputs;
use crate::cli::text::plural;

/// Endings of files with plain text.
const TEXTS: [&str; 4] = ["txt", "text", "raw", "md"];

/// Contents of one file of data.
pub(super) enum Contents {
    /// Questions.
    Questions(Suite),
    /// A text.
    Text(String),
}

/// One file of data.
pub(super) struct Data {
    /// Name of the task, or of the file.
    pub(super) name: String,
    pub(super) file: PathBuf,
    pub(super) contents: Contents,
    /// Floors that it is for, each with the index of its metric among those of the questions.
    pub(super) floors: Vec<(Floor, usize)>,
}

/// Reads all data, and assigns the floors to them.
///
/// # Errors
/// A file cannot be read or has rows that are no questions, a floor is for none of the data, or data are for no floor.
pub(super) fn read(args: &Args) -> Result<Vec<Data>, Failure> {
    let mut all = args.data.iter().map(|given| one(args, given)).collect::<Result<Vec<_>, _>>()?;
    for floor in args.floor.iter().flat_map(|floors| floors.all()) {
        if floor.needs_reference() && args.reference.is_none() {
            return Err(Failure::usage(format!("--floor: {floor}: compares with a reference"))
                .hint("name it with --reference MODEL"));
        }
        let mut found = false;
        for data in all.iter_mut().filter(|data| floor.data.as_ref().is_none_or(|name| *name == data.name)) {
            if let Some(index) = index_of(&floor.metric, &data.contents) {
                data.floors.push((floor.clone(), index));
                found = true;
            }
        }
        if !found {
            let names: Vec<&str> = all.iter().map(|data| &data.name[..]).collect();
            let kind = if floor.metric.is_of_text() { "text" } else { "questions with this metric" };
            return Err(Failure::usage(format!("--floor: {floor}: no {kind} among the data")).hint(format!(
                "the data are {}; a text ends in .txt, questions in .jsonl, .json, .csv, .tsv or .parquet",
                names.join(", ")
            )));
        }
    }
    match all.iter().find(|data| data.floors.is_empty()) {
        Some(data) => Err(Failure::usage(format!("--data {}: no floor is about it", data.name))
            .hint("add one to --floor, such as accuracy>=0.95*ref for questions or kld<=0.05 for a text")),
        None => Ok(all),
    }
}

/// Returns the index of a metric among those of questions, 0 for a text; `None` if the data lack it.
fn index_of(metric: &Metric, contents: &Contents) -> Option<usize> {
    match (contents, metric) {
        (Contents::Text(_), metric) => metric.is_of_text().then_some(0),
        (Contents::Questions(_), Metric::Accuracy) => Some(0),
        (Contents::Questions(suite), Metric::Share(name)) => {
            suite.metrics.iter().position(|metric| metric == name)
        }
        (Contents::Questions(_), _) => None,
    }
}

fn one(args: &Args, given: &str) -> Result<Data, Failure> {
    let source = Source {
        format: args.format,
        column: args.column.as_deref(),
        label: args.label.as_deref(),
        limit: args.limit,
    };
    let task = given.split_once('=').and_then(|(name, file)| Some((Task::from_name(name)?, file)));
    if let Some((task, file)) = task {
        let file = PathBuf::from(file);
        let source = Source { column: None, label: None, ..source };
        if task.shots() > 0 {
            let what = format!("--data {}: this task needs examples before each question", task.name());
            return Err(
                Failure::usage(what).hint("leyden eval --task has them; verify takes tasks without examples")
            );
        }
        let suite = Suite::of_task(&task, &file, None, 0, &source)?;
        return questions(task.name().to_owned(), file, suite);
    }
    let file = PathBuf::from(given);
    let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let ending = Path::new(given).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    if args.format.is_none() && TEXTS.iter().any(|text| text.eq_ignore_ascii_case(ending)) {
        let contents = Contents::Text(inputs::read_text(&file)?);
        return Ok(Data { name, file, contents, floors: Vec::new() });
    }
    let suite = Suite::of_file(&file, &source)?;
    questions(name, file, suite)
}

fn questions(name: String, file: PathBuf, suite: Suite) -> Result<Data, Failure> {
    if let Some(bad) = suite.bad.first() {
        let rows = plural(suite.bad.len() + suite.items.len(), "row");
        let message = format!("{} of {rows} are no questions; {}", suite.bad.len(), bad.reason);
        return Err(
            Failure::new(message).hint("mend these rows, or remove them; a verdict is about all rows")
        );
    }
    Ok(Data { name, file, contents: Contents::Questions(suite), floors: Vec::new() })
}
