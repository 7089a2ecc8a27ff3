//! Documents of every format, read as a user has them, and hostile ones.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod folders;
mod hostile;
mod samples;

use leyden_documents::{Document, Error, Limits, read};
use std::path::{Path, PathBuf};

/// Path of a sample.
fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents").join(name)
}

/// Limits whose documents are read in a child process.
fn in_child() -> Limits {
    let mut limits = Limits::default();
    limits.program = Some(env!("CARGO_BIN_EXE_leyden-document").into());
    limits
}

/// Reads a document in a thread and in a child process, which must agree.
fn both(path: &Path) -> Result<Document, String> {
    let reason = |error: Error| {
        assert_eq!(error.to_string(), format!("{}: {}", path.display(), error.reason));
        error.reason
    };
    let here = read(path, &Limits::default()).map_err(reason);
    assert_eq!(here, read(path, &in_child()).map_err(reason));
    here
}

/// Writes a file into a folder and reads it both ways.
fn written(folder: &Path, name: &str, bytes: &[u8]) -> Result<Document, String> {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    both(&path)
}
