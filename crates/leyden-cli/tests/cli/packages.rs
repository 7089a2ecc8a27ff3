//! The parts of `python/leyden-ray` and `examples/rag` that need no cluster, store or model: their own tests, in seconds. The others are
//! steps of the nightly run.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use leyden_testkit::emulated;

/// Packages that the tests import.
const NEEDS: &str = "pytest, aiohttp, jsonschema, numpy, openai";

/// Runs tests of a folder with the built program; nothing if Python or a package is not there.
fn pytest(folder: &str, arguments: &[&str]) {
    if emulated() {
        let _ = writeln!(std::io::stderr(), "skipped: Python's packages are the same for every processor");
        return;
    }
    let found = Command::new("python3").args(["-c", &format!("import {NEEDS}")]).output();
    if !found.is_ok_and(|o| o.status.success()) {
        assert!(std::env::var_os("LEYDEN_CI").is_none(), "python3 with the packages {NEEDS}");
        let _ = writeln!(std::io::stderr(), "skipped: no python3 with the packages {NEEDS}");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let output = Command::new("python3")
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
        .args(arguments)
        .current_dir(&folder)
        .env("LEYDEN", env!("CARGO_BIN_EXE_leyden"))
        .env("PYTHONPATH", &folder)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && out.contains(" passed"),
        "{out}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let _ = writeln!(std::io::stderr(), "{}: {}", folder.display(), out.lines().last().unwrap_or_default());
}

#[test]
fn many_machines_without_a_cluster() {
    let files = ["units", "program", "affinity", "router", "simulate", "docs"]
        .map(|name| format!("tests/test_{name}.py"));
    let mut arguments: Vec<&str> = files.iter().map(String::as_str).collect();
    arguments.extend(["-k", "not rows_of and not scales"]);
    pytest("python/leyden-ray", &arguments);
}

#[test]
fn answers_from_documents_without_models() {
    pytest("examples/rag", &["tests/test_parts.py"]);
}
