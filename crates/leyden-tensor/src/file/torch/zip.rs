//! The directory of a ZIP archive with uncompressed entries, as PyTorch writes it; ZIP64 too.

use super::error::broken;
use crate::error::ErrorKind;
use std::collections::HashMap;
use std::ops::Range;

/// Maximum number of entries: one per storage, and a few more.
const MAX_ENTRIES: usize = 1 << 17;
const END: [u8; 4] = *b"PK\x05\x06";
const END64: [u8; 4] = *b"PK\x06\x06";
const LOCATOR64: [u8; 4] = *b"PK\x06\x07";
const ENTRY: [u8; 4] = *b"PK\x01\x02";
const LOCAL: [u8; 4] = *b"PK\x03\x04";
/// Sizes in bytes of the fixed parts of records.
const END_BYTES: usize = 22;
const LOCATOR64_BYTES: usize = 20;
const ENTRY_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;
/// Maximum length in bytes of the comment after the end record.
const MAX_COMMENT: usize = 0xffff;
/// Value of a field whose number is in the ZIP64 extra field.
const ELSEWHERE: u64 = 0xffff_ffff;
const ZIP64_PART: u16 = 1;

/// Byte range in the file of each entry.
pub(super) struct Archive {
    entries: HashMap<String, Range<usize>>,
}

/// Reads an unsigned number of `n` bytes.
fn number(bytes: &[u8], at: usize, n: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(n)?)?;
    Some(bytes.iter().rev().fold(0, |all, &byte| (all << 8) | u64::from(byte)))
}

fn place(bytes: &[u8], at: usize, n: usize) -> Option<usize> {
    number(bytes, at, n).and_then(|n| usize::try_from(n).ok())
}

impl Archive {
    /// Reads the directory of an archive.
    ///
    /// # Errors
    /// The directory is damaged, or an entry is compressed.
    pub(super) fn read(bytes: &[u8]) -> Result<Archive, ErrorKind> {
        let damaged = || broken("the directory at its end is missing or damaged: was all of it downloaded?");
        let (mut at, count) = directory(bytes).ok_or_else(damaged)?;
        if count > MAX_ENTRIES {
            return Err(broken(format!("{count} entries, at most {MAX_ENTRIES} are possible")));
        }
        let mut entries = HashMap::new();
        for _ in 0..count {
            let (name, range, next, stored) = entry(bytes, at).ok_or_else(damaged)?;
            if !stored {
                return Err(broken(format!("{name} is compressed, which torch.save does not do")));
            }
            entries.insert(name, range);
            at = next;
        }
        Ok(Archive { entries })
    }

    pub(super) fn entry(&self, name: &str) -> Option<Range<usize>> {
        self.entries.get(name).cloned()
    }

    /// Returns the part before a name in the only entry that ends in it, with the slash.
    pub(super) fn folder_of(&self, name: &str) -> Option<&str> {
        let folder = |entry: &'_ String| entry.strip_suffix(name).map(str::len);
        let mut found = self.entries.keys().filter_map(|entry| {
            let n = folder(entry)?;
            let before = entry.get(..n)?;
            (before.ends_with('/') && before.matches('/').count() == 1).then_some(before)
        });
        found.next().filter(|_| found.next().is_none())
    }
}

/// Returns the offset of the directory and the number of entries.
fn directory(bytes: &[u8]) -> Option<(usize, usize)> {
    let last = bytes.len().checked_sub(END_BYTES)?;
    let first = last.saturating_sub(MAX_COMMENT);
    let end = (first..=last).rev().find(|&at| bytes.get(at..).is_some_and(|rest| rest.starts_with(&END)))?;
    if let Some(locator) = end.checked_sub(LOCATOR64_BYTES)
        && bytes.get(locator..)?.starts_with(&LOCATOR64)
    {
        let at = place(bytes, locator.checked_add(8)?, 8)?;
        let record = bytes.get(at..)?;
        return record.starts_with(&END64).then_some((place(record, 48, 8)?, place(record, 32, 8)?));
    }
    Some((place(bytes, end.checked_add(16)?, 4)?, place(bytes, end.checked_add(10)?, 2)?))
}

/// Returns name, byte range, offset of the next entry, and true if the entry is uncompressed.
fn entry(bytes: &[u8], at: usize) -> Option<(String, Range<usize>, usize, bool)> {
    let record = bytes.get(at..)?;
    if !record.starts_with(&ENTRY) {
        return None;
    }
    let stored = number(record, 10, 2)? == 0;
    let (name_len, extra_len) = (place(record, 28, 2)?, place(record, 30, 2)?);
    let extra_at = ENTRY_BYTES.checked_add(name_len)?;
    let name = String::from_utf8(record.get(ENTRY_BYTES..extra_at)?.to_vec()).ok()?;
    let extra_end = extra_at.checked_add(extra_len)?;
    let extra = record.get(extra_at..extra_end)?;
    let next = at.checked_add(extra_end)?.checked_add(place(record, 32, 2)?)?;
    let mut numbers = [number(record, 24, 4)?, number(record, 20, 4)?, number(record, 42, 4)?];
    widen(extra, &mut numbers)?;
    let [size, packed, local] = numbers.map(|n| usize::try_from(n).ok());
    let (size, local) = (size?, local?);
    if stored && packed? != size {
        return None;
    }
    let head = bytes.get(local..)?;
    if !head.starts_with(&LOCAL) {
        return None;
    }
    let begin = local.checked_add(LOCAL_BYTES)?.checked_add(place(head, 26, 2)?)?;
    let begin = begin.checked_add(place(head, 28, 2)?)?;
    let end = begin.checked_add(if stored { size } else { 0 })?;
    (end <= bytes.len()).then_some((name, begin..end, next, stored))
}

/// Replaces numbers that are in the ZIP64 extra field, which has them in this order.
fn widen(mut extra: &[u8], numbers: &mut [u64; 3]) -> Option<()> {
    while extra.len() >= 4 {
        let (kind, len) = (number(extra, 0, 2)?, place(extra, 2, 2)?);
        let part = extra.get(4..len.checked_add(4)?)?;
        if kind == u64::from(ZIP64_PART) {
            let mut at = 0_usize;
            for n in numbers.iter_mut().filter(|n| **n == ELSEWHERE) {
                *n = number(part, at, 8)?;
                at = at.checked_add(8)?;
            }
        }
        extra = extra.get(len.checked_add(4)?..)?;
    }
    Some(())
}
