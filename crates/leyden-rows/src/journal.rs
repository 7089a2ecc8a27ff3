//! [`Journal`]: finished rows of a run, in an append-only file from which the run resumes.
//!
//! The file `OUTPUT.unfinished` begins with a line that identifies the run. Each further line is one finished row: the hash of
//! the input row, `-` or `E` for a row with an error, a key for outputs that are sorted, and the output row as JSON. Lines are appended whole; a line that a kill
//! cut off is dropped when the run resumes. An advisory lock keeps a second process out.

use crate::{Error, MAX_ROW_BYTES, Row};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// First word of the file, with the version of its layout.
const MAGIC: &str = "leyden rows 1";
/// Bytes before the JSON of a line: the hash, `-` or `E`, the bits of the key, and blanks.
const PREFIX: usize = 28;
/// Maximum length of a line in bytes: a row, and a result for each of its tokens.
const MAX_LINE_BYTES: u64 = 32 * MAX_ROW_BYTES;

/// One finished row.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Hash of the input row.
    pub hash: u64,
    /// `true` for a row with an error.
    pub failed: bool,
    /// Key of the row in an output that is sorted; 0 elsewhere.
    pub key: f32,
    /// The output row as JSON.
    pub row: String,
}

/// Finished rows of a run.
#[derive(Debug)]
pub struct Journal {
    /// Path for messages, and for the removal at the end; `None` for a file without a name.
    path: Option<PathBuf>,
    out: BufWriter<File>,
    /// Reader of the rows that an earlier run kept, until the new run has passed them.
    kept: Option<BufReader<File>>,
    n_kept: u64,
    rows: u64,
    failed: u64,
    /// Length of the file in bytes.
    end: u64,
    /// Offset of the first row in bytes.
    start: u64,
}

impl Journal {
    /// Opens the journal beside `output`, or makes one. `run` identifies the run: model and settings, without line ends. An output
    /// that is a device or FIFO gets a journal without a name, from which nothing resumes.
    ///
    /// # Errors
    /// The file cannot be read or written, is of another run, or is in use.
    pub fn open(output: &Path, run: &str) -> Result<Journal, Error> {
        if output.metadata().is_ok_and(|meta| !meta.is_file()) {
            return Journal::temporary();
        }
        let mut path = output.as_os_str().to_owned();
        path.push(".unfinished");
        let path = PathBuf::from(path);
        let opened = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let file = opened.map_err(|error| Error::write(&path, &error))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(Error::of(&path, "another process is writing it"));
            }
            // A file system without locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let head = format!("{MAGIC} {run}\n");
        let mut journal = Journal::on(file, Some(path))?;
        journal.scan(&head)?;
        Ok(journal)
    }

    /// Makes a journal in a file without a name.
    ///
    /// # Errors
    /// There is no room for temporary files.
    pub fn temporary() -> Result<Journal, Error> {
        let file = tempfile::tempfile()
            .map_err(|error| Error::new("temporary file", format!("cannot create: {error}")))?;
        Journal::on(file, None)
    }

    fn on(file: File, path: Option<PathBuf>) -> Result<Journal, Error> {
        let out = BufWriter::with_capacity(1 << 18, file);
        Ok(Journal { path, out, kept: None, n_kept: 0, rows: 0, failed: 0, end: 0, start: 0 })
    }

    fn error(&self, error: &io::Error) -> Error {
        Error::write(self.path.as_deref().unwrap_or(Path::new("temporary file")), error)
    }

    /// Opens a second handle of the file, positioned at `offset`.
    fn reading(&self, offset: u64) -> Result<BufReader<File>, Error> {
        // Handles of a file without a name share their position, so each reader seeks before it reads.
        let open = || match &self.path {
            Some(path) => File::open(path),
            None => self.out.get_ref().try_clone(),
        };
        let mut file = open().map_err(|error| self.error(&error))?;
        file.seek(SeekFrom::Start(offset)).map_err(|error| self.error(&error))?;
        Ok(BufReader::with_capacity(1 << 18, file))
    }

    /// Reads what an earlier run left, and cuts off a line without an end.
    fn scan(&mut self, head: &str) -> Result<(), Error> {
        let mut reader = self.reading(0)?;
        let mut start = Vec::new();
        let read = reader.by_ref().take(head.len() as u64).read_to_end(&mut start);
        read.map_err(|error| self.error(&error))?;
        if head.len() > start.len() && head.as_bytes().starts_with(&start) {
            // New, or cut off in its first line.
            self.out.get_mut().set_len(0).map_err(|error| self.error(&error))?;
            self.out.write_all(head.as_bytes()).map_err(|error| self.error(&error))?;
            self.start = head.len() as u64;
            self.end = self.start;
            return self.sync();
        }
        let path = self.path.clone().unwrap_or_default();
        if start != head.as_bytes() {
            let what = match start.starts_with(MAGIC.as_bytes()) {
                true => "the rest of a run with another model or other options",
                false => "not the rest of an interrupted run",
            };
            let hint =
                "say the same as then to resume it, name another output, or remove this file to begin anew";
            return Err(Error::of(&path, what).hint(hint));
        }
        self.start = head.len() as u64;
        self.end = self.start;
        while let Some(bytes) = line(&mut reader).map_err(|error| self.error(&error))? {
            let Some(entry) = entry(&bytes) else {
                let what = format!("line {} is damaged", self.rows + 2);
                return Err(Error::of(&path, what).hint("remove this file to begin anew"));
            };
            self.rows += 1;
            self.failed += u64::from(entry.failed);
            self.end += bytes.len() as u64 + 1;
        }
        self.out.get_mut().set_len(self.end).map_err(|error| self.error(&error))?;
        self.n_kept = self.rows;
        self.kept = (self.rows > 0).then(|| self.reading(self.start)).transpose()?;
        Ok(())
    }

    /// Number of rows that an earlier run finished.
    #[must_use]
    pub fn kept(&self) -> u64 {
        self.n_kept
    }

    /// Number of finished rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of finished rows with an error.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// `true` if a run can resume from it after an interrupt.
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        self.path.is_some()
    }

    /// Returns `true` for an input row that an earlier run finished. Rows are passed in the order of the input.
    ///
    /// # Errors
    /// The row differs from the one in that place then.
    pub fn has(&mut self, row: &Row) -> Result<bool, Error> {
        let Some(kept) = &mut self.kept else { return Ok(false) };
        let next = match line(kept) {
            Ok(next) => next,
            Err(error) => return Err(self.error(&error)),
        };
        let Some(entry) = next.as_deref().and_then(entry) else {
            self.kept = None;
            return Ok(false);
        };
        if entry.hash == row.hash() {
            return Ok(true);
        }
        let path = self.path.clone().unwrap_or_default();
        let what = format!("{} of the input differs from the interrupted run", row.place);
        Err(Error::of(&path, what).hint("remove this file to begin anew, or name another output"))
    }

    /// Appends a finished row and returns its offset, for [`each_of`](Self::each_of).
    ///
    /// # Errors
    /// The disk is full or failed.
    pub fn append(&mut self, entry: &Entry) -> Result<u64, Error> {
        let mark = if entry.failed { 'E' } else { '-' };
        let line = format!("{:016x} {mark} {:08x} {}\n", entry.hash, entry.key.to_bits(), entry.row);
        self.out.write_all(line.as_bytes()).map_err(|error| self.error(&error))?;
        let at = self.end;
        self.end += line.len() as u64;
        self.rows += 1;
        self.failed += u64::from(entry.failed);
        Ok(at)
    }

    /// Flushes finished rows to the disk.
    ///
    /// # Errors
    /// The disk is full or failed.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.out.flush().map_err(|error| self.error(&error))?;
        if self.path.is_some() {
            self.out.get_ref().sync_data().map_err(|error| self.error(&error))?;
        }
        Ok(())
    }

    /// Goes over all finished rows in order, with their offsets.
    ///
    /// # Errors
    /// The file cannot be read, or `f` failed.
    pub fn each(&mut self, mut f: impl FnMut(u64, Entry) -> Result<(), Error>) -> Result<(), Error> {
        self.out.flush().map_err(|error| self.error(&error))?;
        let mut reader = self.reading(self.start)?;
        let mut at = self.start;
        while at < self.end {
            let bytes = line(&mut reader).map_err(|error| self.error(&error))?;
            let Some((entry, length)) = bytes.and_then(|b| Some((entry(&b)?, b.len() as u64 + 1))) else {
                return Err(self.error(&io::Error::other("a finished row cannot be read back")));
            };
            f(at, entry)?;
            at += length;
        }
        // Handles without a name share the position; the next row goes to the end.
        self.out.get_mut().seek(SeekFrom::End(0)).map_err(|error| self.error(&error))?;
        Ok(())
    }

    /// Goes over the finished rows at these offsets, in the order of the offsets.
    ///
    /// # Errors
    /// The file cannot be read, or `f` failed.
    pub fn each_of(
        &mut self,
        offsets: &[u64],
        mut f: impl FnMut(u64, Entry) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.flush().map_err(|error| self.error(&error))?;
        let mut reader = self.reading(self.start)?;
        for at in offsets {
            reader.seek(SeekFrom::Start(*at)).map_err(|error| self.error(&error))?;
            let bytes = line(&mut reader).map_err(|error| self.error(&error))?;
            let found = bytes.as_deref().and_then(entry);
            f(
                *at,
                found.ok_or_else(|| self.error(&io::Error::other("a finished row cannot be read back")))?,
            )?;
        }
        self.out.get_mut().seek(SeekFrom::End(0)).map_err(|error| self.error(&error))?;
        Ok(())
    }

    /// Offsets of finished rows, the greatest key first, of equal keys the first row first; at most `most` of them, and behind them
    /// all rows with an error.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn best_first(&mut self, most: Option<usize>) -> Result<Vec<u64>, Error> {
        let (mut good, mut failed) = (Vec::new(), Vec::new());
        self.each(|at, entry| {
            match entry.failed {
                true => failed.push(at),
                false => good.push((entry.key, at)),
            }
            Ok(())
        })?;
        good.sort_by(|a, b| b.0.total_cmp(&a.0));
        good.truncate(most.unwrap_or(usize::MAX));
        Ok(good.into_iter().map(|(_, at)| at).chain(failed).collect())
    }

    /// Removes the file, after the output was written.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&mut self) -> Result<(), Error> {
        match self.path.take() {
            Some(path) => std::fs::remove_file(&path).map_err(|error| Error::write(&path, &error)),
            None => Ok(()),
        }
    }
}

/// Reads a line without its end; `None` for a line without an end, and at the end of the file.
fn line<R: BufRead>(reader: &mut R) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)?;
    Ok(bytes.ends_with(b"\n").then(|| {
        bytes.pop();
        bytes
    }))
}

/// Parses a line.
fn entry(line: &[u8]) -> Option<Entry> {
    let (prefix, row) = line.split_at_checked(PREFIX)?;
    let hash = u64::from_str_radix(std::str::from_utf8(&prefix[..16]).ok()?, 16).ok()?;
    let failed = match &prefix[16..19] {
        b" - " => false,
        b" E " => true,
        _ => return None,
    };
    let key = u32::from_str_radix(std::str::from_utf8(prefix.get(19..27)?).ok()?, 16).ok()?;
    Some(Entry { hash, failed, key: f32::from_bits(key), row: String::from_utf8(row.to_vec()).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u64) -> Row {
        Row::of_text(format!("text {n}"), format!("line {n}"))
    }

    fn put(journal: &mut Journal, n: u64) {
        let key = if n == 4 { 9.0 } else { 1.0 };
        let entry =
            Entry { hash: row(n).hash(), failed: n.is_multiple_of(3), key, row: format!("{{\"n\":{n}}}") };
        journal.append(&entry).unwrap();
    }

    fn all(journal: &mut Journal) -> Vec<String> {
        let mut rows = Vec::new();
        journal
            .each(|_, entry| {
                rows.push(entry.row);
                Ok(())
            })
            .unwrap();
        rows
    }

    /// A run is killed at every byte of its journal; the next run has all rows once.
    #[test]
    fn a_cut_journal_has_every_row_once() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.jsonl");
        let path = folder.path().join("out.jsonl.unfinished");
        let mut journal = Journal::open(&output, "run").unwrap();
        (0..6).for_each(|n| put(&mut journal, n));
        let wanted = all(&mut journal);
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let mut journal = Journal::open(&output, "run").unwrap();
            let kept = journal.kept();
            assert!(kept <= 6);
            for n in 0..6 {
                let has = journal.has(&row(n)).unwrap();
                assert_eq!(has, n < kept, "row {n} after a cut at {cut}");
                if !has {
                    put(&mut journal, n);
                }
            }
            assert_eq!((journal.rows(), journal.failed(), all(&mut journal)), (6, 2, wanted.clone()));
        }
    }

    #[test]
    fn another_run_and_a_changed_input_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.csv");
        let mut journal = Journal::open(&output, "run").unwrap();
        put(&mut journal, 1);
        journal.sync().unwrap();
        assert!(Journal::open(&output, "run").unwrap_err().what.contains("another process"));
        drop(journal);
        let refused = Journal::open(&output, "other").unwrap_err();
        assert!(refused.what.contains("another model") && refused.hint.is_some());
        let mut journal = Journal::open(&output, "run").unwrap();
        assert!(journal.has(&row(2)).unwrap_err().what.contains("differs"));
        journal.remove().unwrap();
        drop(journal);
        assert_eq!(Journal::open(&output, "other").unwrap().kept(), 0);
        std::fs::write(folder.path().join("b.unfinished"), "notes").unwrap();
        assert!(Journal::open(&folder.path().join("b"), "run").unwrap_err().what.contains("not the rest"));
    }

    #[test]
    fn rows_of_a_file_without_a_name_come_in_any_order() {
        let mut journal = Journal::temporary().unwrap();
        let mut offsets: Vec<u64> = Vec::new();
        for n in 0..5 {
            put(&mut journal, n);
        }
        journal
            .each(|at, _| {
                offsets.push(at);
                Ok(())
            })
            .unwrap();
        put(&mut journal, 5);
        assert_eq!(all(&mut journal).len(), 6);
        let best = journal.best_first(Some(2)).unwrap();
        assert_eq!(best, [4, 1, 0, 3].map(|n: usize| offsets[n]));
        offsets.reverse();
        let mut rows = Vec::new();
        journal
            .each_of(&offsets, |_, entry| {
                rows.push(entry.row);
                Ok(())
            })
            .unwrap();
        assert_eq!((rows[0].as_str(), rows.len()), ("{\"n\":4}", 5));
    }
}
