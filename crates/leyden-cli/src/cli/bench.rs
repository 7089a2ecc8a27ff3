//! `leyden bench`: speed of a model, in llama-bench's formats, and in turns with a llama-bench.

mod args;
mod drafts;
mod measure;
mod model;
mod report;
mod test_case;
mod versus;

use std::io::{self, Write};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leyden_kernels::Meter;
use leyden_kernels::placement::{PlacementRequest, placement};
use leyden_kernels::topology::Topology;

use super::failure::Failure;
use super::{inputs, pages};
use args::{Format, Pair};
use test_case::Test;

pub(crate) use args::Args;

pub(super) use measure::median;
pub(super) use report::cache_bytes;

/// Maximum numbers of tokens in a test, of sequences and of threads: far beyond any use, but low enough to find typing
/// errors.
const MAX_TOKENS: usize = 1 << 24;
const MAX_PARALLEL: usize = 4096;
const MAX_THREADS: usize = 1024;

/// Runs the tests and prints their results.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut err = io::stderr();
    let out = inputs::report_beside(args.report.as_deref(), out, &mut err);
    args.report.as_deref().map_or(Ok(()), inputs::can_be_written)?;
    if args.draft.is_some() || args.lookup {
        return drafts::execute(args, out);
    }
    let topology = Topology::detect();
    let tests = tests(args, &topology)?;
    let versus = args.versus.as_deref().map(|line| versus::Versus::new(line, args)).transpose()?;
    let model = model::Loaded::open(args, topology, &tests)?;
    if let Some(unplaced) = model.unplaced() {
        eprintln!("{unplaced}");
    }
    let shown = args.json || args.report.is_some() || args.output == Format::Md;
    let shares = !args.no_ceilings && shown;
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
            // Peak rates are measured between repetitions, because the load of a shared machine changes.
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
    if let Some(path) = &args.report {
        pages::write(path, &report.document(&results)?, |_| {})?;
    }
    Ok(())
}

/// Returns the tests of the arguments, in llama-bench's order.
fn tests(args: &Args, topology: &Topology) -> Result<Vec<Test>, Failure> {
    if args.repetitions == 0 || args.repetitions > 100_000 {
        return Err(Failure::usage("`-r` takes 1 to 100000 repetitions"));
    }
    if args.batch_size.iter().any(|n| *n == 0 || *n > 1 << 16) {
        return Err(Failure::usage("`-b` takes 1 to 65536 tokens"));
    }
    if args.parallel.iter().any(|n| !(1..=MAX_PARALLEL).contains(n)) {
        return Err(Failure::usage(format!("`--parallel` takes 1 to {MAX_PARALLEL} sequences")));
    }
    if args.threads.iter().chain(&args.threads_batch).any(|n| !(1..=MAX_THREADS).contains(n)) {
        return Err(Failure::usage(format!("`-t` and `-tb` take 1 to {MAX_THREADS} threads")));
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
    let too_long = |t: &Test| t.prompt.max(t.generate).max(t.depth) > MAX_TOKENS;
    if let Some(test) = tests.iter().find(|t| too_long(t)) {
        return Err(Failure::usage(format!("{}: more than {MAX_TOKENS} tokens", test.name())));
    }
    if tests.is_empty() {
        return Err(Failure::usage("nothing to measure: every test has 0 tokens"));
    }
    Ok(tests)
}

/// Returns all combinations of replicas, threads and batch size.
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
