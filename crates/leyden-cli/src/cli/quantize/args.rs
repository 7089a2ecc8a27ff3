//! Arguments of `leyden quantize`.

use std::path::{Path, PathBuf};

use leyden_compress::{Override, Target};
use leyden_files::TemporaryFolder;

use crate::cli::failure::Failure;
use crate::cli::sizes;

/// Writes a GGUF file with the types and mixes of llama-quantize. The result is read back and checked before it
/// replaces OUT; if the command fails, OUT is unchanged.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model in F32, F16 or BF16: a GGUF file, a Hugging Face folder, or a name
    #[arg(value_name = "IN")]
    pub(super) model: PathBuf,
    /// File to write; optional with --dry-run
    #[arg(required_unless_present = "dry_run")]
    pub(super) out: Option<PathBuf>,
    /// Type, such as Q4_K_M; an unknown one prints the list
    #[arg(value_name = "TYPE", value_parser = target, required_unless_present_any = ["target_bpw", "target_size", "dry_run"])]
    pub(super) target: Option<Target>,
    /// Choose a type for each tensor, such that the model has this number of bits per weight and the smallest loss on
    /// the text of
    /// --calibration
    #[arg(long, value_name = "BITS", conflicts_with_all = ["target", "target_size", "pure", "overrides"])]
    pub(super) target_bpw: Option<f64>,
    /// Choose a type for each tensor, as with --target-bpw, such that the file has this size, such as 700MB or 4.5GiB
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, conflicts_with_all = ["target", "pure", "overrides"])]
    pub(super) target_size: Option<u64>,
    /// Text for measuring the KL divergence from quantising each tensor alone
    #[arg(long, value_name = "FILE")]
    pub(super) calibration: Option<PathBuf>,
    /// Number of windows of 512 tokens to use from this text
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(super) calibration_chunks: usize,
    /// Importance matrix of leyden imatrix or llama-imatrix: weights the errors by the mean squared activations
    #[arg(long, value_name = "FILE")]
    pub(super) imatrix: Option<PathBuf>,
    /// Type for tensors whose names match a pattern. May be repeated; the last match applies
    #[arg(long = "tensor-type", value_name = "PATTERN=TYPE")]
    pub(super) overrides: Vec<Override>,
    /// Use the same type for all matrices, without the mix
    #[arg(long)]
    pub(super) pure: bool,
    /// Quantise weights that are already quantised, which loses precision twice
    #[arg(long)]
    pub(super) allow_requantize: bool,
    /// Print the type of each tensor, and write nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Number of threads; by default one per processor
    #[arg(short = 't', long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(super) threads: usize,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

fn target(name: &str) -> Result<Target, String> {
    Target::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = Target::all().map(|t| t.name()).collect();
        format!("known types, the largest first: {}", known.join(", "))
    })
}

impl Args {
    /// Creates a temporary folder beside the output, or in the current folder without an output.
    pub(super) fn temporary_folder(&self) -> Result<TemporaryFolder, Failure> {
        let to = self.out.as_deref().unwrap_or(Path::new("")).parent().unwrap_or(Path::new(""));
        TemporaryFolder::create(to)
            .map_err(|error| Failure::new(format!("{}: cannot create a folder in it: {error}", to.display())))
    }
}
