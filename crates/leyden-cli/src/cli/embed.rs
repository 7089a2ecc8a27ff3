//! `leyden embed`: vectors of texts.

use super::encoding::Encoding;
use super::failure::Failure;
use super::rows::{self, Shown};
use leyden::{EmbedOptions, Pooling};
use leyden_rows::Output;
use std::io::Write;

/// Prints the numbers of one vector on each line, with blanks between them, in the order of the texts. Vectors have length 1.
/// The model's own files say how vectors are made. Texts are computed many at a time, and the results do not depend on which.
///
/// Rows of a file keep their fields in objects and tables. A row that cannot be computed gets `error` with the reason, and the
/// exit code is then 1. With --output a run that was interrupted goes on where it was.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    encoding: Encoding,
    /// Tokens of a vector: mean (of all tokens), cls (the first) or last; by default as the model says, and mean for one that
    /// says nothing
    #[arg(long, value_name = "POOLING")]
    pooling: Option<Pooling>,
    /// Numbers of each vector, the first; by default all
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    dimensions: Option<usize>,
    /// The name of the prompt that is put before texts, such as query or document; by default the model's own default
    #[arg(long, value_name = "NAME")]
    prompt_name: Option<String>,
    /// Print sparse vectors: the tokens that have a number, as ID:NUMBER, or with --json as objects with index and value
    #[arg(long, conflicts_with_all = ["pooling", "dimensions", "no_normalize"])]
    sparse: bool,
    /// Print a vector for each token of a text, one on each line and an empty line behind them, or with --json as token_embeddings:
    /// those of the model's head for late interaction, or the tokens' states where it has none
    #[arg(long, conflicts_with_all = ["pooling", "dimensions", "sparse", "no_normalize", "prompt_name"])]
    tokens: bool,
    /// Print vectors as the model has them, whatever their length
    #[arg(long)]
    no_normalize: bool,
}

/// A vector of a text.
struct Vector(Vec<f32>);

impl Shown for Vector {
    const NAMES: &'static [&'static str] = &["embedding"];

    fn lines(&self) -> String {
        rows::plain_numbers(&self.0) + "\n"
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![("embedding", rows::numbers(&self.0))]
    }
}

/// Vectors of the tokens of a text, `[tokens][dimensions]`.
struct TokenVectors(Vec<Vec<f32>>);

impl Shown for TokenVectors {
    const NAMES: &'static [&'static str] = &["token_embeddings"];

    fn lines(&self) -> String {
        let lines: Vec<String> = self.0.iter().map(|vector| rows::plain_numbers(vector) + "\n").collect();
        lines.concat() + "\n"
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let vectors: Vec<String> = self.0.iter().map(|vector| rows::numbers(vector)).collect();
        vec![("token_embeddings", format!("[{}]", vectors.join(",")))]
    }

    fn error_lines(reason: &str) -> String {
        Vector::error_lines(reason) + "\n"
    }
}

/// Tokens of a text with their numbers.
struct Sparse(Vec<(u32, f32)>);

impl Shown for Sparse {
    const NAMES: &'static [&'static str] = &["sparse"];

    fn lines(&self) -> String {
        let numbers: Vec<String> = self.0.iter().map(|(index, value)| format!("{index}:{value}")).collect();
        numbers.join(" ") + "\n"
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let one =
            |(index, value): &(u32, f32)| format!("{{\"index\":{index},\"value\":{}}}", rows::number(*value));
        let all: Vec<String> = self.0.iter().map(one).collect();
        vec![("sparse", format!("[{}]", all.join(",")))]
    }
}

/// Prints vectors.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let Args { pooling, dimensions, prompt_name, sparse, tokens, no_normalize, encoding } = args;
    if let Some((path, Output::Npy)) = encoding.output_file()?
        && (*sparse || *tokens)
    {
        let what = "one vector for each text fits .npy, neither --sparse nor --tokens";
        return Err(Failure::usage(format!("{}: {what}", path.display())).hint("name an output in .jsonl"));
    }
    let run = format!("embed {pooling:?} {dimensions:?} {prompt_name:?} {sparse} {tokens} {no_normalize}");
    let model = encoding.load()?;
    let mut options = EmbedOptions::default().normalize(!no_normalize);
    options.pooling = *pooling;
    options.dimensions = *dimensions;
    options.prompt_name.clone_from(prompt_name);
    if *sparse {
        return encoding.each(&model, options, &run, out, |embedder, texts| {
            Ok(embedder.sparse(texts)?.into_iter().map(Sparse).collect())
        });
    }
    if *tokens {
        return encoding.each(&model, options, &run, out, |embedder, texts| {
            Ok(embedder.token_vectors(texts)?.into_iter().map(TokenVectors).collect())
        });
    }
    encoding.each(&model, options, &run, out, |embedder, texts| {
        Ok(embedder.embed(texts)?.into_iter().map(Vector).collect())
    })
}
