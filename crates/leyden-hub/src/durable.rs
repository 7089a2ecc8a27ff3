//! File operations that survive a loss of power: content first, then the name, then the folder that holds the name.

use std::fs;
use std::io;
use std::path::Path;

use leyden_files::OutputOptions;

use crate::error::{Error, Result};

/// Makes a folder below `root`, and its parents.
pub(crate) fn make_folder(root: &Path, folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(Error::io("create the folder", folder))?;
    // From the inside out: a name is found after a loss of power if the folder that holds it was flushed.
    for parent in folder.ancestors().skip(1).take_while(|parent| parent.starts_with(root)) {
        flush_folder(parent)?;
    }
    Ok(())
}

/// Flushes the names in a folder.
pub(crate) fn flush_folder(folder: &Path) -> Result<()> {
    leyden_files::sync_folder(folder).map_err(Error::io("flush the folder", folder))
}

/// Gives a flushed file its final name, replacing what has it.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(Error::io("rename", from))?;
    flush_folder(to.parent().unwrap_or(Path::new(".")))
}

/// Writes a small file; readers see the old content or the new.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<()> {
    leyden_files::write(path, content, OutputOptions::new().files_only()).map_err(Error::io("write", path))
}

/// Removes a file that may be gone already.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}
