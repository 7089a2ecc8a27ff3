//! Arguments of `leyden eval`.

use std::path::{Path, PathBuf};

use leyden::{KvType, LoadOptions, Model};
use leyden_eval::Task;
use leyden_rows::Format;

use crate::cli::failure::Failure;
use crate::cli::notes::Notes;
use crate::cli::rows::OutputOption;
use crate::cli::{model_file, run};

/// The figures have the definitions of llama-perplexity and lm-evaluation-harness. docs/eval.md describes tasks and
/// files.
#[derive(Debug, clap::Args)]
#[command(
    group = clap::ArgGroup::new("what").required(true).multiple(true),
    override_usage = "leyden eval [OPTIONS] <MODEL> --perplexity <FILE>\n       \
    leyden eval [OPTIONS] <MODEL> --kld --reference <MODEL|FILE>\n       \
    leyden eval [OPTIONS] <MODEL> --task <NAME[=FILE]>\n       \
    leyden eval [OPTIONS] <MODEL> --data <FILE>"
)]
pub(crate) struct Args {
    /// Model: a name, file or folder
    pub(super) model: PathBuf,
    /// Measure perplexity on a text: the tokens in the second half of each window of --ctx tokens are scored
    #[arg(long, value_name = "FILE", group = "what")]
    pub(super) perplexity: Option<PathBuf>,
    /// Measure KL divergence from --reference, on the text of --perplexity or of the reference's file
    #[arg(long, group = "what", requires = "reference")]
    pub(super) kld: bool,
    /// Reference: a model, or a file of --save-logits or of llama-perplexity --kl-divergence-base
    #[arg(long, value_name = "MODEL")]
    pub(super) reference: Option<PathBuf>,
    /// Write log probabilities on the text of --perplexity to a file, for --reference and llama-perplexity
    #[arg(
        long,
        value_name = "FILE",
        visible_alias = "kl-divergence-base",
        requires = "perplexity",
        conflicts_with = "kld"
    )]
    pub(super) save_logits: Option<PathBuf>,
    /// Run tasks, scored as in lm-evaluation-harness: hellaswag, arc_easy, arc_challenge, piqa, winogrande, boolq,
    /// openbookqa, mmlu, gsm8k; the published data come from FILE or --task-data
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
    /// Run your own questions: rows of .jsonl, .json, .csv, .tsv or .parquet, with `prompt` and the right answer
    /// (docs/eval.md)
    #[arg(long, value_name = "FILE", group = "what", conflicts_with_all = ["perplexity", "kld"])]
    pub(super) data: Vec<PathBuf>,
    /// Number of examples before each question, from --shots-data; by default 5 for gsm8k and 0 for other tasks
    #[arg(long, value_name = "N", visible_alias = "num-fewshot")]
    pub(super) shots: Option<usize>,
    /// File of examples, in the format of the task's data
    #[arg(long, value_name = "FILE", requires = "task")]
    pub(super) shots_data: Option<PathBuf>,
    /// Use only the first N questions of each task or file
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Column of --data with the text or prompt; by default `text` or `prompt`
    #[arg(long, value_name = "NAME", requires = "data")]
    pub(super) column: Option<String>,
    /// Format of the question files, instead of that of their endings: csv, tsv, json, jsonl or parquet
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    #[command(flatten)]
    pub(super) output: OutputOption,
    /// Save outcomes in this file, and continue from it; by default an unfinished --output has such a file beside it
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// Minimum, such as 0.55, of each task's first metric, or with --kld of the share of positions with the same best
    /// token: exit code 1 if the 95 % interval is below it, 3 if the interval contains it
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(super) floor: Option<f64>,
    /// Write a self-contained page with tables and plots
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,
    /// Number of tokens in a window [default: 512]; files of --save-logits have their own
    #[arg(short = 'c', long = "ctx", visible_alias = "ctx-size", value_name = "N")]
    pub(super) context: Option<usize>,
    /// Maximum number of windows; by default the whole text
    #[arg(long, value_name = "N")]
    pub(super) chunks: Option<usize>,
    /// Seed of the bootstrap of intervals
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,
    /// Number of threads; by default one per available physical core
    #[arg(short = 't', long, value_name = "N")]
    pub(super) threads: Option<usize>,
    /// Type of the KV cache: f32, f16 or q8_0
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

/// Parses NAME or NAME=FILE.
pub(super) fn named(text: &str) -> Result<Named, String> {
    let (name, file) = text.split_once('=').map_or((text, None), |(name, file)| (name, Some(file)));
    let known = || Task::all().map(|task| task.name()).collect::<Vec<_>>().join(", ");
    let task = Task::from_name(name).ok_or_else(|| format!("known tasks: {}", known()))?;
    Ok(Named { task, file: file.map(PathBuf::from) })
}

/// Parses a share between 0 and 1.
fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| "must be a number such as 0.55".to_owned())?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("must be a number between 0 and 1".to_owned()) }
}

impl Args {
    /// Loads a model, found by its name or path.
    pub(super) fn load(&self, model: &Path) -> Result<Model, Failure> {
        let path = model_file::locate(model)?;
        run::load(&path, &LoadOptions::new().threads(self.threads), Notes::default())
    }
}
