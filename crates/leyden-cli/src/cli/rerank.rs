//! `leyden rerank`: documents in the order in which they answer a question.

use super::encoding::Encoding;
use super::failure::Failure;
use super::rows::{Row, Rows};
use leyden::EmbedOptions;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// The most documents of one question.
const MOST: usize = 1 << 20;

/// Prints the documents of a file, each on a line behind its score and its place in the file, from 0: the best first. Scores
/// go from 0 to 1. A document that is too long for the model is read in parts, and the best part counts. The model must be one
/// that ranks: a cross-encoder with one label, or a GGUF file of a reranker.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    encoding: Encoding<Documents>,
}

/// What is read.
#[derive(Debug, clap::Args)]
pub(crate) struct Documents {
    /// The question
    query: String,
    /// Read documents from this file, one on a line; of a name that ends in .jsonl a line is an object with the field `text`,
    /// or a text in quotes. - is standard input, which is read without --file, too
    #[arg(long, value_name = "DOCS.jsonl|.txt")]
    file: Option<PathBuf>,
    /// How many documents are printed, the best; by default all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), allow_negative_numbers = true)]
    top: Option<u32>,
}

/// Prints documents.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let Documents { query, file, top } = &args.encoding.input;
    let model = args.encoding.load()?;
    let documents = Rows::open(file.as_deref())?.all(MOST)?;
    let mut embedder = model.embedder(&args.encoding.options(EmbedOptions::default()))?;
    let scores = embedder.rerank(query, &documents)?;
    let mut ranked: Vec<(usize, f32, &Row)> =
        scores.into_iter().zip(&documents).enumerate().map(|(i, (score, row))| (i, score, row)).collect();
    // Of equal scores the first document comes first.
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    for (index, score, row) in ranked.into_iter().take(top.map_or(usize::MAX, |n| n as usize)) {
        if args.encoding.json {
            serde_json::to_writer(&mut *out, &json!({ "index": index, "score": score, "text": row.text }))?;
            writeln!(out)?;
        } else {
            writeln!(out, "{score:.6}\t{index}\t{}", row.text)?;
        }
    }
    Ok(())
}
