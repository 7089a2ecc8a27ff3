//! Arguments of `leyden verify`.

use std::path::PathBuf;

use leyden::{KvType, LoadOptions};
use leyden_kernels::Cpu;
use leyden_rows::Format;
use leyden_verify::{Floors, Settings};

use super::load_spec::LoadSpec;
use crate::cli::arithmetic::Arithmetic;
use crate::cli::failure::Failure;
use crate::cli::notes::Notes;
use crate::cli::run;

/// Tokens of a text window by default.
const CONTEXT: usize = 512;

/// Compares a model with floors of quality, and its server with limits of speed. The verdict is PASS, FAIL or
/// INCONCLUSIVE, with at least 95 % confidence in the first two. It is kept in a signed file with the SHA-256 of all files, the
/// program, the settings and the processor, which --check compares later, and which leyden serve can require.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "leyden verify [OPTIONS] <MODEL> --data <DATA> --floor <FLOORS>\n       \
    leyden verify --check <EVIDENCE> [--model <MODEL>]",
    after_help = "Exit codes: 0 PASS, 1 FAIL or evidence that does not hold, 2 wrong usage, 3 INCONCLUSIVE.\n\nExamples:\n  \
    leyden verify small.gguf --reference big.gguf --data arc_easy=arc.jsonl \\\n    \
    --data wiki.txt --floor 'accuracy>=0.95*ref, kld<=0.05'\n  \
    leyden verify small --reference big --data rows.csv --floor 'accuracy>=0.8'\n  \
    leyden verify small.gguf --load 'users=20, ttft_p95=2s, user_tps>=5'\n  \
    leyden verify --check small.gguf.evidence.json"
)]
pub(crate) struct Args {
    /// The model: a file, a folder, the name of a pulled model or its reference
    #[arg(conflicts_with = "check")]
    pub(super) model: Option<PathBuf>,
    /// Model to compare with
    #[arg(long, value_name = "MODEL")]
    pub(super) reference: Option<PathBuf>,
    /// Data: a text (.txt), questions with answers, or texts with labels (.csv, .tsv, .json, .jsonl, .parquet), or TASK=FILE with
    /// the published data of a task of leyden eval; may be repeated
    #[arg(long, value_name = "DATA")]
    pub(super) data: Vec<String>,
    /// Conditions, separated by commas: accuracy>=0.95*ref, accuracy>=0.8, kld<=0.05, perplexity<=1.02*ref, same_top>=0.9;
    /// NAME.accuracy is of the data of that name alone
    #[arg(long, value_name = "FLOORS", requires = "data")]
    pub(super) floor: Option<Floors>,
    /// Load on the model's server and its limits, separated by commas: users=20, ttft_p95=2s, user_tps>=5; also rate,
    /// duration, warmup, requests, prompt and output as leyden load has them
    #[arg(long, value_name = "LIMITS")]
    pub(super) load: Option<LoadSpec>,
    /// File for the evidence; by default MODEL.evidence.json beside the model
    #[arg(long, value_name = "FILE")]
    pub(super) evidence: Option<PathBuf>,
    /// Key that signs, or with --check the key to trust; by default leyden/verify.key in the user's configuration folder, made
    /// when it is first needed
    #[arg(long, value_name = "FILE")]
    pub(super) key: Option<PathBuf>,
    /// Days until a key that is made now expires
    #[arg(long, value_name = "DAYS", default_value_t = leyden_verify::DEFAULT_DAYS, value_parser = clap::value_parser!(u32).range(1..=36500))]
    pub(super) key_days: u32,
    /// Write a page with the verdict and everything that it depends on
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,
    /// Check evidence: its signature, and whether it holds for the files, the program and the processor that are here
    #[arg(
        long,
        value_name = "EVIDENCE",
        conflicts_with_all = ["reference", "data", "floor", "load", "evidence", "report"]
    )]
    pub(super) check: Option<PathBuf>,
    /// Model to compare with the evidence of --check; by default the one at the path that it names
    #[arg(id = "checked", long = "model", value_name = "MODEL", requires = "check")]
    pub(super) checked: Option<PathBuf>,
    /// Use the first so many questions of each file
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Column with the text or prompt, where its name is neither `text` nor `prompt`
    #[arg(long, value_name = "NAME")]
    pub(super) column: Option<String>,
    /// Column with the right label, where its name is not `label`
    #[arg(long, value_name = "NAME")]
    pub(super) label: Option<String>,
    /// Format of the files of questions, where their endings do not tell it: csv, tsv, json, jsonl or parquet
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<Format>,
    /// Tokens of a text window
    #[arg(short = 'c', long = "ctx", visible_alias = "ctx-size", value_name = "N", default_value_t = CONTEXT)]
    pub(super) context: usize,
    /// Use the first so many windows of each text; by default all
    #[arg(long, value_name = "N")]
    pub(super) chunks: Option<usize>,
    /// Seed of resampling and of the load
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,
    /// Threads; by default one per physical core that may be used
    #[arg(short = 't', long, value_name = "N")]
    pub(super) threads: Option<usize>,
    /// Storage of keys and values: f32, f16 or q8_0
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = run::kv_type)]
    pub(super) kv_type: KvType,
    #[command(flatten)]
    pub(super) arithmetic: Arithmetic,
    /// Print one JSON object: the signed evidence, or the result of --check
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) notes: Notes,
}

impl Args {
    /// Returns the options with which models are loaded.
    pub(super) fn load_options(&self) -> LoadOptions {
        let Arithmetic { isa, exact, int8 } = self.arithmetic;
        LoadOptions::new().threads(self.threads).isa(isa).exact(exact).int8(int8)
    }

    /// Returns the settings for the evidence.
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        let isa = match self.arithmetic.isa {
            Some(level) => level,
            None => Cpu::default_tier().map_err(Failure::usage)?.level(),
        };
        Ok(Settings {
            floor: self.floor.as_ref().map(ToString::to_string),
            load: self.load.as_ref().map(ToString::to_string),
            confidence: 0.95,
            seed: self.seed,
            kv_type: self.kv_type.name().to_owned(),
            isa: isa.name().to_owned(),
            exact: self.arithmetic.exact,
            int8: self.arithmetic.int8,
            threads: self.threads,
            ctx: self.context,
            chunks: self.chunks,
            limit: self.limit,
            column: self.column.clone(),
            label: self.label.clone(),
        })
    }
}
