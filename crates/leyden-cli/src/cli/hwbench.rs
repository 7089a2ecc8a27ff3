//! `leyden hwbench`: peak rates of the machine, and each kernel's share of them.

mod args;
mod attention;
mod bar;
mod int8_rows;
mod kernels;
mod machine;
mod samples;

use std::io::Write;

use leyden_kernels::attention::{KvType, MAX_HEAD_DIM};
use leyden_kernels::topology::{Topology, default_threads};
use leyden_kernels::{Cpu, Level, PackedA, Tier};
use leyden_tensor::DType;
use serde::Serialize;

use super::bench::cache_bytes;
use super::failure::Failure;
use super::text::{Facts, Table, bytes, printable};
use args::{Heads, MAX_SIDE, Shape};
use attention::{Attended, Cached};
use bar::Bar;
use int8_rows::InLayout;
use kernels::{Timed, Weights};
use machine::{Machine, start};

pub(crate) use args::Args;

/// Maximum number of weights of a matrix, and of values of a batch or result.
const MAX_VALUES: usize = 1 << 30;
/// Default size of all copies, as a multiple of the last-level cache. With twice its size, a quarter of the reads came
/// from a cache of 32 MiB; with sixteen times, no measurable part.
const CACHES: usize = 16;
/// Maximum size of the copies by default, in MiB.
const MAX_MIB: usize = 1024;

/// All measurements.
#[derive(Debug, Serialize)]
struct Report {
    version: &'static str,
    processor: String,
    threads: usize,
    /// Tier that the dispatcher chooses.
    tier: &'static str,
    tiers: Vec<&'static str>,
    /// Tiers of this architecture that the machine lacks.
    lacking: Vec<Lacking>,
    cache_bytes: usize,
    #[serde(flatten)]
    machine: Machine,
    kernels: Vec<Timed>,
    attention: Vec<Attended>,
    /// INT8 rows with zeros, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    int8_rows: Vec<InLayout>,
}

#[derive(Debug, Serialize)]
struct Lacking {
    tier: &'static str,
    needs: &'static str,
}

/// Runs the measurements and prints them.
pub(super) fn execute(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let topology = Topology::detect();
    let threads = args.threads.unwrap_or_else(|| default_threads(&topology).threads);
    let tiers = tiers(args)?;
    let all = args.types.is_empty() && args.kv_types.is_empty() && args.zeros.is_empty();
    let types: Vec<DType> = if all { DType::all().collect() } else { args.types.clone() };
    let kv_types = if all { KvType::ALL.to_vec() } else { args.kv_types.clone() };
    check(args, threads, &types, &kv_types)?;
    let picked = Cpu::default_tier().map_err(Failure::usage)?;
    let cache_bytes = cache_bytes();
    let weights_mib =
        args.weights_mib.unwrap_or_else(|| (cache_bytes.saturating_mul(CACHES) >> 20).min(MAX_MIB));

    let each = 1 + tiers.len() * args.columns.len();
    let layouts = tiers.len() * args.columns.len() * args.zeros.len();
    let bar = Bar::new(Machine::steps(&tiers, threads) + (types.len() + kv_types.len()) * each + layouts);
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
    let mut int8_rows = Vec::new();
    for &tier in &tiers {
        let cpu = start(tier, threads)?;
        for (&zeros, &columns) in
            args.zeros.iter().flat_map(|zeros| args.columns.iter().map(move |n| (zeros, n)))
        {
            bar.next(format!("INT8 rows {zeros} % {} x {columns}", tier.level()));
            int8_rows.extend(int8_rows::measure(&cpu, zeros, columns, args)?);
        }
    }
    bar.finish();
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
        int8_rows,
    };
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &report)?;
        writeln!(out)?;
        return Ok(());
    }
    report.write(out)
}

/// Returns the tiers to measure, slowest first.
fn tiers(args: &Args) -> Result<Vec<Tier>, Failure> {
    let available = Tier::available();
    if let Some(level) = args.isa.iter().find(|level| Tier::new(**level).is_none()) {
        let have: Vec<&str> = available.iter().map(|t| t.level().name()).collect();
        let (needs, have) = (level.features(), have.join(", "));
        return Err(Failure::usage(format!(
            "--isa: this machine does not have {level} ({needs}); it has {have}"
        )));
    }
    let asked = |tier: &Tier| args.isa.is_empty() || args.isa.contains(&tier.level());
    Ok(available.into_iter().filter(asked).collect())
}

fn check(args: &Args, threads: usize, types: &[DType], kv_types: &[KvType]) -> Result<(), Failure> {
    let Shape { rows, k } = args.shape;
    let unit = if kv_types.contains(&KvType::Q8_0) { 32 } else { 16 };
    if !(1..=MAX_HEAD_DIM).contains(&args.head_dim) || !args.head_dim.is_multiple_of(unit) {
        return Err(Failure::usage(format!("--head-dim must be a multiple of {unit} up to {MAX_HEAD_DIM}")));
    }
    if args.depth > MAX_SIDE {
        return Err(Failure::usage(format!("`--depth` takes 0 to {MAX_SIDE} tokens")));
    }
    if !(1..=1024).contains(&threads) {
        return Err(Failure::usage("`-t` takes 1 to 1024 threads"));
    }
    if !(1..=100_000).contains(&args.repetitions) {
        return Err(Failure::usage("`-r` takes 1 to 100000 repetitions"));
    }
    if args.weights_mib.is_some_and(|mib| mib > MAX_SIDE) {
        return Err(Failure::usage(format!("`--weights-mib` takes 0 to {MAX_SIDE} MiB")));
    }
    if args.columns.iter().any(|n| !(1..=MAX_SIDE).contains(n)) {
        return Err(Failure::usage(format!("`--columns` takes 1 to {MAX_SIDE} columns")));
    }
    let widest = args.columns.iter().copied().max().unwrap_or(1);
    if rows * k > MAX_VALUES || rows.max(k) * widest > MAX_VALUES {
        return Err(Failure::usage(format!("{rows}x{k} with {widest} columns is too large")));
    }
    let Heads { query, kv } = args.heads;
    if !kv_types.is_empty() && args.head_dim * (query * widest).max(kv * (args.depth + widest)) > MAX_VALUES {
        return Err(Failure::usage(format!(
            "attention of {widest} columns after {} tokens is too large",
            args.depth
        )));
    }
    match types.iter().find(|t| t.row_bytes(k).is_none()) {
        Some(t) => {
            let message =
                format!("--shape: the depth {k} is not a multiple of {t}'s block of {}", t.block_len());
            Err(Failure::usage(message))
        }
        None => Ok(()),
    }
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
        self.write_layouts(out)?;
        writeln!(out, "\n*: chosen by the dispatcher; share: of the nearer peak rate measured in this run")?;
        let cached = |beyond: bool, tier| !beyond && tier != Level::Scalar.name();
        let weights = self.kernels.iter().any(|t| cached(t.beyond_caches, t.tier));
        if weights || self.attention.iter().any(|t| cached(t.beyond_caches, t.tier)) {
            writeln!(
                out,
                "some weights, or keys and values, fit the caches ({}), so memory bandwidth does not limit them; see --weights-mib",
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

    fn write_layouts(&self, out: &mut dyn Write) -> Result<(), Failure> {
        if self.int8_rows.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let head = [
            "layout",
            "tier",
            "zeros",
            "rows",
            "depth",
            "columns",
            "GMAC/s",
            "times dense",
            "bytes per weight",
        ];
        let mut table = Table::new(&head, &[2, 3, 4, 5, 6, 7, 8]);
        for t in &self.int8_rows {
            table.add(vec![
                t.layout.to_owned(),
                marked(t.tier, t.tier == self.tier),
                format!("{} %", t.zeros_percent),
                t.rows.to_string(),
                t.k.to_string(),
                t.columns.to_string(),
                format!("{:.1}", t.macs_per_second / 1e9),
                format!("{:.2}", t.times_dense),
                format!("{:.2}", t.weight_bytes as f64 / (t.rows * t.k) as f64),
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

/// Formats the share of the nearer peak rate.
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
