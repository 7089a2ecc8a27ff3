//! [`FileSet`]: files with their sizes and SHA-256.

use crate::error::Error;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Size of the buffer for reading files, in bytes.
const BUFFER_BYTES: usize = 1 << 20;
/// Maximum depth of folders within a model's folder.
const MAX_DEPTH: usize = 4;
/// Maximum number of files in a set.
const MAX_FILES: usize = 10_000;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileHash {
    /// Path below the folder of the set.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal digits.
    pub sha256: String,
}

/// Files that belong together: those of a model, or one file of data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSet {
    /// Path when the files were hashed.
    pub path: String,
    /// Files in the order of their names.
    pub files: Vec<FileHash>,
}

impl FileSet {
    /// Hashes all files of a folder but hidden ones, or those of `files` if `path` is not a folder. Links are followed.
    ///
    /// # Errors
    /// A file cannot be read, or there are too many.
    pub fn of(path: &Path, files: &[PathBuf]) -> Result<FileSet, Error> {
        let mut all: Vec<(String, PathBuf)> = Vec::new();
        if path.is_dir() {
            walk(path, "", 0, &mut all)?;
        } else {
            let name = |file: &PathBuf| {
                file.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned())
            };
            all.extend(files.iter().map(|file| (name(file), file.clone())));
        }
        if all.is_empty() {
            return Err(Error::file(path, "no files in it"));
        }
        all.sort();
        all.dedup();
        let hash = |(name, file): &(String, PathBuf)| -> Result<FileHash, Error> {
            let (bytes, sha256) = hash(file)?;
            Ok(FileHash { name: name.clone(), bytes, sha256 })
        };
        let files = all.iter().map(hash).collect::<Result<_, Error>>()?;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Ok(FileSet { path: path.display().to_string(), files })
    }

    /// Returns the size of all files in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

fn walk(folder: &Path, below: &str, depth: usize, all: &mut Vec<(String, PathBuf)>) -> Result<(), Error> {
    let failed = |error| Error::file(folder, format!("cannot read: {error}"));
    if depth > MAX_DEPTH {
        return Err(Error::file(folder, format!("folders within folders, more than {MAX_DEPTH}")));
    }
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if name.starts_with('.') {
            continue;
        }
        let name = format!("{below}{name}");
        if path.is_dir() {
            walk(&path, &format!("{name}/"), depth + 1, all)?;
        } else {
            all.push((name, path));
        }
        if all.len() > MAX_FILES {
            return Err(Error::file(folder, format!("more than {MAX_FILES} files")));
        }
    }
    Ok(())
}

/// Returns the SHA-256 of a file in hexadecimal digits.
///
/// # Errors
/// It cannot be read.
pub fn sha256_of_file(path: &Path) -> Result<String, Error> {
    hash(path).map(|(_, sha256)| sha256)
}

fn hash(path: &Path) -> Result<(u64, String), Error> {
    let failed = |error| Error::file(path, format!("cannot read: {error}"));
    // Opening a FIFO would wait for a writer.
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Error::file(path, "not a regular file"));
    }
    let mut file = File::open(path).map_err(failed)?;
    let (mut hasher, mut buffer, mut bytes) = (Sha256::new(), vec![0; BUFFER_BYTES], 0);
    loop {
        match file.read(&mut buffer).map_err(failed)? {
            0 => break,
            n => {
                hasher.update(&buffer[..n]);
                bytes += n as u64;
            }
        }
    }
    Ok((bytes, hex(&hasher.finalize())))
}

/// Returns bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses `N` bytes in hexadecimal digits.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != 2 * N || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut out = [0; N];
    for (i, byte) in out.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn folders_and_files_are_hashed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("1_Pooling")).unwrap();
        fs::write(at("1_Pooling/config.json"), "abc").unwrap();
        fs::write(at("b"), "abc").unwrap();
        fs::write(at(".hidden"), "abc").unwrap();
        let set = FileSet::of(folder.path(), &[]).unwrap();
        let names: Vec<&str> = set.files.iter().map(|file| &file.name[..]).collect();
        assert_eq!(names, ["1_Pooling/config.json", "b"]);
        assert!(set.files.iter().all(|file| file.sha256 == ABC && file.bytes == 3));
        assert_eq!((set.bytes(), sha256_of_file(&at("b")).unwrap()), (6, ABC.to_owned()));
        let one = FileSet::of(&at("b"), &[at("b")]).unwrap();
        assert_eq!(one.files, [FileHash { name: "b".to_owned(), bytes: 3, sha256: ABC.to_owned() }]);
        for error in [FileSet::of(&at("none"), &[at("none")]), FileSet::of(&at("none"), &[])] {
            assert!(error.unwrap_err().to_string().contains("none: "));
        }
        assert_eq!(unhex(&hex(&[0, 255, 17])), Some([0, 255, 17]));
        assert_eq!((unhex::<1>("0g"), unhex::<1>("000"), unhex::<1>("é")), (None, None, None));
    }
}
