//! `cargo xtask nightly`: runs `.ci/nightly` and writes its result to `.ci/nightly.json`.
//!
//! The gate reads the commit there: if the kernels have not changed since, it skips their emulated tests.

use serde::Serialize;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Serialize)]
struct Outcome {
    date: String,
    commit: String,
    passed: bool,
    /// Lines of the summary: step, verdict, seconds.
    summary: Vec<String>,
}

/// Runs all steps; returns an error if one failed. The result is written in either case.
pub(crate) fn run(root: &Path, _: &[String]) -> Result<(), String> {
    let changed = output(root, "git", &["status", "--porcelain", "--untracked-files=no"])?;
    if !changed.is_empty() {
        return Err("commit your changes first: the result is that of a commit".to_owned());
    }
    let commit = output(root, "git", &["rev-parse", "HEAD"])?;
    let mut script = Command::new("bash")
        .arg(".ci/nightly")
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
    let result = Outcome { date: output(root, "date", &["-u", "+%Y-%m-%d"])?, commit, passed, summary };
    let text = serde_json::to_string_pretty(&result).map_err(|e| e.to_string())?;
    crate::bench::write(&root.join(".ci/nightly.json"), &(text + "\n"))?;
    if passed { Ok(()) } else { Err("a step failed".to_owned()) }
}

fn output(root: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).current_dir(root).output();
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "{program} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
