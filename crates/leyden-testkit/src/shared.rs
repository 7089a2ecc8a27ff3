//! Test data that is not part of the repository lies in the folder `shared` beside it.

use std::io::Write;
use std::path::{Path, PathBuf};

/// The path of a file or folder of the shared data; `None`, with the reason printed, where it is absent.
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

/// Says why a test does not run here.
///
/// # Panics
/// Under `LEYDEN_CI`, where every test must run.
pub fn skip(why: &str) {
    assert!(!crate::knobs::ci(), "{why}");
    // Not `eprintln!`, which a test that passes keeps to itself.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}
