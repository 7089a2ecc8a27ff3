//! Arguments of `leyden bench`.

use std::path::PathBuf;
use std::str::FromStr;

use leyden_kernels::attention::KvType;
use leyden_kernels::placement::Replicas;

use crate::cli::arithmetic::Arithmetic;
use crate::cli::packs::Packs;
use crate::cli::run::kv_type;

/// Measures prefill (`pp`), generation (`tg`) and both after each other, with random tokens and without sampling, as
/// llama-bench does: the same options, the same keys in JSON. Every test runs once to warm up and is not counted then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    leyden bench model.gguf -p 512 -n 128 -d 0,4096\n  \
    leyden bench model.gguf -n 64 -p 0 --parallel 1,8,32\n  \
    leyden bench model.gguf --replicas 1,auto -t 8,16 -b 512,2048\n  \
    leyden bench model.gguf --versus '/opt/llama.cpp/llama-bench'")]
pub(crate) struct Args {
    /// Model: a file, a folder, the name of a pulled model or its reference; by default the embedded one
    #[arg(value_name = "MODEL")]
    pub(super) first: Option<PathBuf>,
    /// Model, as an option
    #[arg(short, long, value_name = "M", conflicts_with = "first")]
    pub(super) model: Option<PathBuf>,
    /// Tokens of a prompt, to be read at once; several tests separated by commas, 0 for none
    #[arg(short = 'p', long, value_name = "N", value_delimiter = ',', default_values_t = [512])]
    pub(super) n_prompt: Vec<usize>,
    /// Tokens to generate, one by one
    #[arg(short = 'n', long, value_name = "N", value_delimiter = ',', default_values_t = [128])]
    pub(super) n_gen: Vec<usize>,
    /// A prompt and then generation, timed as one (also `-pg`)
    #[arg(long = "pg", value_name = "PROMPT,GEN")]
    pub(super) prompt_gen: Vec<Pair>,
    /// Tokens that are in the context before a test begins
    #[arg(short = 'd', long, value_name = "N", value_delimiter = ',', default_values_t = [0])]
    pub(super) n_depth: Vec<usize>,
    /// Threads of each replica to generate with; by default one per physical core that may be used
    #[arg(short, long, value_name = "N", value_delimiter = ',')]
    pub(super) threads: Vec<usize>,
    /// Threads of each replica to read prompts with (also `-tb`); by default as many as to generate with
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub(super) threads_batch: Vec<usize>,
    /// The most tokens of a prompt in one step
    #[arg(short, long, value_name = "N", value_delimiter = ',', default_values_t = [512])]
    pub(super) batch_size: Vec<usize>,
    /// Sequences that generate together in each replica; the rate is that of all of them
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1])]
    pub(super) parallel: Vec<usize>,
    /// Teams that run each test at the same time on one copy of the weights: a number, or `auto` for one per NUMA
    /// node; the rate is that of all of them
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [Replicas::default()])]
    pub(super) replicas: Vec<Replicas>,
    /// Storage of keys and values: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value_t = KvType::default(), value_parser = kv_type)]
    pub(super) kv_type: KvType,
    #[command(flatten)]
    pub(super) arithmetic: Arithmetic,
    #[command(flatten)]
    pub(super) packs: Packs,
    /// Number of repetitions of each test
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    pub(super) repetitions: usize,
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = Format::Md)]
    pub(super) output: Format,
    /// Print one JSON object: results, what the machine could do at most, and comparisons
    #[arg(long, conflicts_with = "output")]
    pub(super) json: bool,
    /// Do not measure what the machine could do at most, which takes about a second before each repetition
    #[arg(long)]
    pub(super) no_ceilings: bool,
    /// Another llama-bench, with options of its own: it runs in turn with every repetition
    #[arg(long, value_name = "'PROGRAM ARGS'")]
    pub(super) versus: Option<String>,
}

impl Args {
    /// Returns the named model, if any.
    pub(super) fn model(&self) -> Option<&PathBuf> {
        self.first.as_ref().or(self.model.as_ref())
    }
}

/// The formats of llama-bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// A table for people
    Md,
    /// One array
    Json,
    /// One object in each line
    Jsonl,
    /// Comma-separated values with a head
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
            None => Err("two numbers separated by a comma are wanted".into()),
        }
    }
}
