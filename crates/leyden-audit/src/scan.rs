//! The end of a log, which the next line continues, after a check of the last segment.

use crate::clock::Stamp;
use crate::digest::{hex, sha256};
use crate::error::Error;
use crate::folder::{self, HEAD, Lines, Next};
use crate::line::{self, CutBody, Hash, Kind, OpenBody};
use std::path::Path;

/// Values that the next line continues.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chain {
    /// Number of the next line.
    pub(crate) seq: u64,
    /// SHA-256 of the last line; zeros before the first.
    pub(crate) prev: Hash,
    /// Stamp of the last line; `None` before the first.
    pub(crate) stamp: Option<Stamp>,
}

/// State of a log when it is opened.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) chain: Chain,
    /// Id of the log and public key of its checkpoints; `None` for a new log.
    pub(crate) log: Option<(String, String)>,
    /// Number of the last segment; 0 without one.
    pub(crate) segment: u64,
    /// Bytes of the complete lines of the last segment.
    pub(crate) bytes: u64,
    /// Bytes of all segments before the last one.
    pub(crate) bytes_before: u64,
    /// Unfinished line behind them.
    pub(crate) cut: Option<CutBody>,
}

/// Finds where the log in a folder goes on.
///
/// # Errors
/// A file cannot be read, or the log was damaged or shortened.
pub(crate) fn find(folder: &Path) -> Result<Found, Error> {
    let numbers = folder::segments(folder)?;
    let head_path = folder.join(HEAD);
    let head = folder::read_head(&head_path)?;
    let damaged = |error: Error| {
        Error::new(format!("{error}; `leyden audit verify` tells more; begin a new log in another folder"))
    };
    let Some(&last) = numbers.last() else {
        return match head {
            Some(_) => Err(damaged(Error::file(&folder::segment(folder, 1), "missing, but there is a head"))),
            None => Ok(Found::default()),
        };
    };
    if let Some(missing) = (1..=last).zip(&numbers).find(|(wanted, number)| wanted != *number) {
        return Err(damaged(Error::file(&folder::segment(folder, missing.0), "missing")));
    }
    let mut found = Found { segment: last, ..Found::default() };
    found.log = first_line(folder)?;
    for number in &numbers[..numbers.len() - 1] {
        let path = folder::segment(folder, *number);
        found.bytes_before += path.metadata().map_err(|error| Error::file(&path, error))?.len();
    }
    if last > 1 {
        // A segment may have been begun without a line in it.
        let path = folder::segment(folder, last);
        if first_is_missing(&path)? {
            let (chain, _, cut) = scan(folder, last - 1, true)?;
            if cut.is_some() {
                return Err(damaged(Error::file(
                    &folder::segment(folder, last - 1),
                    "its last line is unfinished",
                )));
            }
            found.chain = chain;
        }
    }
    let (chain, bytes, cut) = scan(folder, last, last == 1)?;
    if bytes > 0 {
        found.chain = chain;
    }
    (found.bytes, found.cut) = (bytes, cut);
    if let Some(head) = head {
        let head = line::parse(&head).map_err(|what| Error::line(&head_path, 1, what))?;
        if head.seq >= found.chain.seq {
            let what =
                format!("the log ends before line {} of the last checkpoint: its end was removed", head.seq);
            return Err(damaged(Error::file(&folder::segment(folder, last), what)));
        }
    }
    Ok(found)
}

/// Returns the id and the key in the first line of a log; `None` if there is no whole line.
fn first_line(folder: &Path) -> Result<Option<(String, String)>, Error> {
    let mut lines = Lines::open(folder::segment(folder, 1))?;
    let mut line = Vec::new();
    if lines.next(&mut line)? != Next::Line {
        return Ok(None);
    }
    let parsed = line::parse(&line).map_err(|what| lines.error(what))?;
    let body: OpenBody = parsed.body().map_err(|what| lines.error(what))?;
    if (parsed.kind, parsed.seq) != (Kind::Open, 0)
        || body.format != line::FORMAT
        || body.version != line::VERSION
    {
        return Err(lines.error(format!(
            "not the first line of a log of `{}` version {}",
            line::FORMAT,
            line::VERSION
        )));
    }
    Ok(Some((body.log, body.key)))
}

/// Returns true if a segment has no whole line.
fn first_is_missing(path: &Path) -> Result<bool, Error> {
    Lines::open(path.to_owned())?.next(&mut Vec::new()).map(|next| next != Next::Line)
}

/// Reads a segment: where it ends, the bytes of its lines, and the unfinished line behind them. The first segment begins
/// with line 0.
fn scan(folder: &Path, number: u64, is_first: bool) -> Result<(Chain, u64, Option<CutBody>), Error> {
    let path = folder::segment(folder, number);
    let mut lines = Lines::open(path)?;
    let mut line = Vec::new();
    let mut chain = Chain::default();
    let mut known = is_first && number == 1;
    loop {
        let before = lines.bytes;
        let next = lines.next(&mut line)?;
        let parsed = match next {
            Next::End => return Ok((chain, lines.bytes, None)),
            Next::TooLong => return Err(lines.error("longer than a line can be")),
            // Storage that lost its power may hold zeros where the last lines were to be.
            Next::Line if line.contains(&0) => None,
            Next::Line => Some(line::parse(&line).map_err(|what| lines.error(what))?),
            Next::Unfinished => None,
        };
        let Some(parsed) = parsed else {
            if next == Next::Line {
                line.push(b'\n');
            }
            lines.rest(&mut line)?;
            let cut = CutBody { segment: number, bytes: line.len() as u64, sha256: sha256(&line) };
            return Ok((chain, before, Some(cut)));
        };
        if known && (parsed.seq, parsed.prev) != (chain.seq, chain.prev) {
            return Err(lines.error(format!(
                "does not continue the line before it: want seq {} and prev {}",
                chain.seq,
                hex(&chain.prev)
            )));
        }
        let seq = parsed.seq.checked_add(1).ok_or_else(|| lines.error("seq: too large"))?;
        chain = Chain { seq, prev: line::hash(&line), stamp: Some(parsed.stamp) };
        known = true;
    }
}
