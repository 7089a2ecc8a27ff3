//! Arguments of `leyden eval`.

use std::path::{Path, PathBuf};

use leyden::{KvType, LoadOptions, Model};
use leyden_eval::Task;
use leyden_rows::Format;

use crate::cli::failure::Failure;
use crate::cli::notes::Notes;
use crate::cli::rows::OutputOption;
use crate::cli::{model_file, run};

/// Measures how good a model is: how well it predicts a text, how far it is from a reference, and how it answers questions.
/// The figures are those of llama-perplexity and lm-evaluation-harness, by the same formulas.
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
    pub(super) model: PathBuf,
    /// Perplexity on a text: of windows of --ctx tokens the second half is predicted, every token from all before it
    #[arg(long, value_name = "FILE", group = "what")]
    pub(super) perplexity: Option<PathBuf>,
    /// KL divergence from --reference: on the text of --perplexity, or on the one that a file of log probabilities is of
    #[arg(long, group = "what", requires = "reference")]
    pub(super) kld: bool,
    /// Reference to compare with: a model, or a file of --save-logits or llama-perplexity --kl-divergence-base
    #[arg(long, value_name = "MODEL")]
    pub(super) reference: Option<PathBuf>,
    /// Write the log probabilities on the text of --perplexity, for --reference and llama-perplexity
    #[arg(
        long,
        value_name = "FILE",
        visible_alias = "kl-divergence-base",
        requires = "perplexity",
        conflicts_with = "kld"
    )]
    pub(super) save_logits: Option<PathBuf>,
    /// Answer the questions of tasks, scored as lm-evaluation-harness does: hellaswag, arc_easy, arc_challenge, piqa,
    /// winogrande, boolq, openbookqa, mmlu, gsm8k; each with the file of its published data, or with --task-data
    #[arg(
        long,
        value_name = "NAME[=FILE]",
        value_delimiter = ',',
        value_parser = named,
        group = "what",
        conflicts_with_all = ["perplexity", "kld"]
    )]
    pub(super) task: Vec<Named>,
    /// Folder with NAME.jsonl, .json, .csv, .tsv or .parquet for each task
    #[arg(long, value_name = "FOLDER", requires = "task")]
    pub(super) task_data: Option<PathBuf>,
    /// Answer questions of your own: rows of .jsonl, .json, .csv, .tsv or .parquet, with `prompt` and the right answer
    /// (docs/eval.md)
    #[arg(long, value_name = "FILE", group = "what", conflicts_with_all = ["perplexity", "kld"])]
    pub(super) data: Vec<PathBuf>,
    /// Examples before each question, the first of --shots-data; by default 5 for gsm8k and none for the others
    #[arg(long, value_name = "N", visible_alias = "num-fewshot")]
    pub(super) shots: Option<usize>,
    /// File of examples, in the form of the task's data
    #[arg(long, value_name = "FILE", requires = "task")]
    pub(super) shots_data: Option<PathBuf>,
    /// Ask the first so many questions of each task or file
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Column of --data with the text or prompt, where its name is neither `text` nor `prompt`
    #[arg(long, value_name = "NAME", requires = "data")]
    pub(super) column: Option<String>,
    /// Format of the files of questions, where their endings do not tell it: csv, tsv, json, jsonl or parquet
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    #[command(flatten)]
    pub(super) output: OutputOption,
    /// Keep the outcomes so far in this file, and go on from there; by default --output has one beside it while it is unfinished
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// Compare each task's first metric, or with --kld the share of places with the same best token, with this share, such as
    /// 0.55: exit code 1 below it, and 3 where its 95 % interval is on both sides of it
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(super) floor: Option<f64>,
    /// Write a page with tables and plots that needs nothing else
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,
    /// Tokens of a window [default: 512]; a file of --save-logits has its own
    #[arg(short = 'c', long = "ctx", visible_alias = "ctx-size", value_name = "N")]
    pub(super) context: Option<usize>,
    /// Stop after so many windows; by default the whole text
    #[arg(long, value_name = "N")]
    pub(super) chunks: Option<usize>,
    /// Seed of the resampling of intervals
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,
    /// Threads; by default one per physical core that may be used
    #[arg(short = 't', long, value_name = "N")]
    pub(super) threads: Option<usize>,
    /// Storage of keys and values: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = run::kv_type)]
    pub(super) kv_type: KvType,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// A task and the file of its data.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) task: Task,
    pub(super) file: Option<PathBuf>,
}

/// NAME or NAME=FILE.
pub(super) fn named(text: &str) -> Result<Named, String> {
    let (name, file) = text.split_once('=').map_or((text, None), |(name, file)| (name, Some(file)));
    let known = || Task::all().map(|task| task.name()).collect::<Vec<_>>().join(", ");
    let task = Task::from_name(name).ok_or_else(|| format!("known tasks: {}", known()))?;
    Ok(Named { task, file: file.map(PathBuf::from) })
}

/// A share between 0 and 1.
fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "want a number such as 0.55".to_owned())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("want a number between 0 and 1".to_owned()) }
}

impl Args {
    /// Loads a model, found by its name or path.
    pub(super) fn load(&self, model: &Path) -> Result<Model, Failure> {
        let path = model_file::locate(model)?;
        run::load(&path, &LoadOptions::new().threads(self.threads), Notes::default())
    }
}
