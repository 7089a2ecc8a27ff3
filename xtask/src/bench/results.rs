//! Result files: one per machine and day.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folder of all results, relative to the root.
pub(super) const FOLDER: &str = "bench/results";
/// Subfolder with results of servers under load.
const SERVING: &str = "serving";

/// Results of one machine on one day.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Results {
    /// Processor and number of cores.
    pub(super) machine: String,
    /// Instruction sets that determine the speed.
    pub(super) isa: String,
    pub(super) threads: usize,
    /// `YYYY-MM-DD`.
    pub(super) date: String,
    /// Commit of leyden.
    pub(super) commit: String,
    /// Peers, with version and build.
    pub(super) peers: BTreeMap<String, String>,
    /// Command that reproduces the tests.
    pub(super) command: String,
    /// Peaks of the machine, measured in the same runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ceilings: Option<Ceilings>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
    pub(super) tests: Vec<Test>,
}

/// Measured peaks of a machine.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ceilings {
    /// Read bandwidth, 10^9 bytes per second.
    pub(super) read_gb_s: f64,
    /// Multiply-accumulates per second, 10^9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) int8_gmac_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) f32_gmac_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bf16_gmac_s: Option<f64>,
}

/// One test of one model, with or without a peer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Test {
    /// Shape: `1B` is Llama-3.2-1B's, `8B` Llama-3.1-8B's, others by name.
    pub(super) model: String,
    /// Weight type.
    #[serde(rename = "type")]
    pub(super) dtype: String,
    /// Test in llama-bench's notation, with extensions.
    pub(super) test: String,
    /// Tokens per second of all sequences; the median if samples were kept.
    pub(super) leyden_ts: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) peer_ts: Option<f64>,
    /// Ratio of the medians of alternating samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ratio_low: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ratio_high: Option<f64>,
    /// Share of the peak that `share_of` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) share: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) share_of: Option<String>,
}

/// Servers under load, compared.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Serving {
    pub(super) model: String,
    pub(super) peer: String,
    pub(super) commands: Vec<String>,
    pub(super) runs: Vec<Load>,
}

/// One load on one machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Load {
    pub(super) machine: String,
    pub(super) date: String,
    pub(super) commit: String,
    pub(super) load: String,
    /// Figure, leyden's value, the peer's value.
    pub(super) rows: Vec<(String, f64, f64)>,
}

/// Reads the newest results of every machine, in the order of the folders' names.
pub(super) fn newest(root: &Path) -> Result<Vec<Results>, String> {
    let mut all = Vec::new();
    for folder in entries(&root.join(FOLDER))? {
        if folder.file_name().is_none_or(|name| name == SERVING) {
            continue;
        }
        let file = entries(&folder)?.pop().ok_or_else(|| format!("{}: no results", folder.display()))?;
        let results: Results = read(&file)?;
        if file.file_stem().is_none_or(|stem| stem != results.date.as_str()) {
            return Err(format!("{}: `date` is {}", file.display(), results.date));
        }
        all.push(results);
    }
    Ok(all)
}

/// Reads the newest results of servers under load.
pub(super) fn serving(root: &Path) -> Result<Serving, String> {
    let folder = root.join(FOLDER).join(SERVING);
    let file = entries(&folder)?.pop().ok_or_else(|| format!("{}: no results", folder.display()))?;
    read(&file)
}

/// Returns the entries of a folder, sorted by name.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        all.push(entry.map_err(failed)?.path());
    }
    all.sort();
    Ok(all)
}

fn read<T: for<'de> Deserialize<'de>>(file: &Path) -> Result<T, String> {
    let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))
}
