//! File operations that survive a loss of power: first the content is flushed, then the name, then its folder.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use leyden_files::OutputOptions;
use serde::de::DeserializeOwned;

use crate::error::{Error, ErrorKind, Result};

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

/// Reads a record in JSON of at most `max_bytes`; `None` if there is no file.
pub(crate) fn read_record<T: DeserializeOwned>(path: &Path, max_bytes: u64) -> Result<Option<T>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(Error::io("open", path))?,
    };
    let mut bytes = Vec::new();
    file.take(max_bytes).read_to_end(&mut bytes).map_err(Error::io("read", path))?;
    let damaged = |error: serde_json::Error| {
        Error::new(path.display().to_string(), ErrorKind::Record(error.to_string()))
    };
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

/// Removes a file, which may not exist.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path)(error)),
        _ => Ok(()),
    }
}
