//! `leyden bench`: how fast a model runs here, in the terms of llama-bench, and against another llama-bench.

mod clock;
mod measure;
mod model;
mod report;
mod versus;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::str::FromStr;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leyden_kernels::Meter;
use leyden_kernels::attention::KvType;
use leyden_kernels::placement::{PlacementRequest, Replicas, placement};
use leyden_kernels::topology::Topology;

use super::failure::Failure;
use measure::Test;

pub(super) use measure::median;
pub(super) use report::cache_bytes;

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
    first: Option<PathBuf>,
    /// Model, as an option
    #[arg(short, long, value_name = "M", conflicts_with = "first")]
    model: Option<PathBuf>,
    /// Tokens of a prompt, to be read at once; several tests separated by commas, 0 for none
    #[arg(short = 'p', long, value_name = "N", value_delimiter = ',', default_values_t = [512])]
    n_prompt: Vec<usize>,
    /// Tokens to generate, one by one
    #[arg(short = 'n', long, value_name = "N", value_delimiter = ',', default_values_t = [128])]
    n_gen: Vec<usize>,
    /// A prompt and then generation, timed as one (also `-pg`)
    #[arg(long = "pg", value_name = "PROMPT,GEN")]
    prompt_gen: Vec<Pair>,
    /// Tokens that are in the context before a test begins
    #[arg(short = 'd', long, value_name = "N", value_delimiter = ',', default_values_t = [0])]
    n_depth: Vec<usize>,
    /// Threads of each replica to generate with; by default one per physical core that may be used
    #[arg(short, long, value_name = "N", value_delimiter = ',')]
    threads: Vec<usize>,
    /// Threads of each replica to read prompts with (also `-tb`); by default as many as to generate with
    #[arg(long, value_name = "N", value_delimiter = ',')]
    threads_batch: Vec<usize>,
    /// The most tokens of a prompt in one step
    #[arg(short, long, value_name = "N", value_delimiter = ',', default_values_t = [512])]
    batch_size: Vec<usize>,
    /// Sequences that generate together in each replica; the rate is that of all of them
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1])]
    parallel: Vec<usize>,
    /// Teams that run each test at the same time on one copy of the weights: a number, or `auto` for one per NUMA
    /// node; the rate is that of all of them
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [Replicas::default()])]
    replicas: Vec<Replicas>,
    /// How keys and values are stored: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value_t = KvType::default(), value_parser = super::run::kv_type)]
    kv_type: KvType,
    #[command(flatten)]
    arithmetic: super::arithmetic::Arithmetic,
    #[command(flatten)]
    packs: super::packs::Packs,
    /// How often each test is repeated
    #[arg(short, long, value_name = "N", default_value_t = 5)]
    repetitions: usize,
    /// Format of the results
    #[arg(short, long, value_enum, default_value_t = Format::Md)]
    output: Format,
    /// Print one JSON object: results, what the machine could do at most, and comparisons
    #[arg(long, conflicts_with = "output")]
    json: bool,
    /// Do not measure what the machine could do at most, which takes about a second before each repetition
    #[arg(long)]
    no_ceilings: bool,
    /// Another llama-bench, with options of its own: it runs in turn with every repetition
    #[arg(long, value_name = "'PROGRAM ARGS'")]
    versus: Option<String>,
}

impl Args {
    /// The model, if one is named.
    fn model(&self) -> Option<&PathBuf> {
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
struct Pair(usize, usize);

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

/// The most tokens of one test, and sequences and threads: far beyond any use, near enough to notice a slip.
const MOST_TOKENS: usize = 1 << 24;
const MOST_PARALLEL: usize = 4096;
const MOST_THREADS: usize = 1024;

/// Runs the tests and prints their results.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let topology = Topology::detect();
    let tests = tests(args, &topology)?;
    let versus = args.versus.as_deref().map(|line| versus::Versus::new(line, args)).transpose()?;
    let model = model::Loaded::open(args, topology, &tests)?;
    if let Some(unplaced) = model.unplaced() {
        eprintln!("{unplaced}");
    }
    let shares = !args.no_ceilings && (args.json || args.output == Format::Md);
    let meter = if shares { Some(model.meter(&tests)?) } else { None };
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len}") {
        bar.set_style(style);
    }
    bar.set_length((tests.len() * args.repetitions) as u64);
    let report = report::Report { args, model: &model, cached: cache_bytes() };
    let mut results = Vec::new();
    report.begin(out)?;
    for (i, test) in tests.iter().enumerate() {
        bar.set_message(test.name());
        let mut bench = measure::Bench::new(&model, test, args.kv_type)?;
        bench.warm_up()?;
        let mut result = measure::Measured::new(*test);
        for _ in 0..args.repetitions {
            // In turn with the repetitions: what a shared machine leaves changes from one minute to the next.
            result.ceilings.extend(meter.as_ref().map(Meter::measure));
            result.add(&bench.run()?);
            if let Some(versus) = &versus {
                result.versus.push(versus.run(test)?);
            }
            bar.inc(1);
        }
        drop(bench);
        bar.suspend(|| report.add(out, &result, i))?;
        results.push(result);
    }
    bar.finish_and_clear();
    report.end(out, &results)?;
    Ok(())
}

/// The tests that the arguments ask for, in llama-bench's order.
fn tests(args: &Args, topology: &Topology) -> Result<Vec<Test>, Failure> {
    if args.repetitions == 0 || args.repetitions > 100_000 {
        return Err(Failure::usage("`-r` takes 1 to 100000 repetitions"));
    }
    if args.batch_size.iter().any(|n| *n == 0 || *n > 1 << 16) {
        return Err(Failure::usage("`-b` takes 1 to 65536 tokens"));
    }
    if args.parallel.iter().any(|n| !(1..=MOST_PARALLEL).contains(n)) {
        return Err(Failure::usage(format!("`--parallel` takes 1 to {MOST_PARALLEL} sequences")));
    }
    if args.threads.iter().chain(&args.threads_batch).any(|n| !(1..=MOST_THREADS).contains(n)) {
        return Err(Failure::usage(format!("`-t` and `-tb` take 1 to {MOST_THREADS} threads")));
    }
    let mut tests = Vec::new();
    for base in grid(args, topology) {
        for &depth in &args.n_depth {
            let base = Test { depth, ..base };
            for &prompt in args.n_prompt.iter().filter(|n| **n > 0) {
                tests.push(Test { prompt, ..base });
            }
            for &generate in args.n_gen.iter().filter(|n| **n > 0) {
                tests.extend(args.parallel.iter().map(|&parallel| Test { generate, parallel, ..base }));
            }
            for &Pair(prompt, generate) in args.prompt_gen.iter().filter(|p| p.0 + p.1 > 0) {
                tests.push(Test { prompt, generate, ..base });
            }
        }
    }
    let too_long = |t: &Test| t.prompt.max(t.generate).max(t.depth) > MOST_TOKENS;
    if let Some(test) = tests.iter().find(|t| too_long(t)) {
        return Err(Failure::usage(format!("{}: more than {MOST_TOKENS} tokens", test.name())));
    }
    if tests.is_empty() {
        return Err(Failure::usage("nothing to measure: every test has 0 tokens"));
    }
    Ok(tests)
}

/// Every combination of replicas, threads and batch size.
fn grid(args: &Args, topology: &Topology) -> Vec<Test> {
    let counts = |given: &[usize]| -> Vec<Option<usize>> {
        if given.is_empty() { vec![None] } else { given.iter().copied().map(Some).collect() }
    };
    let mut grid = Vec::new();
    for &replicas in &args.replicas {
        let asked = PlacementRequest { replicas, ..PlacementRequest::default() };
        let replicas = placement(topology, &asked).replicas.len();
        for threads in counts(&args.threads) {
            for threads_batch in counts(&args.threads_batch) {
                grid.extend(args.batch_size.iter().map(|&batch| Test {
                    prompt: 0,
                    generate: 0,
                    depth: 0,
                    parallel: 1,
                    batch,
                    replicas,
                    threads,
                    threads_batch,
                }));
            }
        }
    }
    grid
}

/// A bar while weights are prepared.
fn loading() -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("loading {wide_bar} {bytes} of {total_bytes}") {
        bar.set_style(style);
    }
    bar
}
