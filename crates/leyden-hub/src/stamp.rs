//! [`Stamp`]: state of the store's records, which shows changes without reading the records.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::named;
use crate::store::{self, Store};

/// State of the store's records at one moment: path, inode, length and time of change of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp(Vec<(PathBuf, u64, u64, SystemTime)>);

impl Store {
    /// Returns the state of the records; `None` if a folder cannot be read. Two equal states mean that no model was pulled,
    /// named or removed in between.
    #[must_use]
    pub fn stamp(&self) -> Option<Stamp> {
        let mut records = Vec::new();
        for organisation in folders(&self.root().join("hf"))? {
            for repo in folders(&organisation)? {
                records.push(repo.join(store::RECORD));
            }
        }
        records.extend(folders(&self.root().join("named"))?.into_iter().map(|name| name.join(named::RECORD)));
        records.sort();
        let state = |path: PathBuf| {
            let metadata = fs::metadata(&path).ok()?;
            Some((path, metadata.ino(), metadata.len(), metadata.modified().ok()?))
        };
        Some(Stamp(records.into_iter().filter_map(state).collect()))
    }
}

/// Lists the entries of a folder; none if it does not exist.
fn folders(path: &Path) -> Option<Vec<PathBuf>> {
    match fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(Vec::new()),
        // A file in the place of a folder does not belong to the store.
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => Some(Vec::new()),
        entries => Some(entries.ok()?.flatten().map(|entry| entry.path()).collect()),
    }
}
