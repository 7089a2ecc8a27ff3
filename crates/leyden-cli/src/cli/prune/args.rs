//! Arguments of `leyden prune`.

use std::path::PathBuf;

use leyden_compress::{Method, Structure};
use leyden_convert::Sparse;

use crate::cli::failure::Failure;
use crate::cli::sizes;

/// Writes a model in which a part of the weights of its layers is zero, without training. Wanda and SparseGPT need a text
/// similar to the model's use. Embeddings, norms, biases and heads stay. Language models keep most of their quality up to about
/// half of the weights; encoders need training beyond that, as docs/prune.md says. Under OUT there is the whole new model, or
/// what was there before.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Model in F32, F16 or BF16: a GGUF file, a folder from the hub, the name of a pulled model or its
    /// reference
    #[arg(value_name = "MODEL")]
    pub(super) model: PathBuf,
    /// GGUF file to write, if its name ends in .gguf; else the folder to make
    pub(super) out: PathBuf,
    /// Method of choosing weights: magnitude, wanda or sparsegpt
    #[arg(long, value_name = "METHOD", value_parser = method, default_value = "sparsegpt")]
    pub(super) method: Method,
    /// Text that inputs of matrices are computed on; of encoders, each line is a text
    #[arg(long, value_name = "FILE")]
    pub(super) calibration: Option<PathBuf>,
    /// Share of zeros, above 0 and below 1; by default 0.5, or that of a pattern N:M
    #[arg(long, value_name = "SHARE")]
    pub(super) sparsity: Option<f64>,
    /// Positions of zeros: unstructured; N:M, such as 2:4 or 32:64, for N weights of M that stay; 1x4, blocks of four inputs;
    /// 4x1, blocks of four outputs
    #[arg(long, value_name = "PATTERN", default_value = "unstructured")]
    pub(super) pattern: Structure,
    /// Sparsity of layers: uniform, or sensitivity, by the outliers of their inputs (OWL)
    #[arg(long, value_name = "RULE", default_value = "uniform", value_parser = ["uniform", "sensitivity"])]
    pub(super) allocation: String,
    /// Tokens of the calibration text that are used at most
    #[arg(long, value_name = "N", default_value_t = 16384)]
    pub(super) calibration_tokens: usize,
    /// Tokens of a window of the calibration text
    #[arg(short = 'c', long = "ctx", visible_alias = "ctx-size", value_name = "N", default_value_t = 512)]
    pub(super) context: usize,
    /// Layers that are pruned together, on inputs that layers pruned before them make; by default an eighth of all
    #[arg(long, value_name = "N")]
    pub(super) layers: Option<usize>,
    /// Memory for sums over inputs; fewer layers are pruned together if theirs need more
    #[arg(long, value_name = "SIZE", value_parser = sizes::bytes, default_value = "1GiB")]
    pub(super) memory: u64,
    /// Write 8-bit integers with one scale for each row, into a GGUF file
    #[arg(long)]
    pub(super) int8: bool,
    /// Write a folder with sparse matrices, which leyden alone reads: float, int8 or int4 values
    #[arg(long, value_name = "VALUES", value_parser = crate::cli::convert::sparse, conflicts_with = "int8")]
    pub(super) sparse: Option<Sparse>,
    /// Prune an encoder beyond 60 %, although its accuracy collapses without training
    #[arg(long)]
    pub(super) i_know: bool,
    /// Threads; by default one per physical core that may be used
    #[arg(short = 't', long, value_name = "N")]
    pub(super) threads: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Share of zeros without `--sparsity`.
const HALF: f64 = 0.5;

fn method(name: &str) -> Result<Method, String> {
    let found = Method::NAMES.iter().find(|row| row.0.eq_ignore_ascii_case(name));
    found.map(|row| row.1).ok_or_else(|| "want magnitude, wanda or sparsegpt".to_owned())
}

impl Args {
    /// Returns the share of zeros.
    ///
    /// # Errors
    /// Options are missing, out of range or contradict each other.
    pub(super) fn checked_sparsity(&self) -> Result<f64, Failure> {
        if self.method.needs_inputs() && self.calibration.is_none() {
            return Err(Failure::usage(format!("--method {}: no calibration text", self.method.name()))
                .hint("give a text as --calibration, or use --method magnitude"));
        }
        if self.by_sensitivity() && self.calibration.is_none() {
            return Err(Failure::usage("--allocation sensitivity: no calibration text")
                .hint("give a text as --calibration"));
        }
        if self.context < 2 || self.calibration_tokens < self.context {
            return Err(Failure::usage("--ctx: want at least 2 tokens, and at most --calibration-tokens"));
        }
        if self.int8 && !self.writes_gguf() {
            return Err(
                Failure::usage("--int8: a folder has no such type").hint("name a file that ends in .gguf")
            );
        }
        if self.sparse.is_some() && self.writes_gguf() {
            return Err(
                Failure::usage("--sparse: a GGUF file has no sparse matrices").hint("name a folder to make")
            );
        }
        let Some(fixed) = self.pattern.sparsity() else {
            let sparsity = self.sparsity.unwrap_or(HALF);
            return match sparsity > 0.0 && sparsity < 1.0 {
                true => Ok(sparsity),
                false => {
                    Err(Failure::usage(format!("--sparsity {sparsity}: want a share above 0 and below 1")))
                }
            };
        };
        if self.sparsity.is_some_and(|sparsity| (sparsity - fixed).abs() > 1e-9) || self.by_sensitivity() {
            let pattern = self.pattern;
            return Err(Failure::usage(format!(
                "--pattern {pattern}: every matrix gets the sparsity {fixed}"
            ))
            .hint("leave out --sparsity and --allocation, or choose another pattern"));
        }
        Ok(fixed)
    }

    /// Returns true if layers get different sparsities.
    pub(super) fn by_sensitivity(&self) -> bool {
        self.allocation == "sensitivity"
    }

    /// Returns true if the output is a file, not a folder.
    pub(super) fn writes_gguf(&self) -> bool {
        self.out.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"))
    }
}
