//! Files of a log: names of segments, the head, the lock.

use crate::error::Error;
use leyden_files::OutputOptions;
use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// Name of the file with the newest checkpoint.
pub const HEAD: &str = "head";
/// Name of the file that the writing process locks.
const LOCK: &str = "lock";
/// Maximum size of a line in bytes: an encrypted request and its answer.
pub(crate) const MAX_LINE_BYTES: u64 = 256 << 20;
/// Maximum size of a checkpoint in bytes.
const MAX_CHECKPOINT_BYTES: u64 = 4 << 10;

/// Returns the path of a segment, from 1.
pub(crate) fn segment(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("segment-{number:06}.jsonl"))
}

/// Returns the number of a segment's name; `None` for names of other files.
fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix("segment-")?.strip_suffix(".jsonl")?.parse().ok()?;
    (name == format!("segment-{number:06}.jsonl")).then_some(number)
}

/// Returns the numbers of the segments in a folder, ascending.
///
/// # Errors
/// The folder cannot be read, a segment is no regular file, or a name is like that of a segment but not one.
pub(crate) fn segments(folder: &Path) -> Result<Vec<u64>, Error> {
    let failed = |error: std::io::Error| Error::file(folder, format!("cannot read the folder: {error}"));
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("segment") {
            continue;
        }
        let number = number_of(&name).ok_or_else(|| {
            Error::file(
                &entry.path(),
                "not a name of a segment, such as segment-000001.jsonl: a copy, or a renamed file",
            )
        })?;
        if !entry.file_type().map_err(failed)?.is_file() {
            return Err(Error::file(&entry.path(), "not a regular file"));
        }
        numbers.push(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Makes the folder of a log, which only its owner may read, unless it exists.
pub(crate) fn create(folder: &Path) -> Result<(), Error> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| Error::file(folder, format!("cannot make the folder: {error}")))
}

/// Locks a log for writing until the file is closed.
///
/// # Errors
/// Another process writes the log.
pub(crate) fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join(LOCK);
    let file = File::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(|error| Error::file(&path, format!("cannot open: {error}")))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(Error::file(
            folder,
            "another process writes this audit log; give each process a folder of its own",
        )),
        // A file system without locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Returns true if a process writes the log at present.
pub(crate) fn is_in_use(folder: &Path) -> bool {
    File::open(folder.join(LOCK))
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Writes a checkpoint's line to the head.
pub(crate) fn write_head(folder: &Path, line: &[u8]) -> Result<(), Error> {
    let path = folder.join(HEAD);
    let text = [line, b"\n"].concat();
    leyden_files::write(&path, &text, OutputOptions::new().files_only())
        .map_err(|error| Error::file(&path, format!("cannot write: {error}")))
}

/// Returns the line of a checkpoint in a file of its own; `None` without the file.
///
/// # Errors
/// The file cannot be read, or holds more or less than a line.
pub(crate) fn read_head(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let failed = |error: std::io::Error| Error::file(path, format!("cannot read: {error}"));
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(failed)?,
    };
    // Opening a FIFO would wait for a writer.
    if !metadata.is_file() {
        return Err(Error::file(path, "not a regular file"));
    }
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_CHECKPOINT_BYTES).read_to_end(&mut text))
        .map_err(failed)?;
    if text.pop() != Some(b'\n') || text.contains(&b'\n') {
        return Err(Error::line(path, 1, "not one checkpoint on one line"));
    }
    Ok(Some(text))
}

/// End of a line that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A line, without its end.
    Line,
    /// Bytes without the end of a line, at the end of the file.
    Unfinished,
    /// A line above the maximum size.
    TooLong,
    /// End of the file.
    End,
}

/// Reader of a segment's lines.
#[derive(Debug)]
pub(crate) struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    /// Number of the line that was read last, from 1.
    pub(crate) number: u64,
    /// Bytes of the lines read so far.
    pub(crate) bytes: u64,
}

impl Lines {
    /// Opens a segment.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn open(path: PathBuf) -> Result<Lines, Error> {
        let file = File::open(&path).map_err(|error| Error::file(&path, format!("cannot read: {error}")))?;
        Ok(Lines { path, file: BufReader::with_capacity(1 << 18, file), number: 0, bytes: 0 })
    }

    /// Reads the next line into `line`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn next(&mut self, line: &mut Vec<u8>) -> Result<Next, Error> {
        line.clear();
        let read = self.file.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', line);
        let read = read.map_err(|error| Error::file(&self.path, format!("cannot read: {error}")))?;
        if read == 0 {
            return Ok(Next::End);
        }
        self.number += 1;
        if line.last() != Some(&b'\n') {
            return Ok(if read as u64 > MAX_LINE_BYTES { Next::TooLong } else { Next::Unfinished });
        }
        line.pop();
        self.bytes += read as u64;
        Ok(Next::Line)
    }

    /// Returns an error at the line that was read last.
    pub(crate) fn error(&self, what: impl std::fmt::Display) -> Error {
        Error::line(&self.path, self.number, what)
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends the rest of the file to `rest`, up to a maximum.
    pub(crate) fn rest(&mut self, rest: &mut Vec<u8>) -> Result<(), Error> {
        let read = self.file.by_ref().take(MAX_LINE_BYTES).read_to_end(rest);
        read.map(drop).map_err(|error| Error::file(&self.path, format!("cannot read: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_numbers() {
        assert_eq!(number_of("segment-000012.jsonl"), Some(12));
        assert_eq!(number_of("segment-1234567.jsonl"), Some(1_234_567));
        for wrong in ["segment-12.jsonl", "segment-+00012.jsonl", "segment-000012.jsonl~", "segment-.jsonl"] {
            assert_eq!(number_of(wrong), None, "{wrong}");
        }
    }
}
