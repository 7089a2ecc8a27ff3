//! The bytes of a file: mapped, part of the program, or in memory.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::mmap::Mapping;
use crate::error::{Error, ErrorKind};

/// The bytes of a file and its name in messages.
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
    /// Bytes that were decoded value by value from another source.
    Derived(Vec<u8>, Arc<Source>),
}

impl Source {
    pub(super) fn new(bytes: Bytes, path: PathBuf) -> Arc<Source> {
        let label = path.display().to_string().into();
        Arc::new(Source { bytes, path, label })
    }

    /// Maps a file.
    ///
    /// # Errors
    /// The file cannot be read or is not a regular file. The error names it.
    pub(super) fn open(path: &Path) -> Result<Arc<Source>, Error> {
        let label: Arc<str> = path.display().to_string().into();
        let mapping = map(path).map_err(|kind| Error::new(kind).file(&label))?;
        let bytes = mapping.map_or(Bytes::Static(&[]), Bytes::Mapped);
        Ok(Arc::new(Source { bytes, path: path.into(), label }))
    }

    /// Returns the result of `read` on this source, or an error if pages could not be read meanwhile: the result
    /// would then not be that of the file. Errors name the file.
    pub(super) fn read_checked<T>(
        self: &Arc<Self>,
        read: impl FnOnce(&Arc<Self>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let result = read(self);
        self.check_intact()?;
        result.map_err(|e| e.file(&self.label))
    }

    /// Returns an error if a page could not be read since the file was opened.
    pub(super) fn check_intact(&self) -> Result<(), Error> {
        if self.mapping().is_some_and(Mapping::truncated) {
            return Err(Error::new(ErrorKind::Shrunk).file(&self.label));
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Mapped(mapping) => mapping.bytes(),
            Bytes::Static(bytes) => bytes,
            Bytes::Owned(bytes) | Bytes::Derived(bytes, _) => bytes,
        }
    }

    /// Returns the bytes of a range that was checked when the file was opened.
    pub(super) fn slice(&self, range: &Range<usize>) -> &[u8] {
        self.bytes().get(range.clone()).unwrap_or_default()
    }

    /// Returns the file system's metadata of the opened file.
    pub(super) fn file_metadata(&self) -> io::Result<fs::Metadata> {
        match &self.bytes {
            Bytes::Mapped(mapping) => mapping.file_metadata(),
            Bytes::Derived(_, of) => of.file_metadata(),
            Bytes::Static(_) | Bytes::Owned(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    pub(super) fn mapping(&self) -> Option<&Mapping> {
        match &self.bytes {
            Bytes::Mapped(mapping) => Some(mapping),
            _ => None,
        }
    }
}

/// A range of a file's bytes, readable for as long as this value lives. If the file shrinks meanwhile they
/// become zeros, and [`check_intact`](crate::WeightSource::check_intact) of the file returns an error.
#[derive(Clone, Debug)]
pub struct FileBytes {
    source: Arc<Source>,
    range: Range<usize>,
}

impl FileBytes {
    /// Makes a value from a range that was checked when the file was opened.
    pub(super) fn new(source: Arc<Source>, range: Range<usize>) -> FileBytes {
        FileBytes { source, range }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        self.source.slice(&self.range)
    }

    /// Frees the memory that part of the range takes in this process. The bytes are read again when next used.
    pub fn advise_dontneed(&self, part: Range<usize>) {
        if let Some(mapping) = self.source.mapping() {
            let at = |n: usize| self.range.start.saturating_add(n).min(self.range.end);
            mapping.advise_dontneed(&(at(part.start)..at(part.end)));
        }
    }
}

/// Maps a regular file; `None` if it is empty, since an empty file cannot be mapped.
fn map(path: &Path) -> Result<Option<Mapping>, ErrorKind> {
    let io = |action| move |source| ErrorKind::Io { action, source };
    let file = open_regular(path)?;
    let len = file.metadata().map_err(io("read the size"))?.len();
    let len = usize::try_from(len).map_err(|_| ErrorKind::TooMany {
        what: "file size",
        count: len,
        most: u64::try_from(usize::MAX).unwrap_or(u64::MAX),
    })?;
    if len == 0 {
        return Ok(None);
    }
    Mapping::new(&file, len).map(Some).map_err(io("map into memory"))
}

/// Opens a regular file for reading.
pub(super) fn open_regular(path: &Path) -> Result<File, ErrorKind> {
    let io = |source| ErrorKind::Io { action: "open", source };
    // Checked before opening, because opening a pipe waits for a writer.
    if !fs::metadata(path).map_err(io)?.is_file() {
        return Err(ErrorKind::NotAFile);
    }
    File::open(path).map_err(io)
}
