//! Arguments of `leyden quantize`.

use std::path::{Path, PathBuf};

use leyden_compress::{Override, Target};
use leyden_files::TemporaryFolder;

use crate::cli::failure::Failure;
use crate::cli::sizes;

/// Writes a GGUF model in a smaller type, under the names and with the mixes of llama-quantize. Under OUT there is the
/// whole new file, read back and checked, or what was there before.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model in F32, F16 or BF16: a GGUF file, a folder from the hub, the name of a pulled model or its
    /// reference
    #[arg(value_name = "IN")]
    pub(super) model: PathBuf,
    /// File to write; with --dry-run it may be left out
    #[arg(required_unless_present = "dry_run")]
    pub(super) out: Option<PathBuf>,
    /// Type, such as Q4_K_M; a wrong one lists all
    #[arg(value_name = "TYPE", value_parser = target, required_unless_present_any = ["target_bpw", "target_size", "dry_run"])]
    pub(super) target: Option<Target>,
    /// Choose a type for every tensor so that the model has so many bits per weight and loses the least on the text of
    /// --calibration
    #[arg(long, value_name = "BITS", conflicts_with_all = ["target", "target_size", "pure", "overrides"])]
    pub(super) target_bpw: Option<f64>,
    /// Choose a type for every tensor, like --target-bpw, so that the file has this size, such as 700MB or 4.5GiB
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, conflicts_with_all = ["target", "pure", "overrides"])]
    pub(super) target_size: Option<u64>,
    /// Text on which the KL divergence that each tensor alone costs is measured
    #[arg(long, value_name = "FILE")]
    pub(super) calibration: Option<PathBuf>,
    /// Windows of 512 tokens of it that are used
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(super) calibration_chunks: usize,
    /// Importances of weights, from leyden imatrix or llama-imatrix: errors count as much as the activations that they meet
    #[arg(long, value_name = "FILE")]
    pub(super) imatrix: Option<PathBuf>,
    /// Give the tensors whose names fit a type of their own; several times, the last that fits holds
    #[arg(long = "tensor-type", value_name = "PATTERN=TYPE")]
    pub(super) overrides: Vec<Override>,
    /// Give every matrix the same type, without the mix
    #[arg(long)]
    pub(super) pure: bool,
    /// Quantise weights that are quantised already, although they lose precision twice
    #[arg(long)]
    pub(super) allow_requantize: bool,
    /// Show which tensor would get which type, and write nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Threads; by default one per processor
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
    /// Creates a temporary folder in the folder of the output, or in the current one without an output.
    pub(super) fn temporary_folder(&self) -> Result<TemporaryFolder, Failure> {
        let to = self.out.as_deref().unwrap_or(Path::new("")).parent().unwrap_or(Path::new(""));
        TemporaryFolder::create(to)
            .map_err(|error| Failure::new(format!("{}: cannot create a folder in it: {error}", to.display())))
    }
}
