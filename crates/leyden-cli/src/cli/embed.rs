//! `leyden embed`: vectors of texts.

use super::encoding::Encoding;
use super::failure::Failure;
use leyden::{EmbedOptions, Pooling};
use serde_json::json;
use std::io::Write;

/// Prints the numbers of one vector on each line, with blanks between them, in the order of the texts. Vectors have length 1.
/// TEXT, or lines of a file, become vectors as the model says; texts are computed many at a time, and the results do not
/// depend on which.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    encoding: Encoding,
    /// What vectors are made of: mean (of all tokens), cls (the first) or last; by default what the model says, and mean for
    /// one that says nothing
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

/// Prints vectors.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let model = args.encoding.load()?;
    let mut options = EmbedOptions::default().normalize(!args.no_normalize);
    options.pooling = args.pooling;
    options.dimensions = args.dimensions;
    options.prompt_name.clone_from(&args.prompt_name);
    let print = |out: &mut dyn Write, vector: Vec<f32>| {
        if args.encoding.json {
            serde_json::to_writer(&mut *out, &json!({ "embedding": vector }))?;
            return Ok(writeln!(out)?);
        }
        print_numbers(out, &vector)
    };
    if args.sparse {
        return args.encoding.each(
            &model,
            options,
            out,
            |embedder, rows| embedder.sparse(rows),
            |out, numbers| print_sparse(out, &numbers, args.encoding.json),
        );
    }
    if args.tokens {
        return args.encoding.each(
            &model,
            options,
            out,
            |embedder, rows| embedder.token_vectors(rows),
            |out, vectors| print_tokens(out, &vectors, args.encoding.json),
        );
    }
    args.encoding.each(&model, options, out, |embedder, rows| embedder.embed(rows), print)
}

fn print_numbers(out: &mut dyn Write, numbers: &[f32]) -> Result<(), Failure> {
    for (i, x) in numbers.iter().enumerate() {
        write!(out, "{}{x}", if i == 0 { "" } else { " " })?;
    }
    Ok(writeln!(out)?)
}

fn print_tokens(out: &mut dyn Write, vectors: &[Vec<f32>], as_json: bool) -> Result<(), Failure> {
    if as_json {
        serde_json::to_writer(&mut *out, &json!({ "token_embeddings": vectors }))?;
    } else {
        vectors.iter().try_for_each(|vector| print_numbers(out, vector))?;
    }
    Ok(writeln!(out)?)
}

fn print_sparse(out: &mut dyn Write, numbers: &[(u32, f32)], json: bool) -> Result<(), Failure> {
    if json {
        let one = |(index, value): &(u32, f32)| json!({ "index": index, "value": value });
        let all: Vec<_> = numbers.iter().map(one).collect();
        serde_json::to_writer(&mut *out, &json!({ "sparse": all }))?;
    } else {
        for (i, (index, value)) in numbers.iter().enumerate() {
            write!(out, "{}{index}:{value}", if i == 0 { "" } else { " " })?;
        }
    }
    Ok(writeln!(out)?)
}
