//! [`Entry`]: a file that is put into a bundle.

use std::path::PathBuf;

/// Content of a file that is put into a bundle.
#[derive(Clone, Debug)]
pub enum Content {
    /// Bytes.
    Bytes(Vec<u8>),
    /// A file on the disk, with its SHA-256 if it is known.
    File(PathBuf, Option<String>),
}

/// A file that is put into a bundle.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Name of the entry.
    pub name: String,
    /// Its content.
    pub content: Content,
}

impl Entry {
    /// Returns an entry with these bytes.
    #[must_use]
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Entry {
        Entry { name: name.into(), content: Content::Bytes(bytes.into()) }
    }

    /// Returns an entry with the content of a file.
    #[must_use]
    pub fn file(name: impl Into<String>, path: impl Into<PathBuf>, sha256: Option<String>) -> Entry {
        Entry { name: name.into(), content: Content::File(path.into(), sha256) }
    }
}
