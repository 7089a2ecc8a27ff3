//! Reading of the files that `leyden calibrate` writes.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use leyden::calibration::{Calibration, MAX_DOCUMENT_BYTES};

use super::failure::Failure;

/// Reads a calibration.
///
/// # Errors
/// The file cannot be read, or is no calibration.
pub(super) fn read(path: &Path) -> Result<Calibration, Failure> {
    let shown = path.display();
    let cannot = |error: &dyn std::fmt::Display| Failure::new(format!("{shown}: cannot read: {error}"));
    // Opening a FIFO would wait for a writer.
    let meta = path
        .metadata()
        .map_err(|error| cannot(&error).hint("leyden calibrate MODEL --data LABELLED -o FILE makes it"))?;
    if !meta.is_file() {
        return Err(cannot(&"not a regular file"));
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| cannot(&error))?;
    file.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes).map_err(|error| cannot(&error))?;
    Calibration::from_json(&bytes).map_err(|error| {
        Failure::new(format!("{shown}: {error}"))
            .hint("leyden calibrate MODEL --data LABELLED -o FILE makes such a file; make it again")
    })
}
