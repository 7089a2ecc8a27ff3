//! [`folder`]: documents of a folder.

use crate::{Error, Format};
use std::path::{Path, PathBuf};

/// Maximum depth of nested folders.
const MAX_DEPTH: usize = 64;
/// Maximum number of files of a folder.
const MAX_FILES: usize = 10_000_000;

/// Documents of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Folder {
    /// Files of known formats, sorted by path.
    pub files: Vec<PathBuf>,
    /// Other files and folders with the reason for which they are left out, sorted by path.
    pub skipped: Vec<(PathBuf, String)>,
}

/// Returns the documents in a folder and the folders in it, sorted by path. Hidden files, files of unknown formats and links to
/// folders are skipped, with the reason.
///
/// # Errors
/// The folder cannot be read.
pub fn folder(path: &Path) -> Result<Folder, Error> {
    let mut folder = Folder::default();
    let mut open = vec![(path.to_path_buf(), 0)];
    while let Some((at, depth)) = open.pop() {
        let entries = match std::fs::read_dir(&at) {
            Ok(entries) => entries,
            Err(error) if depth == 0 => {
                return Err(Error::of(&at, format!("cannot list the folder: {error}")));
            }
            Err(error) => {
                folder.skipped.push((at, format!("cannot list the folder: {error}")));
                continue;
            }
        };
        for entry in entries {
            let entry = entry.map_err(|error| Error::of(&at, format!("cannot list the folder: {error}")))?;
            let file = entry.path();
            if folder.files.len() + folder.skipped.len() + open.len() >= MAX_FILES {
                return Err(Error::of(path, format!("more than {MAX_FILES} files")));
            }
            match kind(&file) {
                Ok(Kind::Document) => folder.files.push(file),
                Ok(Kind::Folder) if depth + 1 < MAX_DEPTH => open.push((file, depth + 1)),
                Ok(Kind::Folder) => {
                    folder.skipped.push((file, format!("nested deeper than {MAX_DEPTH} folders")))
                }
                Err(reason) => folder.skipped.push((file, reason)),
            }
        }
    }
    folder.files.sort_unstable();
    folder.skipped.sort_unstable();
    Ok(folder)
}

enum Kind {
    Document,
    Folder,
}

/// Tells what a path is, or the reason to skip it.
fn kind(path: &Path) -> Result<Kind, String> {
    if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")) {
        return Err("hidden".to_owned());
    }
    let meta = std::fs::metadata(path).map_err(|error| format!("cannot read: {error}"))?;
    if meta.is_dir() {
        return match path.is_symlink() {
            true => Err("a link to a folder".to_owned()),
            false => Ok(Kind::Folder),
        };
    }
    if !meta.is_file() {
        return Err("neither a file nor a folder".to_owned());
    }
    Format::of_path(path).map(|_| Kind::Document)
}
