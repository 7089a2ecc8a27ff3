//! Code shared by `leyden embed`, `classify`, `extract` and `rerank`: input, model, and the loop over rows.

use super::arithmetic::Arithmetic;
use super::failure::Failure;
use super::inputs;
use super::interrupt::Interrupt;
use super::notes::Notes;
use super::obtain::Hub;
use super::packs::{self, Packs};
use super::rows::{self, OutputOption, RowOptions, Rows, Session, Shown, Sink};
use leyden::{EmbedOptions, Embedder, Error, LoadOptions, Model, Place, TaskError, TaskErrorKind};
use leyden_batch::{Groups, Item};
use leyden_rows::{Output, Row};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

    /// Computes rows in groups, and writes the results to the sink.
    pub(super) fn go_over<T: Shown>(
        &self,
        rows: Rows,
        sink: &mut Sink<'_>,
        mut compute: impl FnMut(&[&str]) -> Result<Vec<T>, Error>,
    ) -> Result<(), Failure> {
        let to_file = self.output.output.as_deref();
        let stop = to_file.map(|_| Interrupt::install()).transpose()?;
        let (name, column, form) = (rows.name().to_owned(), rows.column().map(str::to_owned), sink.form());
        let mut groups = Groups::new(|items: &[Arc<Item>]| -> Result<_, Failure> {
            let rows = items.iter().map(|item| item.row.text(column.as_deref())).collect();
            let results = results(rows, &mut compute)?;
            let answer = |(item, result): (&Arc<Item>, Result<T, String>)| {
                let mut result = result?;
                result.set_index(item.number);
                Ok(form.answer(&item.row, &result))
            };
            Ok(items.iter().zip(results).map(answer).collect())
        });
        let error_row = |item: &Item, reason: &str| form.error_row::<T>(&item.row, reason);
        let session =
            Session { to_file, limits: self.output.limits(), notes: self.notes, stop: stop.as_ref() };
        let (summary, ..) = session.go_over(Box::new(rows), sink, &error_row, &mut groups)?;
        rows::verdict(&summary, &name)
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

/// Returns the results of rows; a row without a text, or with a text that the model cannot take, gets the reason.
pub(super) fn results<T>(
    rows: Vec<Result<&str, String>>,
    compute: &mut impl FnMut(&[&str]) -> Result<Vec<T>, Error>,
) -> Result<Vec<Result<T, String>>, Failure> {
    let mut results: Vec<Option<Result<T, String>>> = Vec::new();
    let (mut texts, mut places) = (Vec::new(), Vec::new());
    for (i, row) in rows.into_iter().enumerate() {
        match row {
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
        out: &mut (dyn Write + Send),
        compute: impl Fn(&mut Embedder<'m>, &[&str]) -> Result<Vec<T>, Error>,
    ) -> Result<(), Failure> {
        let file = self.output_file()?;
        let settings = self.options(options);
        let mut embedder = model.embedder(&settings)?;
        if let ([text], None) = (&self.input.text[..], file) {
            let result = compute(&mut embedder, &[text.as_str()]).map_err(of_one)?.pop();
            let result = result.ok_or_else(|| Failure::new("the model gave no result"))?;
            let mut sink = Sink::print(out, self.json, false);
            let row = Row::of_text(text.clone(), String::new());
            let answer = sink.form().answer(&row, &result);
            return sink.print_one(&answer.row);
        }
        let rows = match &self.input.text[..] {
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
        let mut is_whole = true;
        self.go_over(rows, &mut sink, |texts| {
            // A panic left requests behind.
            if !is_whole {
                embedder = model.embedder(&settings)?;
            }
            is_whole = false;
            let computed = compute(&mut embedder, texts);
            is_whole = true;
            computed
        })
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
