//! Arguments of `leyden hwbench`.

use std::str::FromStr;

use leyden_kernels::Level;
use leyden_kernels::attention::KvType;
use leyden_tensor::DType;

use crate::cli::arithmetic::level;
use crate::cli::run::kv_type;

/// Maximum number of rows, values along the depth, and columns: far beyond any model, low enough to notice a slip.
pub(super) const MAX_SIDE: usize = 1 << 20;
/// Maximum number of heads.
const MAX_HEADS: usize = 1 << 12;

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
    pub(super) shape: Shape,
    /// Columns (tokens) that are multiplied together
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 8, 512])]
    pub(super) columns: Vec<usize>,
    /// Weight types; by default all, or with `--kv-types` none
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = dtype)]
    pub(super) types: Vec<DType>,
    /// Types of keys and values that attention reads; by default all, or with `--types` none
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = kv_type)]
    pub(super) kv_types: Vec<KvType>,
    /// Heads of queries, and of keys and values, of attention
    #[arg(long, value_name = "QxKV", default_value = "32x8")]
    pub(super) heads: Heads,
    /// Values of a head
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(super) head_dim: usize,
    /// Cached tokens before those that attend
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(super) depth: usize,
    /// Instruction-set tiers; by default all that the machine has
    #[arg(long, value_name = "TIER", value_delimiter = ',', value_parser = level)]
    pub(super) isa: Vec<Level>,
    /// Multiply BF16 weights with activations as they are instead of rounded to BF16
    #[arg(long)]
    pub(super) exact: bool,
    /// Threads
    #[arg(short, long, value_name = "N")]
    pub(super) threads: Option<usize>,
    /// MiB of each type's weights, and of its keys and values, in copies that take turns, so that they come from memory as a model's do; by
    /// default sixteen times the last cache, at most 1024; 0 for one copy
    #[arg(long, value_name = "MIB")]
    pub(super) weights_mib: Option<usize>,
    /// Samples of each product; fewer, but three, where they take more than half a second
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    pub(super) repetitions: usize,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Rows and depth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) rows: usize,
    pub(super) k: usize,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [rows, k] = two(text, MAX_SIDE, "4096x4096")?;
        Ok(Shape { rows, k })
    }
}

/// Heads of queries, and of keys and values, which divide them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heads {
    pub(super) query: usize,
    pub(super) kv: usize,
}

impl FromStr for Heads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [query, kv] = two(text, MAX_HEADS, "32x8")?;
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

fn dtype(name: &str) -> Result<DType, String> {
    DType::all().find(|t| t.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known: Vec<String> = DType::all().map(|t| t.name().to_ascii_lowercase()).collect();
        format!("no such type; known: {}", known.join(", "))
    })
}
