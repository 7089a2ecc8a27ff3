//! [`Evidence`]: the document of a verdict.

use crate::date::Time;
use crate::files::FileSet;
use crate::judge::Judgement;
use crate::verdict::Verdict;
use serde::{Deserialize, Serialize};

/// Name of the format in the document.
pub(crate) const FORMAT: &str = "leyden-evidence";
/// Version of the format.
pub(crate) const VERSION: u32 = 1;

/// Verdict with everything that it depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// `leyden-evidence`.
    pub format: String,
    /// Version of the format.
    pub version: u32,
    /// Joint verdict.
    pub verdict: Verdict,
    /// Time at which it was made.
    pub made: Time,
    /// Results of the floors.
    pub floors: Vec<Judgement>,
    /// Result of the load.
    pub load: Option<LoadResult>,
    /// Files of the model.
    pub model: FileSet,
    /// Files of the reference.
    pub reference: Option<FileSet>,
    /// Files of data.
    pub data: Vec<FileSet>,
    /// Program.
    pub program: Program,
    /// Settings.
    pub settings: Settings,
    /// Machine.
    pub machine: Machine,
}

/// Program that made a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Version.
    pub version: String,
    /// SHA-256 of the executable file.
    pub sha256: String,
}

/// Settings of a verification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Floors as given.
    pub floor: Option<String>,
    /// Load as given.
    pub load: Option<String>,
    /// Confidence of verdicts.
    pub confidence: f64,
    /// Seed of resampling and load.
    pub seed: u64,
    /// Storage type of keys and values.
    pub kv_type: String,
    /// Instruction-set tier.
    pub isa: String,
    /// True if BF16 weights are multiplied with activations that are not rounded.
    pub exact: bool,
    /// True if float weights are multiplied in 8-bit integers.
    pub int8: bool,
    /// Number of threads; absent for the default.
    pub threads: Option<usize>,
    /// Tokens of a text window.
    pub ctx: usize,
    /// Maximum number of windows.
    pub chunks: Option<usize>,
    /// Maximum number of questions of each file.
    pub limit: Option<usize>,
    /// Column of the text.
    pub column: Option<String>,
    /// Column of the label.
    pub label: Option<String>,
}

/// Machine on which a verdict was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Architecture.
    pub arch: String,
    /// Marketing name of the processor.
    pub processor: String,
    /// Vendor of the processor.
    pub vendor: Option<String>,
    /// Family, model and stepping of the processor.
    pub model: Option<String>,
    /// Number of cores that may be used.
    pub cores: usize,
    /// Operating system and its version.
    pub os: String,
}

/// Result of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadResult {
    /// Verdict on all limits.
    pub verdict: Verdict,
    /// Description of the requests.
    pub requests: String,
    /// Number of complete requests that count.
    pub completed: usize,
    /// Number of failed requests.
    pub failed: usize,
    /// Measured seconds.
    pub seconds: f64,
    /// Answer tokens per second of all users.
    pub output_tps: f64,
    /// Results of the limits.
    pub limits: Vec<LimitResult>,
}

/// Result of one limit of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitResult {
    /// Text of the limit.
    pub limit: String,
    /// Measured percentile in seconds, or in tokens per second; absent if too many requests failed.
    pub value: Option<f64>,
    /// Number of samples.
    pub samples: usize,
    /// Verdict.
    pub verdict: Verdict,
}

impl Evidence {
    /// Returns the name of the format and its version, for a new document.
    #[must_use]
    pub fn format() -> (String, u32) {
        (FORMAT.to_owned(), VERSION)
    }

    /// Returns the joint verdict of floors and load.
    #[must_use]
    pub fn joint(floors: &[Judgement], load: Option<&LoadResult>) -> Verdict {
        let all = floors.iter().map(|floor| floor.verdict).chain(load.map(|load| load.verdict));
        all.reduce(Verdict::and).unwrap_or(Verdict::Inconclusive)
    }

    /// Returns the confidence in the joint verdict of the floors: of a PASS the smallest of theirs, of a FAIL the
    /// largest of those that fail; `None` without floors.
    #[must_use]
    pub fn confidence(&self) -> Option<f64> {
        let of = |verdict| self.floors.iter().filter(move |f| f.verdict == verdict).map(|f| f.confidence);
        match self.verdict {
            Verdict::Pass => of(Verdict::Pass).reduce(f64::min),
            Verdict::Fail => of(Verdict::Fail).reduce(f64::max),
            Verdict::Inconclusive => of(Verdict::Inconclusive).reduce(f64::min),
        }
    }
}
