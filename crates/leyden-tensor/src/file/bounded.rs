//! Reading of small files whole, with a limit on their size.

use std::io::Read;
use std::path::Path;

use super::source::open_regular;
use crate::error::ErrorKind;

/// Reads a regular file of at most `most` bytes.
pub(super) fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>, ErrorKind> {
    let io = |action| move |source| ErrorKind::Io { action, source };
    let file = open_regular(path)?;
    let len = file.metadata().map_err(io("read the size"))?.len();
    let check = |count| {
        if count > most { Err(ErrorKind::TooMany { what: "file size", count, most }) } else { Ok(()) }
    };
    check(len)?;
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
    // The file may have grown since its size was read.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes).map_err(io("read"))?;
    check(u64::try_from(bytes.len()).unwrap_or(u64::MAX))?;
    Ok(bytes)
}
