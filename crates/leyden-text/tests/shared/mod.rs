//! Where test data that is not part of the repository lies.

use std::io::Write;
use std::path::{Path, PathBuf};

/// The path of a file or folder of the shared data. Without it the caller returns early: the reason is
/// printed, and under `LEYDEN_CI=1` the test fails instead.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let full = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")).join(path);
    if full.exists() {
        return Some(full);
    }
    assert!(std::env::var_os("LEYDEN_CI").is_none_or(|v| v != "1"), "{} is missing", full.display());
    // Not `eprintln!`, which a test that passes keeps to itself.
    let _ = writeln!(std::io::stderr(), "skipped: {} is missing", full.display());
    None
}
