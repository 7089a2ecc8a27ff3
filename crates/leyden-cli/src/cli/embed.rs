//! `leyden embed`: vectors of texts.

use super::encoding::Encoding;
use super::failure::Failure;
use super::rows::{self, Shown};
use leyden::{EmbedOptions, Pooling};
use leyden_rows::Output;
use std::io::Write;

/// Prints one vector per line, as numbers separated by spaces. Vectors are normalised to length 1. Pooling and other
/// settings come from the model's files. The vector of a text does not depend on the other texts.
///
/// Output rows have the fields of the input row. A row that cannot be computed gets `error` with the reason, and the
/// exit code is then 1. With --output, the same command continues an interrupted run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    encoding: Encoding,
    /// Pooling of hidden states: mean (of all tokens), cls (the first token) or last; by default as the model
    /// specifies, else mean
    #[arg(long, value_name = "POOLING")]
    pooling: Option<Pooling>,
    /// Number of dimensions: keeps the first N values of each vector; by default all
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    dimensions: Option<usize>,
    /// Name of the model's prompt to put before each text, such as query or document; by default the model's default
    /// prompt
    #[arg(long, value_name = "NAME")]
    prompt_name: Option<String>,
    /// Print sparse vectors: nonzero token weights as ID:WEIGHT, or with --json as objects with index and value
    #[arg(long, conflicts_with_all = ["pooling", "dimensions", "no_normalize"])]
    sparse: bool,
    /// Print a vector for each token, one per line with an empty line after each text, or with --json as
    /// token_embeddings: from the model's head for late interaction (ColBERT), or else the hidden states
    #[arg(long, conflicts_with_all = ["pooling", "dimensions", "sparse", "no_normalize", "prompt_name"])]
    tokens: bool,
    /// Do not normalise vectors to length 1
    #[arg(long)]
    no_normalize: bool,
}

/// Vector of a text.
pub(super) struct Vector(pub(super) Vec<f32>);

impl Shown for Vector {
    const NAMES: &'static [&'static str] = &["embedding"];

    fn lines(&self) -> String {
        rows::plain_numbers(&self.0) + "\n"
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![("embedding", rows::numbers(&self.0))]
    }
}

/// Vectors of the tokens of a text, `[n_tokens][dimensions]`.
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

/// Sparse vector of a text: token ids and weights.
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

/// Computes vectors and prints them.
pub(super) fn execute(args: &Args, out: &mut (dyn Write + Send)) -> Result<(), Failure> {
    let Args { pooling, dimensions, prompt_name, sparse, tokens, no_normalize, encoding } = args;
    if let Some((path, Output::Npy)) = encoding.output_file()?
        && (*sparse || *tokens)
    {
        let what = "a .npy file has one dense vector for each text, so it cannot have --sparse or --tokens";
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
