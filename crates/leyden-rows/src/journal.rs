//! [`Journal`]: finished rows of a run, in an append-only file from which the run resumes.
//!
//! The file `OUTPUT.unfinished` begins with a line that identifies the run. Each further line is one finished row: the hash of
//! the input row, `-` or `E` for a row with an error, a key for outputs that are sorted, the row's number, and the output row as
//! JSON. Rows may finish in any order; readers get them by number. Other lines are marks of the run ([`Mark`]). Lines are appended
//! whole; a line that a kill cut off is dropped when the run resumes. An advisory lock keeps a second process out.

use crate::{Error, MAX_ROW_BYTES, Row};
use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// First words of the file, with the version of its layout.
const MAGIC: &str = "leyden rows 2";
/// Bytes before the JSON of a line: the hash, the mark, the bits of the key, the number, and blanks.
const PREFIX: usize = 45;
/// Maximum length of a line in bytes: a row, and a result for each of its tokens.
const MAX_LINE_BYTES: u64 = 32 * MAX_ROW_BYTES;

/// One finished row.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Number of the row in the run, from 0; each number occurs once.
    pub number: u64,
    /// Hash of the input row.
    pub hash: u64,
    /// `true` for a row with an error.
    pub failed: bool,
    /// Key of the row in an output that is sorted; 0 elsewhere.
    pub key: f32,
    /// The output row as JSON.
    pub row: String,
}

/// Mark of a run in its journal, by which a row that kills the process is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Begin of the computation by a process.
    Begin,
    /// Begin of the computation of one row alone, by its number.
    Trial(u64),
    /// Orderly end of the process, before all rows are done.
    End,
}

/// Line of the file.
enum Line {
    Row(Entry),
    Mark(Mark),
}

/// Finished rows of a run.
#[derive(Debug)]
pub struct Journal {
    /// Path for messages, and for the removal at the end; `None` for a file without a name.
    path: Option<PathBuf>,
    out: BufWriter<File>,
    /// Reader of the rows that an earlier run kept, until the new run has passed them.
    kept: Option<BufReader<File>>,
    /// Hashes of kept rows by number, which were read while an earlier row was sought.
    ahead: HashMap<u64, u64>,
    n_kept: u64,
    rows: u64,
    failed: u64,
    /// Number of processes that began after the last finished row, without an orderly end.
    deaths: u32,
    /// Number of begins of each row alone that no result followed.
    trials: HashMap<u64, u32>,
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
        let path = beside(output);
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

    /// Removes the journal beside `output`, if there is one: its run cannot be resumed any more.
    ///
    /// # Errors
    /// Another process writes it, or it cannot be removed.
    pub fn discard(output: &Path) -> Result<(), Error> {
        let path = beside(output);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::of(&path, format!("cannot read: {error}"))),
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(Error::of(&path, "another process is writing it")),
            // A file system without locks.
            Ok(()) | Err(TryLockError::Error(_)) => {
                std::fs::remove_file(&path).map_err(|error| Error::write(&path, &error))
            }
        }
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
        Ok(Journal {
            path,
            out,
            kept: None,
            ahead: HashMap::new(),
            n_kept: 0,
            rows: 0,
            failed: 0,
            deaths: 0,
            trials: HashMap::new(),
            end: 0,
            start: 0,
        })
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
            let what = if start.starts_with(MAGIC.as_bytes()) {
                "the rest of a run with another model, another input or other options"
            } else if start.starts_with(b"leyden rows ") {
                "the rest of a run of another version of leyden"
            } else {
                "not the rest of an interrupted run"
            };
            let hint =
                "say the same as then to resume it, name another output, or remove this file to begin anew";
            return Err(Error::of(&path, what).hint(hint));
        }
        self.start = head.len() as u64;
        self.end = self.start;
        let mut lines = 1_u64;
        while let Some(bytes) = line(&mut reader).map_err(|error| self.error(&error))? {
            lines += 1;
            match parse(&bytes) {
                Some(Line::Row(entry)) => {
                    self.rows += 1;
                    self.failed += u64::from(entry.failed);
                    self.deaths = 0;
                    self.trials.remove(&entry.number);
                }
                Some(Line::Mark(Mark::Begin)) => self.deaths += 1,
                Some(Line::Mark(Mark::End)) => self.deaths = 0,
                Some(Line::Mark(Mark::Trial(number))) => *self.trials.entry(number).or_default() += 1,
                None => {
                    let what = format!("line {lines} is damaged");
                    return Err(Error::of(&path, what).hint("remove this file to begin anew"));
                }
            }
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

    /// Returns the number of processes that began after the last finished row and did not end in order: 0 unless processes were
    /// killed.
    #[must_use]
    pub fn deaths(&self) -> u32 {
        self.deaths
    }

    /// Returns the number of times that a process ended while it computed this row alone.
    #[must_use]
    pub fn trials(&self, number: u64) -> u32 {
        self.trials.get(&number).copied().unwrap_or(0)
    }

    /// Returns `true` for an input row that an earlier run finished. Rows are passed in the order of their numbers.
    ///
    /// # Errors
    /// The row differs from the one with this number then.
    pub fn has(&mut self, number: u64, row: &Row) -> Result<bool, Error> {
        let found = loop {
            if let Some(hash) = self.ahead.remove(&number) {
                break Some(hash);
            }
            if !self.read_kept()? {
                break None;
            }
        };
        match found {
            None => Ok(false),
            Some(hash) if hash == row.hash() => Ok(true),
            Some(_) => {
                let path = self.path.clone().unwrap_or_default();
                let what = format!("{} of the input differs from the interrupted run", row.place);
                Err(Error::of(&path, what).hint("remove this file to begin anew, or name another output"))
            }
        }
    }

    /// Returns the number of rows of an earlier run that the input has not had so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn unmatched(&mut self) -> Result<u64, Error> {
        while self.read_kept()? {}
        Ok(self.ahead.len() as u64)
    }

    /// Reads the next line of an earlier run. Returns false if there is none.
    fn read_kept(&mut self) -> Result<bool, Error> {
        let Some(kept) = &mut self.kept else { return Ok(false) };
        let next = match line(kept) {
            Ok(next) => next,
            Err(error) => return Err(self.error(&error)),
        };
        match next.as_deref().and_then(parse) {
            Some(Line::Row(entry)) => drop(self.ahead.insert(entry.number, entry.hash)),
            Some(Line::Mark(_)) => {}
            None => self.kept = None,
        }
        Ok(self.kept.is_some())
    }

    /// Appends a mark and flushes it to the disk.
    ///
    /// # Errors
    /// The disk is full or failed.
    pub fn mark(&mut self, mark: Mark) -> Result<(), Error> {
        let (letter, number) = match mark {
            Mark::Begin => ('B', 0),
            Mark::Trial(number) => ('T', number),
            Mark::End => ('C', 0),
        };
        self.write(letter, (0, 0.0, number), "{}")?;
        self.sync()
    }

    fn write(&mut self, letter: char, (hash, key, number): (u64, f32, u64), row: &str) -> Result<(), Error> {
        let line = format!("{hash:016x} {letter} {:08x} {number:016x} {row}\n", key.to_bits());
        self.out.write_all(line.as_bytes()).map_err(|error| self.error(&error))?;
        self.end += line.len() as u64;
        Ok(())
    }

    /// Appends a finished row and returns its offset, for [`each_of`](Self::each_of).
    ///
    /// # Errors
    /// The disk is full or failed.
    pub fn append(&mut self, entry: &Entry) -> Result<u64, Error> {
        let (letter, at) = (if entry.failed { 'E' } else { '-' }, self.end);
        self.write(letter, (entry.hash, entry.key, entry.number), &entry.row)?;
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

    /// Goes over all finished rows in the order of their numbers, with their offsets.
    ///
    /// # Errors
    /// The file cannot be read, or `f` failed.
    pub fn each(&mut self, mut f: impl FnMut(u64, Entry) -> Result<(), Error>) -> Result<(), Error> {
        self.out.flush().map_err(|error| self.error(&error))?;
        let mut reader = self.reading(self.start)?;
        let unreadable =
            |journal: &Journal| journal.error(&io::Error::other("a finished row cannot be read back"));
        // Offset and length of rows that finished before a row with a smaller number.
        let mut early: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        let (mut at, mut next) = (self.start, 0);
        loop {
            // At the end rows of a run that is not complete are left, whose numbers have gaps.
            let due = early.first_key_value().is_some_and(|(number, _)| *number == next || at >= self.end);
            if due && let Some((number, (offset, length))) = early.pop_first() {
                let mut bytes = vec![0; length];
                let read = self.out.get_ref().read_exact_at(&mut bytes, offset);
                read.map_err(|error| self.error(&error))?;
                let Some(Line::Row(entry)) = parse(&bytes) else { return Err(unreadable(self)) };
                next = number + 1;
                f(offset, entry)?;
                continue;
            }
            if at >= self.end {
                break;
            }
            let bytes = line(&mut reader).map_err(|error| self.error(&error))?;
            let Some((found, length)) = bytes.and_then(|b| Some((parse(&b)?, b.len()))) else {
                return Err(unreadable(self));
            };
            let offset = at;
            at += length as u64 + 1;
            match found {
                Line::Mark(_) => {}
                Line::Row(entry) if entry.number == next => {
                    next += 1;
                    f(offset, entry)?;
                }
                Line::Row(entry) if entry.number < next => {
                    return Err(self.error(&io::Error::other("a row is there twice")));
                }
                Line::Row(entry) => {
                    if early.insert(entry.number, (offset, length)).is_some() {
                        return Err(self.error(&io::Error::other("a row is there twice")));
                    }
                }
            }
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
            let Some(Line::Row(entry)) = bytes.as_deref().and_then(parse) else {
                return Err(self.error(&io::Error::other("a finished row cannot be read back")));
            };
            f(*at, entry)?;
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

/// Returns the path of the journal of an output.
fn beside(output: &Path) -> PathBuf {
    let mut path = output.as_os_str().to_owned();
    path.push(".unfinished");
    PathBuf::from(path)
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
fn parse(line: &[u8]) -> Option<Line> {
    let (prefix, row) = line.split_at_checked(PREFIX)?;
    let hexadecimal = |range| u64::from_str_radix(std::str::from_utf8(prefix.get(range)?).ok()?, 16).ok();
    let (hash, key, number) = (hexadecimal(0..16)?, hexadecimal(19..27)?, hexadecimal(28..44)?);
    let failed = match &prefix[16..19] {
        b" - " => false,
        b" E " => true,
        b" B " => return Some(Line::Mark(Mark::Begin)),
        b" C " => return Some(Line::Mark(Mark::End)),
        b" T " => return Some(Line::Mark(Mark::Trial(number))),
        _ => return None,
    };
    let key = f32::from_bits(u32::try_from(key).ok()?);
    Some(Line::Row(Entry { number, hash, failed, key, row: String::from_utf8(row.to_vec()).ok()? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(n: u64) -> Row {
        Row::of_text(format!("text {n}"), format!("line {n}"))
    }

    fn put(journal: &mut Journal, n: u64) {
        let key = if n == 4 { 9.0 } else { 1.0 };
        let entry = Entry {
            number: n,
            hash: row(n).hash(),
            failed: n.is_multiple_of(3),
            key,
            row: format!("{{\"n\":{n}}}"),
        };
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
                let has = journal.has(n, &row(n)).unwrap();
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
        put(&mut journal, 0);
        journal.sync().unwrap();
        assert!(Journal::open(&output, "run").unwrap_err().what.contains("another process"));
        drop(journal);
        let refused = Journal::open(&output, "other").unwrap_err();
        assert!(refused.what.contains("another model") && refused.hint.is_some());
        let mut journal = Journal::open(&output, "run").unwrap();
        assert!(journal.has(0, &row(2)).unwrap_err().what.contains("differs"));
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

    /// Rows finish in any order, over three processes, and are found and read in the order of their numbers.
    #[test]
    fn rows_finish_in_any_order() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.jsonl");
        let mut journal = Journal::open(&output, "run").unwrap();
        journal.mark(Mark::Begin).unwrap();
        [2, 0, 4].into_iter().for_each(|n| put(&mut journal, n));
        drop(journal);
        let mut journal = Journal::open(&output, "run").unwrap();
        let has: Vec<bool> = (0..6).map(|n| journal.has(n, &row(n)).unwrap()).collect();
        assert_eq!(has, [true, false, true, false, true, false]);
        assert_eq!(journal.unmatched().unwrap(), 0);
        [5, 1].into_iter().for_each(|n| put(&mut journal, n));
        drop(journal);
        let mut journal = Journal::open(&output, "run").unwrap();
        assert_eq!(journal.has(0, &row(0)).ok(), Some(true));
        assert_eq!(journal.unmatched().unwrap(), 4);
        put(&mut journal, 3);
        let wanted: Vec<String> = (0..6).map(|n| format!("{{\"n\":{n}}}")).collect();
        assert_eq!(all(&mut journal), wanted);
    }

    #[test]
    fn marks_count_processes_that_were_killed() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.jsonl");
        let open = || Journal::open(&output, "run").unwrap();
        let marked = |marks: &[Mark]| marks.iter().for_each(|mark| open().mark(*mark).unwrap());
        marked(&[Mark::Begin, Mark::Begin, Mark::Trial(7), Mark::Begin, Mark::Trial(7)]);
        let state = || {
            let journal = open();
            (journal.deaths(), journal.trials(7), journal.trials(8), journal.rows())
        };
        assert_eq!(state(), (3, 2, 0, 0));
        marked(&[Mark::End]);
        assert_eq!(state().0, 0);
        marked(&[Mark::Begin]);
        put(&mut open(), 7);
        assert_eq!(state(), (0, 0, 0, 1));
    }
}
