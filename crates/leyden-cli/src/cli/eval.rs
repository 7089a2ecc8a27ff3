//! `leyden eval`: how good a model is.

mod language;
mod tasks;
mod words;

use std::fs;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use leyden::{KvType, LoadOptions, Model};
use leyden_eval::Progress;
use leyden_rows::Format;

use super::failure::Failure;
use super::notes::Notes;
use super::rows::OutputOption;
use super::{inputs, model_file, progress, run};

/// Measures how good a model is: how well it predicts a text, how far it is from a reference, and how it answers questions.
/// What is measured is also what llama-perplexity and lm-evaluation-harness measure, with their formulas.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("what").required(true).multiple(true),
    override_usage = "leyden eval [OPTIONS] <MODEL> --perplexity <FILE>\n       \
    leyden eval [OPTIONS] <MODEL> --kld --reference <MODEL|FILE>\n       \
    leyden eval [OPTIONS] <MODEL> --task <NAME[=FILE]>\n       \
    leyden eval [OPTIONS] <MODEL> --data <FILE>"
)]
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
    /// Answer the questions of tasks, scored as lm-evaluation-harness does: hellaswag, arc_easy, arc_challenge, piqa,
    /// winogrande, boolq, openbookqa, mmlu, gsm8k; each with the file of its published data, or with --task-data
    #[arg(
        long,
        value_name = "NAME[=FILE]",
        value_delimiter = ',',
        value_parser = tasks::named,
        group = "what",
        conflicts_with_all = ["perplexity", "kld"]
    )]
    task: Vec<tasks::Named>,
    /// Folder with NAME.jsonl, .json, .csv, .tsv or .parquet for each task
    #[arg(long, value_name = "FOLDER", requires = "task")]
    task_data: Option<PathBuf>,
    /// Answer questions of your own: rows of .jsonl, .json, .csv, .tsv or .parquet, with `prompt` and the right answer
    /// (docs/eval.md)
    #[arg(long, value_name = "FILE", group = "what", conflicts_with_all = ["perplexity", "kld"])]
    data: Vec<PathBuf>,
    /// Examples before each question, the first of --shots-data; by default 5 for gsm8k and none for the others
    #[arg(long, value_name = "N", visible_alias = "num-fewshot")]
    shots: Option<usize>,
    /// File of examples, in the form of the task's data
    #[arg(long, value_name = "FILE", requires = "task")]
    shots_data: Option<PathBuf>,
    /// Ask the first so many questions of each task or file
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Column of --data with the text or prompt, where its name is neither `text` nor `prompt`
    #[arg(long, value_name = "NAME", requires = "data")]
    column: Option<String>,
    /// Format of the files of questions, where their endings do not tell it: csv, tsv, json, jsonl or parquet
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    #[command(flatten)]
    output: OutputOption,
    /// Keep the outcomes so far in this file, and go on from there; by default --output has one beside it while it is unfinished
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Compare each task's first metric, or with --kld the share of places with the same best token, with this share, such as
    /// 0.55: exit code 1 below it, and 3 where its 95 % interval is on both sides of it
    #[arg(long, value_name = "SHARE", value_parser = share)]
    floor: Option<f64>,
    /// Write a page with tables and plots that needs nothing else
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Tokens of a window [default: 512]; a file of --save-logits has its own
    #[arg(short = 'c', long = "ctx", visible_alias = "ctx-size", value_name = "N")]
    context: Option<usize>,
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
    let mut err = io::stderr();
    let out = inputs::report_beside(args.report.as_deref().or(args.save_logits.as_deref()), out, &mut err);
    for output in [&args.report, &args.save_logits].into_iter().flatten() {
        inputs::can_be_written(output)?;
    }
    if args.task.is_empty() && args.data.is_empty() {
        language::execute(args, out)
    } else {
        tasks::execute(args, out)
    }
}

/// A share between 0 and 1.
fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "want a number such as 0.55".to_owned())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("want a number between 0 and 1".to_owned()) }
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
    pub(in crate::cli) fn is_set(&self) -> bool {
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
