//! Rows that commands read and write: options, input rows, and the sink of results.

mod meter;
mod session;
mod sink;

use super::failure::Failure;
use leyden_batch::Limits;
use leyden_rows::{Format, Output, Reader, Row};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) use meter::Meter;
pub(super) use session::Session;
pub(super) use sink::{Form, Shown, Sink, number, numbers, object, plain_numbers, verdict};

/// Options of input rows.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct RowOptions {
    /// Input file: text lines (.txt), .csv, .tsv, .json, .jsonl or .parquet, also compressed (.csv.gz); `-` is standard
    /// input
    #[arg(short, long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Column or field with the text; default `text`
    #[arg(long, value_name = "NAME")]
    pub(super) column: Option<String>,
    /// Format of the input, instead of that of the file's ending: text, csv, tsv, json, jsonl or parquet
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
}

/// Option of an output file.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct OutputOption {
    /// Output file: .jsonl, .json, .csv, .tsv, .parquet, .txt or, for vectors, .npy. The same command continues an
    /// interrupted run
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

impl OutputOption {
    /// Returns the limits of a run: printed rows are visible at once, rows of a file durable every second.
    pub(super) fn limits(&self) -> Limits {
        let every = if self.output.is_some() { Duration::from_secs(1) } else { Duration::ZERO };
        Limits::default().flush_every(every)
    }

    /// Returns the file and its format, and checks them before anything is computed.
    ///
    /// # Errors
    /// The ending is unknown, the file cannot be written, or it is one of the inputs.
    pub(super) fn file<'a>(
        &self,
        inputs: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Option<(&Path, Output)>, Failure> {
        let Some(path) = &self.output else { return Ok(None) };
        let output = Output::of_path(path)?;
        super::inputs::none_is(path, inputs)?;
        super::inputs::can_be_written(path)?;
        Ok(Some((path, output)))
    }
}

/// Rows of an input, with its name for messages.
pub(super) struct Rows {
    source: Source,
    /// File name; empty for texts of the command line.
    name: String,
    column: Option<String>,
}

enum Source {
    Texts(std::vec::IntoIter<Row>),
    File(Reader),
}

impl Rows {
    /// Returns the texts of the command line as rows.
    pub(super) fn of_texts(texts: &[String]) -> Rows {
        let row = |(i, text): (usize, &String)| Row::of_text(text.clone(), format!("text {}", i + 1));
        let texts: Vec<Row> = texts.iter().enumerate().map(row).collect();
        Rows { source: Source::Texts(texts.into_iter()), name: String::new(), column: None }
    }

    /// Opens a file, or standard input.
    ///
    /// # Errors
    /// The file cannot be read, its format is unknown, or it has no column of that name.
    pub(super) fn open(options: &RowOptions) -> Result<Rows, Failure> {
        let RowOptions { file, column, format } = options;
        let (reader, name) = match file.as_deref().filter(|path| *path != Path::new("-")) {
            Some(path) => (Reader::open(path, *format)?, path.display().to_string()),
            None => {
                let stdin = io::stdin();
                if stdin.is_terminal() {
                    let what = "reading texts from the terminal, one on each line; press Ctrl-D on an empty line to end";
                    let _ = writeln!(io::stderr(), "{what}");
                }
                let name = "standard input";
                let format = format.unwrap_or(Format::Text);
                (Reader::from_read(Box::new(stdin), name, format)?, name.to_owned())
            }
        };
        let wanted = column.as_deref().unwrap_or("text");
        if let Some(columns) = reader.columns()
            && !columns.iter().any(|column| column == wanted)
        {
            return Err(Failure::usage(format!("{name}: no column `{wanted}`")).hint(format!(
                "choose the column of the texts with --column; columns: {}",
                columns.join(", ")
            )));
        }
        Ok(Rows { source: Source::File(reader), name, column: column.clone() })
    }

    /// Returns the name of the file; empty for texts of the command line.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the column with the texts.
    pub(super) fn column(&self) -> Option<&str> {
        self.column.as_deref()
    }
}

impl leyden_batch::Source for Rows {
    fn next(&mut self) -> Result<Option<Row>, leyden_rows::Error> {
        match &mut self.source {
            Source::Texts(rows) => Ok(rows.next()),
            Source::File(reader) => reader.next(),
        }
    }

    fn share(&self) -> Option<f64> {
        match &self.source {
            Source::Texts(_) => None,
            Source::File(reader) => reader.share(),
        }
    }
}
