//! `leyden hwbench`: what this machine can do at most, and how near every kernel comes to it.

mod attention;
mod kernels;
mod machine;
mod samples;

use std::io::Write;
use std::str::FromStr;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leyden_kernels::attention::{KvType, MAX_HEAD_DIM};
use leyden_kernels::topology::{Topology, default_threads};
use leyden_kernels::{Cpu, Level, PackedA, Tier};
use leyden_tensor::DType;
use serde::Serialize;

use super::bench::{cache_bytes, median};
use super::failure::Failure;
use super::text::{Facts, Table, bytes, printable};
use attention::{Attended, Cached};
use kernels::{Timed, Weights};
use machine::Machine;

/// Measures read bandwidth, the products of every instruction-set tier in registers, the cost of an empty parallel
/// job, the matrix product of every weight type, and attention over every type of keys and values, on every tier. Rates are
/// medians. The plain path is measured on the matrix's first rows alone, and on few tokens.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    leyden hwbench\n  \
    leyden hwbench --types q4_k,q8_0 --columns 1,2,4,8 --shape 8192x2048\n  \
    leyden hwbench --kv-types f16 --heads 32x8 --head-dim 64 --depth 8192\n  \
    leyden hwbench --isa avx2 --json")]
pub(crate) struct Args {
    /// Rows and depth of the weights
    #[arg(long, value_name = "ROWSxK", default_value = "4096x4096")]
    shape: Shape,
    /// Columns (tokens) that are multiplied together
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 8, 512])]
    columns: Vec<usize>,
    /// Weight types; by default all, or with `--kv-types` none
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = dtype)]
    types: Vec<DType>,
    /// Types of keys and values that attention reads; by default all, or with `--types` none
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = super::run::kv_type)]
    kv_types: Vec<KvType>,
    /// Heads of queries, and of keys and values, of attention
    #[arg(long, value_name = "QxKV", default_value = "32x8")]
    heads: Heads,
    /// Values of a head
    #[arg(long, value_name = "N", default_value_t = 128)]
    head_dim: usize,
    /// Cached tokens before those that attend
    #[arg(long, value_name = "N", default_value_t = 4096)]
    depth: usize,
    /// Instruction-set tiers; by default all that the machine has
    #[arg(long, value_name = "TIER", value_delimiter = ',', value_parser = super::arithmetic::level)]
    isa: Vec<Level>,
    /// Multiply BF16 weights with activations as they are instead of rounded to BF16
    #[arg(long)]
    exact: bool,
    /// Threads
    #[arg(short, long, value_name = "N")]
    threads: Option<usize>,
    /// MiB of each type's weights, and of its keys and values, in copies that take turns, so that they come from memory as a model's do; by
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
        let [rows, k] = two(text, MOST, "4096x4096")?;
        Ok(Shape { rows, k })
    }
}

/// Heads of queries, and of keys and values, which divide them.
#[derive(Clone, Copy, Debug)]
struct Heads {
    query: usize,
    kv: usize,
}

impl FromStr for Heads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [query, kv] = two(text, MOST_HEADS, "32x8")?;
        if query.is_multiple_of(kv) {
            Ok(Heads { query, kv })
        } else {
            Err(format!("{kv} heads of keys and values do not divide {query} of queries"))
        }
    }
}

/// Two numbers with an x between.
fn two(text: &str, most: usize, such_as: &str) -> Result<[usize; 2], String> {
    let parse = |n: &str| n.parse::<usize>().ok().filter(|n| (1..=most).contains(n));
    match text.split_once('x').map(|(a, b)| (parse(a), parse(b))) {
        Some((Some(a), Some(b))) => Ok([a, b]),
        _ => Err(format!("two numbers from 1 to {most} are wanted, such as {such_as}")),
    }
}

/// The most rows, values along the depth, and columns: far beyond any model, near enough to notice a slip.
const MOST: usize = 1 << 20;
/// The most heads.
const MOST_HEADS: usize = 1 << 12;
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
    attention: Vec<Attended>,
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
    let all = args.types.is_empty() && args.kv_types.is_empty();
    let types: Vec<DType> = if all { DType::all().collect() } else { args.types.clone() };
    let kv_types = if all { KvType::ALL.to_vec() } else { args.kv_types.clone() };
    check(args, threads, &types, &kv_types)?;
    let picked = Cpu::default_tier().map_err(Failure::usage)?;
    let cache_bytes = cache_bytes();
    let weights_mib =
        args.weights_mib.unwrap_or_else(|| (cache_bytes.saturating_mul(CACHES) >> 20).min(MOST_MIB));

    let each = 1 + tiers.len() * args.columns.len();
    let bar = Bar::new(Machine::steps(&tiers, threads) + (types.len() + kv_types.len()) * each);
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
                let picked = PackedA::tier_of(picked, weights.act_format(), columns).level();
                kernels.push(Timed { picked: tier.level() == picked, ..timed });
            }
        }
    }
    let mut attention = Vec::new();
    for kv_type in kv_types {
        bar.next(format!("{kv_type} cached"));
        let tokens = args.columns.iter().copied().max().unwrap_or(1);
        let cached = Cached::new(&start(picked, threads)?, kv_type, args, tokens, weights_mib << 20)?;
        for &tier in &tiers {
            let cpu = start(tier, threads)?;
            for &tokens in &args.columns {
                bar.next(format!("attention {kv_type} {} x {tokens}", tier.level()));
                let timed = cached.time(&cpu, tokens, args, &machine);
                attention.push(Attended { picked: tier.level() == picked.level(), ..timed });
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
        attention,
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

fn check(args: &Args, threads: usize, types: &[DType], kv_types: &[KvType]) -> Result<(), Failure> {
    let Shape { rows, k } = args.shape;
    let unit = if kv_types.contains(&KvType::Q8_0) { 32 } else { 16 };
    if !(1..=MAX_HEAD_DIM).contains(&args.head_dim) || !args.head_dim.is_multiple_of(unit) {
        return Err(Failure::usage(format!("`--head-dim` takes a multiple of {unit} up to {MAX_HEAD_DIM}")));
    }
    if args.depth > MOST {
        return Err(Failure::usage(format!("`--depth` takes 0 to {MOST} tokens")));
    }
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
    let Heads { query, kv } = args.heads;
    if !kv_types.is_empty() && args.head_dim * (query * widest).max(kv * (args.depth + widest)) > MOST_VALUES
    {
        return Err(Failure::usage(format!(
            "attention of {widest} columns after {} tokens is too large",
            args.depth
        )));
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
        let mut tiers: Vec<String> = self.tiers.iter().map(|t| marked(t, *t == self.tier)).collect();
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
        self.write_kernels(out)?;
        self.write_attention(out)?;
        writeln!(out, "\n*: what the dispatcher takes; share: of the nearer ceiling measured in this run")?;
        let cached = |beyond: bool, tier| !beyond && tier != Level::Scalar.name();
        let weights = self.kernels.iter().any(|t| cached(t.beyond_caches, t.tier));
        if weights || self.attention.iter().any(|t| cached(t.beyond_caches, t.tier)) {
            writeln!(
                out,
                "some weights, or keys and values, fit the caches ({}), so that memory bounds nothing; see --weights-mib",
                bytes(self.cache_bytes as u64)
            )?;
        }
        Ok(())
    }

    fn write_kernels(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if self.kernels.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let head =
            ["type", "tier", "rows", "depth", "columns", "GMAC/s", "GB/s of weights", "share", "kernel"];
        let mut table = Table::new(&head, &[2, 3, 4, 5, 6]);
        for t in &self.kernels {
            table.add(vec![
                t.dtype.to_owned(),
                marked(t.tier, t.picked),
                t.rows.to_string(),
                t.k.to_string(),
                t.columns.to_string(),
                format!("{:.1}", t.macs_per_second / 1e9),
                format!("{:.1}", t.weight_bytes_per_second / 1e9),
                share(t.bandwidth_share, t.products_share),
                t.kernel.clone(),
            ]);
        }
        Ok(table.write(out)?)
    }

    fn write_attention(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if self.attention.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let head = [
            "attention",
            "tier",
            "heads",
            "head size",
            "depth",
            "columns",
            "GMAC/s",
            "GB/s of keys and values",
            "share",
        ];
        let mut table = Table::new(&head, &[2, 3, 4, 5, 6, 7]);
        for t in &self.attention {
            table.add(vec![
                t.kv_type.to_owned(),
                marked(t.tier, t.picked),
                format!("{}x{}", t.query_heads, t.kv_heads),
                t.head_dim.to_string(),
                t.depth.to_string(),
                t.tokens.to_string(),
                format!("{:.1}", t.macs_per_second / 1e9),
                format!("{:.1}", t.kv_bytes_per_second / 1e9),
                share(t.bandwidth_share, t.products_share),
            ]);
        }
        Ok(table.write(out)?)
    }
}

fn marked(tier: &str, picked: bool) -> String {
    format!("{tier}{}", if picked { "*" } else { "" })
}

/// The ceiling that is nearer, and how much of it is reached.
fn share(bandwidth: Option<f64>, products: f64) -> String {
    let (share, of) = match bandwidth {
        Some(share) if share > products => (share, "of bandwidth"),
        _ => (products, "of products"),
    };
    format!("{:.0} % {of}", share * 100.0)
}

fn count(threads: usize) -> String {
    super::text::plural(threads, "thread")
}
