//! Where the bytes of a file are: mapped, part of the program, or in memory.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::mmap::Mapping;

/// The bytes of a file and what they are called in messages.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) bytes: Bytes,
    pub(super) path: PathBuf,
    pub(super) label: Arc<str>,
}

#[derive(Debug)]
pub(super) enum Bytes {
    Mapped(Mapping),
    Static(&'static [u8]),
    Owned(Vec<u8>),
}

impl Source {
    pub(super) fn new(bytes: Bytes, path: PathBuf) -> Arc<Source> {
        let label = path.display().to_string().into();
        Arc::new(Source { bytes, path, label })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(mapping) => mapping.bytes(),
            Bytes::Static(bytes) => bytes,
            Bytes::Owned(bytes) => bytes,
        }
    }

    /// The bytes of a range that was checked when the file was opened.
    pub(super) fn slice(&self, range: &Range<usize>) -> &[u8] {
        self.bytes().get(range.clone()).unwrap_or_default()
    }

    pub(super) fn mapping(&self) -> Option<&Mapping> {
        match &self.bytes {
            Bytes::Mapped(mapping) => Some(mapping),
            _ => None,
        }
    }
}
