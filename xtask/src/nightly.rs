//! `cargo xtask nightly`: runs `.ci/nightly` and writes its result to `.ci/nightly.json`.
//!
//! The gate reads the commit of a complete run there: if the kernels have not changed since, it skips their emulated
//! tests.

use crate::command::output;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Record of a run.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outcome {
    /// Day of the run.
    pub(crate) date: String,
    /// Commit that was tested.
    pub(crate) commit: String,
    /// True if no step failed.
    pub(crate) passed: bool,
    /// True if every step was run.
    pub(crate) complete: bool,
    /// Lines of the summary: step, verdict, seconds.
    pub(crate) summary: Vec<String>,
}

/// Runs the named steps, or all; returns an error if one failed. The result is written in either case.
pub(crate) fn run(root: &Path, steps: &[String]) -> Result<(), String> {
    let changed = output(root, "git", &["status", "--porcelain", "--untracked-files=no"])?;
    if !changed.is_empty() {
        return Err("commit your changes first: the result is that of a commit".to_owned());
    }
    let commit = output(root, "git", &["rev-parse", "HEAD"])?;
    let mut script = Command::new("bash")
        .arg(".ci/nightly")
        .args(steps)
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("bash: {e}"))?;
    let mut summary = Vec::new();
    let mut at_the_end = false;
    for line in BufReader::new(script.stdout.take().ok_or("no output")?).lines().map_while(Result::ok) {
        println!("{line}");
        at_the_end |= line == "=== summary";
        if at_the_end && line != "=== summary" {
            summary.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    let passed = script.wait().map_err(|e| e.to_string())?.success();
    let complete = !summary.is_empty() && !summary.iter().any(|line| line.contains(" not run: "));
    let date = output(root, "date", &["-u", "+%Y-%m-%d"])?;
    let result = Outcome { date, commit, passed, complete, summary };
    let text = serde_json::to_string_pretty(&result).map_err(|e| e.to_string())?;
    crate::bench::write(&root.join(".ci/nightly.json"), &(text + "\n"))?;
    if passed { Ok(()) } else { Err("a step failed".to_owned()) }
}
