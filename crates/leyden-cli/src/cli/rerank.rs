//! `leyden rerank`: documents, sorted by relevance to a query.

use super::encoding::Encoding;
use super::failure::Failure;
use super::inputs;
use super::rows::{self, RowOptions, Rows, Shown, Sink};
use leyden::EmbedOptions;
use std::io::Write;
use std::path::PathBuf;

/// Prints one line per document, the best first: score from 0 to 1, index in the input (from 0), and text. A document
/// that is too long for the model is read in parts, and gets the best part's score. The model must be a reranker: a
/// cross-encoder with one label, or a GGUF file of a reranker.
///
/// Output rows have the fields of the input row. A row that cannot be computed gets `error` with the reason, and the
/// exit code is then 1. With --output, the same command continues an interrupted run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    encoding: Encoding<Documents>,
}

/// Query and documents.
#[derive(Debug, clap::Args)]
pub(crate) struct Documents {
    /// Query
    query: String,
    /// Documents in quotes; without DOCUMENT, rows of --file or lines of standard input
    #[arg(conflicts_with_all = ["file", "column", "format"])]
    document: Vec<String>,
    #[command(flatten)]
    rows: RowOptions,
    /// Number of documents to print; by default all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    top: Option<u32>,
}

/// Score of a document.
struct Score {
    score: f32,
    /// Index of the document in the input, from 0.
    index: u64,
    text: String,
}

impl Shown for Score {
    const NAMES: &'static [&'static str] = &["index", "score"];

    fn lines(&self) -> String {
        let text: String = self.text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("{:.6}\t{}\t{text}\n", self.score, self.index)
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![("index", self.index.to_string()), ("score", rows::number(self.score))]
    }

    fn key(&self) -> f32 {
        self.score
    }

    fn set_index(&mut self, index: u64) {
        self.index = index;
    }
}

/// Sorts the documents and prints them.
pub(super) fn execute(args: &Args, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let encoding = &args.encoding;
    let Documents { query, document, rows: options, top } = &encoding.input;
    let model_files = inputs::of_model(&encoding.model);
    let inputs = model_files.iter().map(PathBuf::as_path).chain(options.file.as_deref());
    let file = encoding.output.file(inputs)?;
    encoding.check_json(file)?;
    let (model, identity) = encoding.load()?;
    let mut embedder = model.embedder(&encoding.options(EmbedOptions::default()))?;
    let rows = match &document[..] {
        [] => Rows::open(options)?,
        documents => Rows::of_texts(documents),
    };
    let run = format!("{} rerank {query:?} {:?} {identity}", env!("CARGO_PKG_VERSION"), options.column);
    let top = top.map(|n| n as usize);
    let mut sink = match file {
        Some((path, output)) => Sink::sorted_file(path, output, &run.replace('\n', " "), top)?,
        None => Sink::sorted(out, encoding.json, top)?,
    };
    encoding.go_over(rows, &mut sink, |texts: &[&str]| {
        let scores = embedder.rerank(query, texts)?;
        let one = |(score, text): (f32, &&str)| Score { score, index: 0, text: (*text).to_owned() };
        Ok(scores.into_iter().zip(texts).map(one).collect())
    })
}
