//! Test data outside the repository, in the folder `shared` beside it.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Returns the path of a file or folder of the shared data; prints a notice and returns `None` if it is absent.
///
/// # Panics
/// If it is absent under `LEYDEN_CI`.
#[must_use]
pub fn shared(path: &str) -> Option<PathBuf> {
    let full = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(path);
    if full.exists() {
        return Some(full);
    }
    skip(&format!("../shared/{path} is absent"));
    None
}

/// Prints why a test is skipped.
///
/// # Panics
/// Under `LEYDEN_CI`, where no test may be skipped.
pub fn skip(why: &str) {
    assert!(!crate::knobs::ci(), "{why}");
    // Not `eprintln!`, whose output is captured in a passing test.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}
