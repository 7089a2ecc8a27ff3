//! Arguments of `leyden hwbench`.

use std::str::FromStr;

use leyden_kernels::Level;
use leyden_kernels::attention::KvType;
use leyden_tensor::DType;

use crate::cli::arithmetic::level;
use crate::cli::run::kv_type;

/// Maximum number of rows, values along the depth, and columns: far beyond any model, but low enough to find typing
/// errors.
pub(super) const MAX_SIDE: usize = 1 << 20;
/// Maximum number of heads.
const MAX_HEADS: usize = 1 << 12;

/// Measures read bandwidth; for each instruction set the peak rate of products in registers; the cost of an empty
/// parallel job; the matrix product of each weight type; and attention with each type of KV cache. Rates are medians.
/// The scalar path is measured on few rows and tokens only.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    leyden hwbench\n  \
    leyden hwbench --types q4_k,q8_0 --columns 1,2,4,8 --shape 8192x2048\n  \
    leyden hwbench --kv-types f16 --heads 32x8 --head-dim 64 --depth 8192\n  \
    leyden hwbench --zeros 0,50,80,90 --shape 1536x384 --columns 96 -t 1\n  \
    leyden hwbench --isa avx2 --json")]
pub(crate) struct Args {
    /// Rows and depth of the weights
    #[arg(long, value_name = "ROWSxK", default_value = "4096x4096")]
    pub(super) shape: Shape,
    /// Numbers of columns (tokens) of a product
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 8, 512])]
    pub(super) columns: Vec<usize>,
    /// Weight types; by default all, or none with `--kv-types`
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = dtype)]
    pub(super) types: Vec<DType>,
    /// Types of the KV cache; by default all, or none with `--types`
    #[arg(long, value_name = "TYPE", value_delimiter = ',', value_parser = kv_type)]
    pub(super) kv_types: Vec<KvType>,
    /// Percentages of zeros in matrices of INT8 rows, which are measured in every layout; by default, and with types, none
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(super) zeros: Vec<u32>,
    /// Places of these zeros: any, 1x4 (blocks of four inputs of one output), 4x1 (four outputs of one input)
    #[arg(long, value_name = "PATTERN", default_value = "any")]
    pub(super) pattern: Pattern,
    /// Attention heads: of queries, and of keys and values
    #[arg(long, value_name = "QxKV", default_value = "32x8")]
    pub(super) heads: Heads,
    /// Head dimension
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub(super) head_dim: usize,
    /// Number of cached tokens before the new ones
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub(super) depth: usize,
    /// Instruction sets; by default all that the machine has
    #[arg(long, value_name = "TIER", value_delimiter = ',', value_parser = level)]
    pub(super) isa: Vec<Level>,
    /// Multiply BF16 weights by F32 activations; by default activations are rounded to BF16
    #[arg(long)]
    pub(super) exact: bool,
    /// Number of threads
    #[arg(short, long, value_name = "N")]
    pub(super) threads: Option<usize>,
    /// Size in MiB of the copies of weights, and of keys and values; copies are used in turns, so that they come from
    /// memory as in a model. By default sixteen times the last-level cache, at most 1024; 0 for one copy
    #[arg(long, value_name = "MIB")]
    pub(super) weights_mib: Option<usize>,
    /// Maximum number of samples of each product; sampling stops after half a second, but not before three samples
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

/// Places of zeros.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pattern {
    /// Anywhere.
    Any,
    /// Blocks of consecutive inputs of one output.
    Inputs,
    /// Blocks of consecutive outputs of one input.
    Outputs,
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "any" => Ok(Pattern::Any),
            "1x4" => Ok(Pattern::Inputs),
            "4x1" => Ok(Pattern::Outputs),
            _ => Err("no such pattern; known: any, 1x4, 4x1".to_owned()),
        }
    }
}

/// Numbers of query heads and of key-value heads; the second divides the first.
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
            Err(format!("the number of query heads, {query}, is not a multiple of the key-value heads, {kv}"))
        }
    }
}

/// Parses two numbers separated by x.
fn two(text: &str, most: usize, such_as: &str) -> Result<[usize; 2], String> {
    let parse = |n: &str| n.parse::<usize>().ok().filter(|n| (1..=most).contains(n));
    match text.split_once('x').map(|(a, b)| (parse(a), parse(b))) {
        Some((Some(a), Some(b))) => Ok([a, b]),
        _ => Err(format!("must be two numbers from 1 to {most}, such as {such_as}")),
    }
}

fn dtype(name: &str) -> Result<DType, String> {
    DType::all().find(|t| t.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
        let known: Vec<String> = DType::all().map(|t| t.name().to_ascii_lowercase()).collect();
        format!("no such type; known: {}", known.join(", "))
    })
}
