//! File operations that survive a loss of power: first the content is flushed, then the name, then its folder.

use std::fs;
use std::io;
use std::path::Path;

use leyden_files::OutputOptions;

use crate::error::{Error, Result};

/// Creates a folder below `root`, and its parents.
pub(crate) fn make_folder(root: &Path, folder: &Path) -> Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(Error::io("create the folder", folder))?;
    // From the inside out: a name survives a loss of power if its folder was flushed.
    for parent in folder.ancestors().skip(1).take_while(|parent| parent.starts_with(root)) {
        flush_folder(parent)?;
    }
    Ok(())
}

/// Flushes a folder's directory entries.
pub(crate) fn flush_folder(folder: &Path) -> Result<()> {
    leyden_files::sync_folder(folder).map_err(Error::io("flush the folder", folder))
}

/// Renames a flushed file to its final name, replacing an existing file.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(Error::io("rename", from))?;
    flush_folder(to.parent().unwrap_or(Path::new(".")))
}

/// Writes a small file; readers get the old content or the new.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<()> {
    leyden_files::write(path, content, OutputOptions::new().files_only()).map_err(Error::io("write", path))
}

/// Removes a file, which may not exist.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}
