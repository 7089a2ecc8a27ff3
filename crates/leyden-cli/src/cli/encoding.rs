//! Code shared by `leyden embed`, `classify`, `extract` and `rerank`: input, model, and the loop over rows.

use super::arithmetic::Arithmetic;
use super::failure::Failure;
use super::inputs;
use super::interrupt::Interrupt;
use super::notes::Notes;
use super::obtain::Hub;
use super::packs::{self, Packs};
use super::rows::{Meter, OutputOption, RowOptions, Rows, Shown, Sink};
use super::text::plural;
use leyden::{EmbedOptions, Embedder, Error, LoadOptions, Model, Place, TaskError, TaskErrorKind};
use leyden_rows::{Output, Row};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Maximum number of rows that are computed together.
const MAX_BATCH: usize = 256;
/// Number of rows of the first batch.
const FIRST_BATCH: usize = 32;
/// Target time of a batch, so that progress is shown and an interrupt is noticed in time.
const BATCH_TIME: Duration = Duration::from_secs(1);

/// Input of commands that compute a result for each text.
#[derive(Debug, clap::Args)]
pub(crate) struct Texts {
    /// Texts in quotes; without TEXT, rows of --file or lines of standard input
    #[arg(conflicts_with_all = ["file", "column", "format"])]
    text: Vec<String>,
    #[command(flatten)]
    rows: RowOptions,
}

/// Options of all these commands.
#[derive(Debug, clap::Args)]
pub(super) struct Encoding<I: clap::Args = Texts> {
    /// Model: a name, a GGUF or ONNX file, or a folder with config.json and safetensors or ONNX
    pub(super) model: PathBuf,
    #[command(flatten)]
    pub(super) input: I,
    #[command(flatten)]
    pub(super) output: OutputOption,
    /// Print a JSON object for each row, with the fields of the row and of the result
    #[arg(long)]
    pub(super) json: bool,
    /// Truncate texts that are too long for the model; by default they are errors
    #[arg(long)]
    truncate: bool,
    /// Number of threads; by default one per available physical core
    #[arg(long, short, value_name = "T")]
    threads: Option<usize>,
    #[command(flatten)]
    arithmetic: Arithmetic,
    #[command(flatten)]
    packs: Packs,
    #[command(flatten)]
    hub: Hub,
    #[command(flatten)]
    pub(super) notes: Notes,
}

/// Formats a number of rows: `1 row`, `2 rows`.
fn counted(rows: u64) -> String {
    plural(usize::try_from(rows).unwrap_or(usize::MAX), "row")
}

impl<I: clap::Args> Encoding<I> {
    /// Loads the model. Returns it with a text that identifies it.
    pub(super) fn load(&self) -> Result<(Model, String), Failure> {
        self.load_model(&self.model)
    }

    /// Loads a model with the same options. Returns it with a text that identifies it.
    pub(super) fn load_model(&self, model: &Path) -> Result<(Model, String), Failure> {
        let options = LoadOptions::new()
            .threads(self.threads)
            .isa(self.arithmetic.isa)
            .exact(self.arithmetic.exact)
            .int8(self.arithmetic.int8)
            .packs(self.packs.cache());
        let path = self.hub.obtain(model, self.notes)?;
        let model = Model::open(&path, &options)?;
        packs::report(&model, self.notes);
        let Arithmetic { exact, int8, .. } = self.arithmetic;
        let identity =
            format!("{:016x} exact {exact} int8 {int8} truncate {}", inputs::identity(&path), self.truncate);
        Ok((model, identity))
    }

    /// Returns true with the option `--truncate`.
    pub(super) fn truncates(&self) -> bool {
        self.truncate
    }

    /// Adds the option `--truncate`.
    pub(super) fn options(&self, options: EmbedOptions) -> EmbedOptions {
        options.truncate(self.truncate)
    }

    /// Refuses --json with an output file of another format.
    pub(super) fn check_json(&self, file: Option<(&Path, Output)>) -> Result<(), Failure> {
        match file {
            Some((path, output)) if self.json && !matches!(output, Output::Json | Output::JsonLines) => {
                let what = format!("--json: the ending of {} asks for another format", path.display());
                Err(Failure::usage(what).hint("leave out --json"))
            }
            _ => Ok(()),
        }
    }

    /// Computes rows in order, in batches, and writes the results to the sink.
    pub(super) fn go_over<T: Shown>(
        &self,
        rows: &mut Rows,
        sink: &mut Sink<'_>,
        mut compute: impl FnMut(&[&str]) -> Result<Vec<T>, Error>,
    ) -> Result<(), Failure> {
        let to_file = self.output.output.as_deref();
        let stop = to_file.map(|_| Interrupt::install()).transpose()?;
        let mut meter = Meter::new(to_file.is_some(), self.notes);
        let kept = sink.kept();
        let place = to_file.map(|path| path.display().to_string()).unwrap_or_default();
        if kept > 0 {
            self.notes.say(&format!("{place}: continuing after {} of an interrupted run", counted(kept)));
        }
        for done in 0..kept {
            let row = rows.take(1)?.pop().filter(|row| matches!(sink.has(done, row), Ok(true)));
            if row.is_none() {
                return Err(changed(&place, done + 1));
            }
        }
        meter.begin(kept, rows.share());
        let mut size = FIRST_BATCH;
        loop {
            let batch = rows.take(size)?;
            if batch.is_empty() {
                break;
            }
            let start = Instant::now();
            for (row, mut result) in batch.iter().zip(results(&batch, rows, &mut compute)?) {
                if let Ok(result) = &mut result {
                    result.set_index(sink.rows());
                }
                sink.put(row, &result, &rows.place(row))?;
            }
            sink.flush()?;
            meter.show(sink.rows(), rows.share());
            let took = start.elapsed();
            if took > 2 * BATCH_TIME {
                size = (size / 2).max(1);
            } else if 2 * took < BATCH_TIME {
                size = (2 * size).min(MAX_BATCH);
            }
            if stop.as_ref().is_some_and(Interrupt::is_set) {
                drop(meter);
                let done = counted(sink.rows());
                self.notes.say(&format!("stopped after {done}; the same command continues from there"));
                return Err(Failure::interrupted());
            }
        }
        let (rows, seconds, rate) = (sink.rows(), meter.seconds(), meter.rate(sink.rows()));
        drop(meter);
        sink.finish()?;
        if to_file.is_some() {
            self.notes.say(&format!("{place}: {}, {seconds:.1} s, {rate:.1} rows/s", counted(rows)));
        }
        sink.verdict()
    }
}

/// Returns the failure for the only text of a command line.
fn of_one(error: Error) -> Failure {
    match error {
        Error::Task { error: TaskError { kind: kind @ TaskErrorKind::TooLong { .. }, .. }, .. } => {
            Failure::new(format!("the text has {kind}")).hint("shorten the text, or use --truncate")
        }
        error => error.into(),
    }
}

/// Returns the failure of a run whose input differs from that of the interrupted run.
fn changed(place: &str, row: u64) -> Failure {
    Failure::new(format!("{place}.unfinished: row {row} of the input differs from the interrupted run"))
        .hint("remove this file to start again, or choose another output")
}

/// Returns the results of rows; a row without a text, or with a text that the model cannot take, gets the reason.
pub(super) fn results<T>(
    batch: &[Row],
    rows: &Rows,
    compute: &mut impl FnMut(&[&str]) -> Result<Vec<T>, Error>,
) -> Result<Vec<Result<T, String>>, Failure> {
    let mut results: Vec<Option<Result<T, String>>> = Vec::new();
    let (mut texts, mut places) = (Vec::new(), Vec::new());
    for (i, row) in batch.iter().enumerate() {
        match rows.text(row) {
            Ok(text) => {
                texts.push(text);
                places.push(i);
                results.push(None);
            }
            Err(reason) => results.push(Some(Err(reason))),
        }
    }
    // Ranges of texts left to compute; the last element is the next range.
    let mut open = Vec::new();
    open.push(0..texts.len());
    while let Some(range) = open.pop() {
        if range.is_empty() {
            continue;
        }
        match compute(&texts[range.clone()]) {
            Ok(found) => {
                for (i, result) in range.zip(found) {
                    results[places[i]] = Some(Ok(result));
                }
            }
            Err(Error::Task {
                error: TaskError { kind: kind @ TaskErrorKind::TooLong { .. }, place: Place::Text(number) },
                ..
            }) if number < range.len() => {
                let at = range.start + number;
                results[places[at]] = Some(Err(kind.to_string()));
                // The texts before it fit.
                open.push(at + 1..range.end);
                open.push(range.start..at);
            }
            Err(error @ (Error::EmptyPrompt | Error::NotFinite { .. } | Error::Text(_))) => {
                if range.len() == 1 {
                    results[places[range.start]] = Some(Err(error.to_string()));
                } else {
                    let middle = range.start + range.len() / 2;
                    open.push(middle..range.end);
                    open.push(range.start..middle);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    let missing = || Err("the model gave no result".to_owned());
    Ok(results.into_iter().map(|result| result.unwrap_or_else(missing)).collect())
}

impl Encoding {
    /// Returns true if there may be more than one text.
    pub(super) fn has_rows(&self) -> bool {
        self.input.text.len() != 1
    }

    /// Computes and prints the results of all texts. `run` identifies the command and its settings.
    pub(super) fn each<'m, T: Shown>(
        &self,
        (model, identity): &'m (Model, String),
        options: EmbedOptions,
        run: &str,
        out: &mut dyn Write,
        compute: impl Fn(&mut Embedder<'m>, &[&str]) -> Result<Vec<T>, Error>,
    ) -> Result<(), Failure> {
        let file = self.output_file()?;
        let mut embedder = model.embedder(&self.options(options))?;
        if let ([text], None) = (&self.input.text[..], file) {
            let result = compute(&mut embedder, &[text.as_str()]).map_err(of_one)?.pop();
            let row = Row::of_text(text.clone(), String::new());
            let result = result.ok_or_else(|| "the model gave no result".to_owned());
            return Sink::print(out, self.json, false).put(&row, &result, "");
        }
        let mut rows = match &self.input.text[..] {
            [] => Rows::open(&self.input.rows)?,
            texts => Rows::of_texts(texts),
        };
        let mut sink = match file {
            Some((path, output)) => {
                let column = &self.input.rows.column;
                let version = env!("CARGO_PKG_VERSION");
                Sink::file(
                    path,
                    output,
                    &format!("{version} {run} {column:?} {identity}").replace('\n', " "),
                )?
            }
            None => Sink::print(out, self.json, true),
        };
        self.go_over(&mut rows, &mut sink, |texts| compute(&mut embedder, texts))
    }

    /// Returns the output file and its format.
    pub(super) fn output_file(&self) -> Result<Option<(&Path, Output)>, Failure> {
        let model = inputs::of_model(&self.model);
        let inputs = model.iter().map(PathBuf::as_path).chain(self.input.rows.file.as_deref());
        let file = self.output.file(inputs)?;
        self.check_json(file)?;
        Ok(file)
    }
}
