//! Arguments of `leyden plan`.

use std::path::PathBuf;

use leyden_compress::Target;
use leyden_kernels::attention::KvType;

use crate::cli::run::kv_type;
use crate::cli::sizes;

/// Predicts memory, speed and cost of a model on a machine before anything is bought or downloaded: this machine, by a self-test of
/// about a second, or one of a table of cloud shapes and processors. MODEL is a file, a folder, a config.json, a pulled model, or a
/// model on the hub, of which the header alone is fetched. Every rate has the limits of the errors that the same predictions have
/// for recorded measurements.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    leyden plan model.gguf\n  \
    leyden plan hf:org/repo:Q4_K_M --on c7g.metal --users 20 --ttft 2 --user-tps 5\n  \
    leyden plan config.json --type Q4_K_M --compare machines\n  \
    leyden plan model.gguf --price-per-hour 0.25 --api-price 0.1,0.4\n  \
    leyden plan --machines")]
pub(crate) struct Args {
    /// Model
    #[arg(value_name = "MODEL", required_unless_present = "machines")]
    pub(super) model: Option<PathBuf>,
    /// Show the machines of the table with their facts and sources
    #[arg(long, conflicts_with = "model")]
    pub(super) machines: bool,
    /// Machine of the table, in place of this one
    #[arg(long, value_name = "NAME")]
    pub(super) on: Option<String>,
    /// Types of the weights, as of `leyden quantize`; by default those that the model has
    #[arg(long = "type", value_name = "TYPE", value_parser = target)]
    pub(super) types: Option<Target>,
    /// Users at the same time
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) users: usize,
    /// Tokens of a prompt, or of a document for an encoder
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(super) prompt: usize,
    /// Tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(super) output: usize,
    /// Tokens of context that memory is kept for, for each user; by default those of prompt and answer
    #[arg(long, value_name = "N")]
    pub(super) context: Option<usize>,
    /// Most tokens in one step
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub(super) step_tokens: usize,
    /// Storage of keys and values: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value_t = KvType::default(), value_parser = kv_type)]
    pub(super) kv_type: KvType,
    /// Most seconds to the first token: asks for the number of users that keep it
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    pub(super) ttft: Option<f64>,
    /// Fewest tokens per second of each user: asks for the number of users that keep it
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) user_tps: Option<f64>,
    /// Share of the time in which the machine computes, above 0 and up to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = share)]
    pub(super) utilisation: f64,
    #[command(flatten)]
    pub(super) facts: Facts,
    /// Prices of an API per million input and output tokens, to compare with over three years
    #[arg(long, value_name = "IN,OUT", value_parser = two_prices, conflicts_with = "gpu_price_per_hour")]
    pub(super) api_price: Option<[f64; 2]>,
    /// Price of a GPU per hour, to compare with over three years
    #[arg(long, value_name = "DOLLARS", value_parser = price, requires = "gpu_tps")]
    pub(super) gpu_price_per_hour: Option<f64>,
    /// Output tokens per second of this GPU for the same requests
    #[arg(long, value_name = "N", value_parser = positive, requires = "gpu_price_per_hour")]
    pub(super) gpu_tps: Option<f64>,
    /// Rank `machines` (all of the table), `types` of weights, or machines by name, separated by commas
    #[arg(long, value_name = "machines|types|NAMES", conflicts_with = "check")]
    pub(super) compare: Option<String>,
    /// Run a short bench of the model here and show what was predicted beside it
    #[arg(long, conflicts_with = "on")]
    pub(super) check: bool,
    /// Open no connection: a model that is not here is an error
    #[arg(long)]
    pub(super) offline: bool,
    /// Write a self-contained page with tables and plots
    #[arg(long, value_name = "FILE.html", conflicts_with = "machines")]
    pub(super) report: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Facts about the machine, in place of measured ones and those of the table.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Facts {
    /// Price of the machine per hour, in dollars
    #[arg(long, value_name = "DOLLARS", value_parser = price)]
    pub(super) price_per_hour: Option<f64>,
    /// Price of the machine, bought once; spread over three years
    #[arg(long, value_name = "DOLLARS", value_parser = price)]
    pub(super) purchase: Option<f64>,
    /// Power of the machine under load
    #[arg(long, value_name = "WATTS", value_parser = positive)]
    pub(super) watts: Option<f64>,
    /// Price of a kilowatt-hour
    #[arg(long, value_name = "DOLLARS", value_parser = price)]
    pub(super) price_per_kwh: Option<f64>,
    /// Bytes that all cores read per second, in 10^9
    #[arg(long, value_name = "GB/S", value_parser = positive)]
    pub(super) bandwidth: Option<f64>,
    /// Clock under load, for a machine of the table
    #[arg(long, value_name = "GHZ", value_parser = positive, requires = "on")]
    pub(super) clock: Option<f64>,
    /// Physical cores that compute
    #[arg(long, value_name = "N")]
    pub(super) cores: Option<usize>,
    /// Memory for the model, such as 16GiB
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes)]
    pub(super) memory: Option<u64>,
}

fn target(name: &str) -> Result<Target, String> {
    let known = || Target::all().map(|target| target.name()).collect::<Vec<_>>().join(", ");
    Target::from_name(name).ok_or_else(|| format!("no such type; known: {}", known()))
}

fn number(text: &str, wanted: &str, is_right: impl Fn(f64) -> bool) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|n| n.is_finite() && is_right(*n));
    number.ok_or_else(|| format!("not {wanted}"))
}

fn positive(text: &str) -> Result<f64, String> {
    number(text, "a number above 0", |n| n > 0.0 && n < 1e12)
}

fn price(text: &str) -> Result<f64, String> {
    number(text, "a price of 0 or more", |n| (0.0..1e12).contains(&n))
}

fn share(text: &str) -> Result<f64, String> {
    number(text, "a share above 0 and up to 1", |n| n > 0.0 && n <= 1.0)
}

fn two_prices(text: &str) -> Result<[f64; 2], String> {
    let (input, output) = text.split_once(',').ok_or("two prices separated by a comma are wanted")?;
    Ok([price(input.trim())?, price(output.trim())?])
}
