//! What `leyden embed`, `classify`, `extract` and `rerank` have in common: their input, the model, and going over the rows.

use super::arithmetic::Arithmetic;
use super::failure::Failure;
use super::notes::Notes;
use super::obtain::Hub;
use super::packs::{self, Packs};
use super::rows::{Row, Rows};
use leyden::{EmbedOptions, Embedder, Error, LoadOptions, Model};
use std::io::Write;
use std::path::PathBuf;

/// Texts that are computed before the first of them is printed.
const BATCH: usize = 256;

/// What most of them read: texts, of which each has a result.
#[derive(Debug, clap::Args)]
pub(crate) struct Texts {
    /// The text
    #[arg(conflicts_with = "file")]
    text: Option<String>,
    /// Read texts from this file, one on a line; of a name that ends in .jsonl a line is an object with the field `text`, or a
    /// text in quotes. - is standard input, which is read without TEXT and --file, too
    #[arg(long, value_name = "ROWS.jsonl|.txt")]
    file: Option<PathBuf>,
}

/// The options of all.
#[derive(Debug, clap::Args)]
pub(super) struct Encoding<I: clap::Args = Texts> {
    /// Model: a folder with config.json and safetensors, or a GGUF file
    model: PathBuf,
    #[command(flatten)]
    pub(super) input: I,
    /// Print a JSON object for each text
    #[arg(long)]
    pub(super) json: bool,
    /// Leave out the end of a text that is too long for the model, which is otherwise an error
    #[arg(long)]
    truncate: bool,
    /// Threads to compute with; by default one per physical core that may be used
    #[arg(long, short, value_name = "T")]
    threads: Option<usize>,
    #[command(flatten)]
    arithmetic: Arithmetic,
    #[command(flatten)]
    packs: Packs,
    #[command(flatten)]
    hub: Hub,
    #[command(flatten)]
    notes: Notes,
}

impl<I: clap::Args> Encoding<I> {
    /// Loads the model.
    pub(super) fn load(&self) -> Result<Model, Failure> {
        let options = LoadOptions::new()
            .threads(self.threads)
            .isa(self.arithmetic.isa)
            .exact(self.arithmetic.exact)
            .int8(self.arithmetic.int8)
            .packs(self.packs.cache());
        let model = Model::open(self.hub.obtain(&self.model, self.notes)?, &options)?;
        packs::tell(&model, self.notes);
        Ok(model)
    }

    /// Options with what is left out of long texts.
    pub(super) fn options(&self, options: EmbedOptions) -> EmbedOptions {
        options.truncate(self.truncate)
    }
}

impl Encoding {
    /// Whether texts come in rows.
    pub(super) fn has_rows(&self) -> bool {
        self.input.text.is_none()
    }

    /// Goes over all texts in order, some at a time, and prints each one's result.
    pub(super) fn each<'m, T>(
        &self,
        model: &'m Model,
        options: EmbedOptions,
        out: &mut dyn Write,
        compute: impl Fn(&mut Embedder<'m>, &[Row]) -> Result<Vec<T>, Error>,
        print: impl Fn(&mut dyn Write, T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut embedder = model.embedder(&self.options(options))?;
        let mut rows = match &self.input.text {
            Some(text) => Rows::of_text(text),
            None => Rows::open(self.input.file.as_deref())?,
        };
        loop {
            let batch = rows.take(BATCH)?;
            if batch.is_empty() {
                return Ok(());
            }
            let results = compute(&mut embedder, &batch).map_err(|error| match error {
                Error::TextTooLong { number, tokens, context } => {
                    let place = batch.get(number).map_or(String::new(), |row| rows.place(row));
                    let message = format!("{place}{tokens} tokens, but the model takes {context}");
                    Failure::new(message).hint("shorten the text, or leave out its end with --truncate")
                }
                other => other.into(),
            })?;
            for result in results {
                print(out, result)?;
            }
            // Whoever reads along need not wait for the last row.
            out.flush()?;
        }
    }
}
