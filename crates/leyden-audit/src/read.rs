//! [`read`]: the records of a log.

use crate::clock;
use crate::content::{Content, ContentKey};
use crate::error::Error;
use crate::folder::{self, Lines, Next};
use crate::line::{self, Kind, OpenBody};
use crate::record::Record;
use serde::Serialize;
use std::path::Path;

/// A record and its place in a log.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Entry {
    /// Name of the segment.
    pub file: String,
    /// Number of the line in it, from 1.
    pub line: u64,
    /// Number of the line in the log, from 0.
    pub seq: u64,
    /// Wall time of the writing, as in RFC 3339.
    pub time: String,
    /// The record.
    #[serde(flatten)]
    pub record: Record,
    /// Id of the log.
    #[serde(skip)]
    log: String,
}

impl Entry {
    /// Decrypts the content; `None` if the record has none.
    ///
    /// # Errors
    /// It was encrypted to another key, or changed.
    pub fn content(&self, key: &ContentKey) -> Result<Option<Content>, Error> {
        let Some(sealed) = &self.record.sealed else { return Ok(None) };
        let place = self.record.place(&self.log);
        key.open(sealed, &place)
            .map(Some)
            .map_err(|error| Error::new(format!("{}:{}: {error}", self.file, self.line)))
    }
}

/// Calls `take` with each record of a log in order, until it returns `false`. Chain and signatures are not checked:
/// [`verify()`](crate::verify()) does that. An unfinished last line is left out.
///
/// # Errors
/// A file cannot be read, or a line is not one of a log.
pub fn read(folder: &Path, mut take: impl FnMut(Entry) -> bool) -> Result<(), Error> {
    let numbers = folder::segments(folder)?;
    if numbers.is_empty() {
        return Err(Error::file(folder, "no audit log: there is no segment-000001.jsonl"));
    }
    let (mut bytes, mut log) = (Vec::new(), String::new());
    for number in numbers {
        let mut lines = Lines::open(folder::segment(folder, number))?;
        let file =
            lines.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        loop {
            match lines.next(&mut bytes)? {
                Next::Line => {}
                Next::End | Next::Unfinished => break,
                Next::TooLong => return Err(lines.error("longer than a line can be")),
            }
            let line = line::parse(&bytes).map_err(|what| lines.error(what))?;
            match line.kind {
                Kind::Open => log = line.body::<OpenBody>().map_err(|what| lines.error(what))?.log,
                Kind::Entry => {
                    let record = line.body().map_err(|what| lines.error(what))?;
                    let (file, log, time) = (file.clone(), log.clone(), clock::written(line.stamp.time));
                    if !take(Entry { file, line: lines.number, seq: line.seq, time, record, log }) {
                        return Ok(());
                    }
                }
                Kind::Checkpoint | Kind::Clock | Kind::Cut => {}
            }
        }
    }
    Ok(())
}
