//! `leyden eval`: how good a model is.

mod language;

use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use leyden::{KvType, LoadOptions, Model};
use leyden_eval::Progress;

use super::failure::Failure;
use super::notes::Notes;
use super::{model_file, progress, run};

/// Measures how good a model is: how well it predicts a text, how far it is from a reference, and how it answers questions.
/// What is measured is also what llama-perplexity and lm-evaluation-harness measure, with their formulas.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub(crate) struct Args {
    /// The model: a file, a folder, the name of a pulled model or its reference
    model: PathBuf,
    /// Perplexity on a text: of windows of --ctx tokens the second half is predicted, every token from all before it
    #[arg(long, value_name = "FILE", group = "what")]
    perplexity: Option<PathBuf>,
    /// KL divergence from --reference: on the text of --perplexity, or on the one that a file of log probabilities is of
    #[arg(long, group = "what", requires = "reference")]
    kld: bool,
    /// What to compare with: a model, or a file of --save-logits or llama-perplexity --kl-divergence-base
    #[arg(long, value_name = "MODEL")]
    reference: Option<PathBuf>,
    /// Write the log probabilities on the text of --perplexity, for --reference and llama-perplexity
    #[arg(
        long,
        value_name = "FILE",
        visible_alias = "kl-divergence-base",
        requires = "perplexity",
        conflicts_with = "kld"
    )]
    save_logits: Option<PathBuf>,
    /// Tokens of a window
    #[arg(short = 'c', long = "ctx", visible_alias = "ctx-size", value_name = "N", default_value_t = 512)]
    context: usize,
    /// Stop after so many windows; by default the whole text
    #[arg(long, value_name = "N")]
    chunks: Option<usize>,
    /// What intervals are drawn from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
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

/// Measures and prints.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    language::execute(args, out)
}

impl Args {
    fn load(&self, model: &Path) -> Result<Model, Failure> {
        let path = model_file::locate(model)?;
        run::load(&path, &LoadOptions::new().threads(self.threads), Notes::default())
    }
}

/// A text in UTF-8.
pub(super) fn read_text(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| {
        Failure::new(format!("{}: cannot read: {error}", path.display())).hint("want a text in UTF-8")
    })
}

/// Whether the user said stop.
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Takes over Ctrl-C.
pub(super) fn interrupt() -> Result<Interrupt, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || flag.store(true, Ordering::SeqCst))
        .map_err(|error| Failure::new(format!("cannot take over Ctrl-C: {error}")))?;
    Ok(Interrupt(stop))
}

/// Shows how far it is, and hears Ctrl-C.
struct Watcher {
    bar: Option<ProgressBar>,
    stop: Interrupt,
}

impl Watcher {
    fn new() -> Result<Watcher, Failure> {
        Ok(Watcher { bar: progress::bar("{msg} {wide_bar} {pos}/{len} {eta} left"), stop: interrupt()? })
    }

    fn hear(&self, progress: &Progress<'_>) -> ControlFlow<()> {
        if let Some(bar) = &self.bar {
            bar.set_length(progress.all as u64);
            bar.set_position(progress.done as u64);
            bar.set_message(progress.so_far.to_owned());
            if progress.done == progress.all {
                bar.finish_and_clear();
            }
        }
        if self.stop.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
