//! Arguments of `leyden bench`.

use std::path::PathBuf;
use std::str::FromStr;

use leyden_kernels::attention::KvType;
use leyden_kernels::placement::Replicas;

use crate::cli::arithmetic::Arithmetic;
use crate::cli::packs::Packs;
use crate::cli::run::kv_type;

/// Measures prefill (`pp`), generation (`tg`) and both in sequence, with random tokens and without sampling, like
/// llama-bench and with the same options and JSON keys. Every test runs once first as a warm-up.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    leyden bench model.gguf -p 512 -n 128 -d 0,4096\n  \
    leyden bench model.gguf -n 64 -p 0 --parallel 1,8,32\n  \
    leyden bench model.gguf --replicas 1,auto -t 8,16 -b 512,2048\n  \
    leyden bench model.gguf --versus '/opt/llama.cpp/llama-bench'")]
pub(crate) struct Args {
    /// Model: a name, file or folder; by default the embedded model
    #[arg(value_name = "MODEL")]
    pub(super) first: Option<PathBuf>,
    /// Model, as an option
    #[arg(short, long, value_name = "M", conflicts_with = "first")]
    pub(super) model: Option<PathBuf>,
    /// Prompt tokens (prefill); several tests separated by commas, 0 for none
    #[arg(short = 'p', long, value_name = "N", value_delimiter = ',', default_values_t = [512])]
    pub(super) n_prompt: Vec<usize>,
    /// Generated tokens (decode)
    #[arg(short = 'n', long, value_name = "N", value_delimiter = ',', default_values_t = [128])]
    pub(super) n_gen: Vec<usize>,
    /// Prefill and then decode, timed together (also `-pg`)
    #[arg(long = "pg", value_name = "PROMPT,GEN")]
    pub(super) prompt_gen: Vec<Pair>,
    /// Tokens in the KV cache before a test begins
    #[arg(short = 'd', long, value_name = "N", value_delimiter = ',', default_values_t = [0])]
    pub(super) n_depth: Vec<usize>,
    /// Number of threads of each replica for decode; by default one per available physical core
    #[arg(short, long, value_name = "N", value_delimiter = ',')]
    pub(super) threads: Vec<usize>,
    /// Number of threads of each replica for prefill (also `-tb`); by default the same as for decode
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub(super) threads_batch: Vec<usize>,
    /// Maximum number of prompt tokens in a step
    #[arg(short, long, value_name = "N", value_delimiter = ',', default_values_t = [512])]
    pub(super) batch_size: Vec<usize>,
    /// Number of sequences that generate together in each replica; the rate is the total
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1])]
    pub(super) parallel: Vec<usize>,
    /// Number of replicas that run each test at the same time on one copy of the weights, or `auto` for one per NUMA
    /// node; the rate is the total
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [Replicas::default()])]
    pub(super) replicas: Vec<Replicas>,
    /// Type of the KV cache: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value_t = KvType::default(), value_parser = kv_type)]
    pub(super) kv_type: KvType,
    #[command(flatten)]
    pub(super) arithmetic: Arithmetic,
    #[command(flatten)]
    pub(super) packs: Packs,
    /// Draft model: measure greedy answers with and without speculation instead, by this model and by repetitions
    #[arg(long, visible_aliases = ["model-draft", "draft-model"], value_name = "MODEL")]
    pub(super) draft: Option<PathBuf>,
    /// Measure greedy answers with and without speculation by repetitions alone
    #[arg(long)]
    pub(super) lookup: bool,
    /// Prompt of such an answer; may be repeated. By default three of different kinds
    #[arg(long, value_name = "FILE")]
    pub(super) prompt_file: Vec<PathBuf>,
    /// Number of repetitions of each test
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    pub(super) repetitions: usize,
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = Format::Md)]
    pub(super) output: Format,
    /// Print one JSON object: results, peak rates of the machine, and comparisons
    #[arg(long, conflicts_with = "output")]
    pub(super) json: bool,
    /// Write a self-contained page with tables and plots
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,
    /// Do not measure peak rates of the machine, which takes about a second before each repetition
    #[arg(long)]
    pub(super) no_ceilings: bool,
    /// Command of a llama-bench, with its options; it runs in turns with the repetitions
    #[arg(long, value_name = "'PROGRAM ARGS'")]
    pub(super) versus: Option<String>,
}

impl Args {
    /// Returns the named model, if any.
    pub(super) fn model(&self) -> Option<&PathBuf> {
        self.first.as_ref().or(self.model.as_ref())
    }
}

/// Output formats of llama-bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Markdown table
    Md,
    /// JSON array
    Json,
    /// One JSON object per line
    Jsonl,
    /// Comma-separated values with a header
    Csv,
}

/// Two numbers separated by a comma.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair(pub(super) usize, pub(super) usize);

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |n: &str| n.trim().parse::<usize>().map_err(|_| format!("`{n}` is not a number"));
        match text.split_once(',') {
            Some((prompt, generate)) => Ok(Pair(parse(prompt)?, parse(generate)?)),
            None => Err("must be two numbers separated by a comma".into()),
        }
    }
}
