//! `leyden eval`: how good a model is.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use leyden::{BatchOptions, KvType, LoadOptions, Model};
use serde_json::json;

use super::failure::Failure;
use super::notes::Notes;
use super::{model_file, progress, run};

/// Windows that are computed together.
const TOGETHER: usize = 8;

/// Measures a model's perplexity on a text, as llama-perplexity does: the text is cut into windows, of each of which the second
/// half is predicted, every token from all before it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The model: a file, a folder, the name of a pulled model or its reference
    model: PathBuf,
    /// Text to predict
    #[arg(long, value_name = "FILE")]
    perplexity: PathBuf,
    /// Tokens of a window
    #[arg(short = 'c', long = "ctx", visible_alias = "ctx-size", value_name = "N", default_value_t = 512)]
    context: usize,
    /// Stop after so many windows; by default the whole text
    #[arg(long, value_name = "N")]
    chunks: Option<usize>,
    /// Threads; by default one per physical core that may be used
    #[arg(short = 't', long, value_name = "N")]
    threads: Option<usize>,
    /// How keys and values are stored: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = run::kv_type)]
    kv_type: KvType,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Negative log likelihoods, summed up.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    tokens: usize,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, logprob: f32) {
        let x = -f64::from(logprob);
        (self.tokens, self.sum, self.squares) = (self.tokens + 1, self.sum + x, self.squares + x * x);
    }

    /// Perplexity and its standard error, as llama-perplexity has them.
    fn perplexity(&self) -> (f64, f64) {
        let n = self.tokens as f64;
        let mean = self.sum / n;
        let variance = (self.squares / n - mean * mean).max(0.0);
        let perplexity = mean.exp();
        (perplexity, perplexity * (variance / (n - 1.0).max(1.0)).sqrt())
    }
}

/// Measures and prints.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    if args.context < 4 {
        return Err(Failure::usage(format!("--ctx {}: a window has at least 4 tokens", args.context)));
    }
    let file = args.perplexity.display();
    let text = fs::read_to_string(&args.perplexity).map_err(|error| {
        Failure::new(format!("{file}: cannot read: {error}")).hint("want a text in UTF-8")
    })?;
    let path = model_file::locate(&args.model)?;
    let mut options = LoadOptions::default();
    options.threads = args.threads;
    let model = run::load(&path, &options, Notes::default())?;
    let tokens = model.tokenize(&text)?;
    // Each window begins as a text does.
    let begin = model.tokenize("")?.first().copied();
    let mut windows: Vec<Vec<u32>> = tokens.chunks_exact(args.context).map(<[u32]>::to_vec).collect();
    windows.truncate(args.chunks.unwrap_or(usize::MAX));
    if windows.is_empty() {
        let message = format!("{file}: {} tokens do not fill a window of {}", tokens.len(), args.context);
        return Err(Failure::new(message).hint("give a longer text, or a smaller --ctx"));
    }
    if let Some(begin) = begin {
        windows.iter_mut().for_each(|window| window[0] = begin);
    }
    let start = Instant::now();
    let sums = measure(&model, args, &windows)?;
    let seconds = start.elapsed().as_secs_f64();
    let (perplexity, error) = sums.perplexity();
    let rate = (windows.len() * args.context) as f64 / seconds;
    if args.json {
        let document = json!({
            "model": path.display().to_string(),
            "file": file.to_string(),
            "ctx": args.context,
            "windows": windows.len(),
            "tokens": sums.tokens,
            "perplexity": perplexity,
            "standard_error": error,
            "seconds": seconds,
            "tokens_per_second": rate,
        });
        serde_json::to_writer(&mut *out, &document)?;
        writeln!(out)?;
    } else {
        writeln!(out, "perplexity {perplexity:.4} ± {error:.4}")?;
        writeln!(
            out,
            "{} of {} tokens, {} scored, {seconds:.1} s, {rate:.0} t/s",
            super::text::plural(windows.len(), "window"),
            args.context,
            sums.tokens
        )?;
    }
    Ok(())
}

/// Scores the second half of every window.
fn measure(model: &Model, args: &Args, windows: &[Vec<u32>]) -> Result<Sums, Failure> {
    let options = BatchOptions::new()
        .context(args.context)
        .cache_tokens(TOGETHER * args.context.next_multiple_of(64))
        .kv_type(args.kv_type);
    let mut batch = model.batch(&options)?;
    let bar = progress::bar("{msg} {wide_bar} {pos}/{len} {eta} left");
    if let Some(bar) = &bar {
        bar.set_length(windows.len() as u64);
    }
    let mut sums = Sums::default();
    for group in windows.chunks(TOGETHER) {
        for scores in batch.score_from(group, args.context / 2, 0)? {
            scores.iter().for_each(|score| sums.add(score.logprob));
        }
        if let Some(bar) = &bar {
            bar.inc(group.len() as u64);
            bar.set_message(format!("perplexity {:.2}", sums.perplexity().0));
        }
    }
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    Ok(sums)
}
