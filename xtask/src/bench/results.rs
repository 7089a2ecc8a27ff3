//! Result files: one per machine and day.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folder of all results, from the root.
pub(super) const FOLDER: &str = "bench/results";
/// The folder under it whose files are of servers under load.
const SERVING: &str = "serving";

/// What one machine measured on one day.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Results {
    /// Processor and number of cores.
    pub(super) machine: String,
    /// The instruction sets that decide.
    pub(super) isa: String,
    pub(super) threads: usize,
    /// `YYYY-MM-DD`.
    pub(super) date: String,
    /// Of leyden.
    pub(super) commit: String,
    /// Other programs, with version and build.
    pub(super) peers: BTreeMap<String, String>,
    /// What reproduces the tests.
    pub(super) command: String,
    /// What the machine could do at most, measured in the same runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ceilings: Option<Ceilings>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<String>,
    pub(super) tests: Vec<Test>,
}

/// Peaks of a machine.
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

/// One test of one model, beside a peer or alone.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Test {
    /// Shape: `1B` is Llama-3.2-1B's, `8B` Llama-3.1-8B's, others by name.
    pub(super) model: String,
    /// Weight type.
    #[serde(rename = "type")]
    pub(super) dtype: String,
    /// llama-bench's name, or what it adds.
    pub(super) test: String,
    /// Tokens per second, of all sequences; a median where samples were kept.
    pub(super) leyden_ts: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) peer_ts: Option<f64>,
    /// Of the medians of samples taken in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ratio_low: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ratio_high: Option<f64>,
    /// Share of the ceiling that `share_of` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) share: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) share_of: Option<String>,
}

/// Servers under load, side by side.
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
    /// Figure, leyden's value, the peer's.
    pub(super) rows: Vec<(String, f64, f64)>,
}

/// The newest results of every machine, in the order of the folders' names.
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

/// The newest loads on servers.
pub(super) fn serving(root: &Path) -> Result<Serving, String> {
    let folder = root.join(FOLDER).join(SERVING);
    let file = entries(&folder)?.pop().ok_or_else(|| format!("{}: no results", folder.display()))?;
    read(&file)
}

/// What lies in a folder, sorted by name.
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
