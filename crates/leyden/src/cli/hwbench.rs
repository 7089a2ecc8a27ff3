//! `leyden hwbench`: what this machine can do at most, and how near every kernel comes to it.

mod kernels;
mod machine;

use std::io::Write;
use std::str::FromStr;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leyden_kernels::topology::{Topology, default_threads};
use leyden_kernels::{Activations, Cpu, Level, Tier};
use leyden_tensor::DType;
use serde::Serialize;

use super::bench::{cache_bytes, median};
use super::failure::Failure;
use super::text::{Facts, Table, bytes, printable};
use kernels::{Timed, Weights};
use machine::Machine;

/// Measures read bandwidth, the products of every instruction-set tier in registers, the cost of an empty parallel
/// job, and the matrix product of every weight type on every tier. Rates are medians. The plain path is measured on
/// the matrix's first rows alone.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    leyden hwbench\n  \
    leyden hwbench --types q4_k,q8_0 --columns 1,2,4,8 --shape 8192x2048\n  \
    leyden hwbench --isa avx2 --json")]
pub(crate) struct Args {
    /// Rows and depth of the weights
    #[arg(long, value_name = "ROWSxK", default_value = "4096x4096")]
    shape: Shape,
    /// Columns (tokens) that are multiplied together
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 8, 512])]
    columns: Vec<usize>,
    /// Weight types; by default all
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = dtype)]
    types: Vec<DType>,
    /// Instruction-set tiers; by default all that the machine has
    #[arg(long, value_name = "TIER", value_delimiter = ',', value_parser = super::arithmetic::level)]
    isa: Vec<Level>,
    /// Multiply BF16 weights with activations as they are instead of rounded to BF16
    #[arg(long)]
    exact: bool,
    /// Threads
    #[arg(short, long, value_name = "N")]
    threads: Option<usize>,
    /// MiB of each type's weights, in copies that take turns, so that they come from memory as a model's do; by
    /// default sixteen times the last cache, at most 1024; 0 for one copy
    #[arg(long, value_name = "MIB")]
    weights_mib: Option<usize>,
    /// Samples of each product; fewer, but three, where they take more than half a second
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    repetitions: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Rows and depth.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: usize,
    k: usize,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |n: &str| n.parse::<usize>().ok().filter(|n| (1..=MOST).contains(n));
        match text.split_once('x').map(|(rows, k)| (parse(rows), parse(k))) {
            Some((Some(rows), Some(k))) => Ok(Shape { rows, k }),
            _ => Err(format!("two numbers from 1 to {MOST} are wanted, such as 4096x4096")),
        }
    }
}

/// The most rows, values along the depth, and columns: far beyond any model, near enough to notice a slip.
const MOST: usize = 1 << 20;
/// The most weights of a matrix, and values of a batch or result.
const MOST_VALUES: usize = 1 << 30;
/// Times the last cache that copies take by default: of weights of twice its size, read again and again, a quarter came from a cache of 32
/// MiB, of sixteen times none that shows.
const CACHES: usize = 16;
/// The most MiB of copies by default.
const MOST_MIB: usize = 1024;

fn dtype(name: &str) -> Result<DType, String> {
    DType::all().find(|t| t.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known: Vec<String> = DType::all().map(|t| t.name().to_ascii_lowercase()).collect();
        format!("no such type; known: {}", known.join(", "))
    })
}

/// Everything that was measured.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    processor: String,
    threads: usize,
    /// The tier that the dispatcher takes.
    tier: &'static str,
    tiers: Vec<&'static str>,
    /// Tiers of this architecture that the machine lacks.
    lacking: Vec<Lacking>,
    cache_bytes: usize,
    #[serde(flatten)]
    machine: Machine,
    kernels: Vec<Timed>,
}

#[derive(Debug, Serialize)]
struct Lacking {
    tier: &'static str,
    needs: &'static str,
}

/// Shows what is measured at the moment.
struct Bar(ProgressBar);

impl Bar {
    fn new(steps: usize) -> Bar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len}") {
            bar.set_style(style);
        }
        bar.set_length(steps as u64);
        Bar(bar)
    }

    fn next(&self, what: String) {
        self.0.set_message(what);
        self.0.inc(1);
    }
}

/// Measures and prints.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let topology = Topology::detect();
    let threads = args.threads.unwrap_or_else(|| default_threads(&topology).threads);
    let tiers = tiers(args)?;
    let types: Vec<DType> = if args.types.is_empty() { DType::all().collect() } else { args.types.clone() };
    check(args, threads, &types)?;
    let picked = Cpu::default_tier().map_err(Failure::usage)?;
    let cache_bytes = cache_bytes();
    let weights_mib =
        args.weights_mib.unwrap_or_else(|| (cache_bytes.saturating_mul(CACHES) >> 20).min(MOST_MIB));

    let bar =
        Bar::new(Machine::steps(&tiers, threads) + types.len() * (1 + tiers.len() * args.columns.len()));
    let machine = Machine::measure(picked, &tiers, threads, &bar)?;
    let mut kernels = Vec::new();
    for dtype in types {
        bar.next(format!("{dtype} packed"));
        let shape = [args.shape.rows, args.shape.k];
        let cpu = start(picked, threads)?.with_exact(args.exact);
        let weights = Weights::new(&cpu, dtype, shape, weights_mib << 20)?;
        for &tier in &tiers {
            let cpu = start(tier, threads)?;
            for &columns in &args.columns {
                bar.next(format!("{dtype} {} x {columns}", tier.level()));
                let timed = weights.time(&cpu, columns, args, &machine);
                let picked = Activations::tier_of(picked, weights.grid(), columns).level();
                kernels.push(Timed { picked: tier.level() == picked, ..timed });
            }
        }
    }
    bar.0.finish_and_clear();
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        processor: topology.processor.brand,
        threads,
        tier: picked.level().name(),
        tiers: tiers.iter().map(|t| t.level().name()).collect(),
        lacking: Level::native()
            .filter(|level| Tier::new(*level).is_none())
            .map(|level| Lacking { tier: level.name(), needs: level.features() })
            .collect(),
        cache_bytes,
        machine,
        kernels,
    };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(());
    }
    report.write(out)
}

/// The tiers to measure, slowest first.
fn tiers(args: &Args) -> Result<Vec<Tier>, Failure> {
    let available = Tier::available();
    if let Some(level) = args.isa.iter().find(|level| Tier::new(**level).is_none()) {
        let have: Vec<&str> = available.iter().map(|t| t.level().name()).collect();
        let (needs, have) = (level.features(), have.join(", "));
        return Err(Failure::usage(format!("--isa: this machine lacks {level} ({needs}); it has {have}")));
    }
    let asked = |tier: &Tier| args.isa.is_empty() || args.isa.contains(&tier.level());
    Ok(available.into_iter().filter(asked).collect())
}

fn check(args: &Args, threads: usize, types: &[DType]) -> Result<(), Failure> {
    let Shape { rows, k } = args.shape;
    if !(1..=1024).contains(&threads) {
        return Err(Failure::usage("`-t` takes 1 to 1024 threads"));
    }
    if !(1..=100_000).contains(&args.repetitions) {
        return Err(Failure::usage("`-r` takes 1 to 100000 repetitions"));
    }
    if args.weights_mib.is_some_and(|mib| mib > MOST) {
        return Err(Failure::usage(format!("`--weights-mib` takes 0 to {MOST} MiB")));
    }
    if args.columns.iter().any(|n| !(1..=MOST).contains(n)) {
        return Err(Failure::usage(format!("`--columns` takes 1 to {MOST} columns")));
    }
    let widest = args.columns.iter().copied().max().unwrap_or(1);
    if rows * k > MOST_VALUES || rows.max(k) * widest > MOST_VALUES {
        return Err(Failure::usage(format!("{rows}x{k} with {widest} columns is too large")));
    }
    match types.iter().find(|t| t.row_bytes(k).is_none()) {
        Some(t) => {
            let message =
                format!("`--shape`: {t} needs a depth that is a multiple of {}, not {k}", t.block_len());
            Err(Failure::usage(message))
        }
        None => Ok(()),
    }
}

/// A team on a tier.
fn start(tier: Tier, threads: usize) -> Result<Cpu, Failure> {
    Cpu::new(tier, threads).map_err(|error| Failure::new(format!("cannot start {threads} threads: {error}")))
}

impl Report {
    fn write(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let mut facts = Facts::default();
        facts.add("processor", printable(&self.processor, 100));
        facts.add("threads", self.threads.to_string());
        let marked = |name: &&str| format!("{name}{}", if *name == self.tier { "*" } else { "" });
        let mut tiers: Vec<String> = self.tiers.iter().map(marked).collect();
        tiers.extend(self.lacking.iter().map(|l| format!("not {} (needs {})", l.tier, l.needs)));
        facts.add("tiers", tiers.join(", "));
        for b in &self.machine.bandwidth {
            let rate = b.bytes_per_second / 1e9;
            facts.add("bandwidth", format!("{rate:.1} GB/s read by {}", count(b.threads)));
        }
        for p in &self.machine.peaks {
            let [int8, f32, bf16] = [p.int8_macs_per_second, p.f32_macs_per_second, p.bf16_macs_per_second]
                .map(|rate| rate / 1e9);
            let rates = format!("{}: {int8:.1} GMAC/s of int8, {f32:.1} of f32, {bf16:.1} of bf16", p.tier);
            facts.add("products", rates);
        }
        for b in &self.machine.barriers {
            facts.add("empty job", format!("{:.2} us with {}", b.microseconds, count(b.threads)));
        }
        facts.write(out)?;
        writeln!(out)?;
        let head = ["type", "tier", "rows", "depth", "columns", "GMAC/s", "GB/s of weights", "share"];
        let mut table = Table::new(&head, &[2, 3, 4, 5, 6]);
        for t in &self.kernels {
            let (share, of) = t.share();
            table.add(vec![
                t.dtype.to_owned(),
                format!("{}{}", t.tier, if t.picked { "*" } else { "" }),
                t.rows.to_string(),
                t.k.to_string(),
                t.columns.to_string(),
                format!("{:.1}", t.macs_per_second / 1e9),
                format!("{:.1}", t.weight_bytes_per_second / 1e9),
                format!("{:.0} % {of}", share * 100.0),
            ]);
        }
        table.write(out)?;
        writeln!(out, "\n*: what the dispatcher takes; share: of the nearer ceiling measured in this run")?;
        if self.kernels.iter().any(|t| !t.beyond_caches && t.tier != Level::Scalar.name()) {
            writeln!(
                out,
                "some weights fit the caches ({}), so that memory bounds nothing; see --weights-mib",
                bytes(self.cache_bytes as u64)
            )?;
        }
        Ok(())
    }
}

fn count(threads: usize) -> String {
    super::text::plural(threads, "thread")
}
