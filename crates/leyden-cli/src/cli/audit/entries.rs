//! Records by their id, and their contents.

use leyden_audit::{Content, ContentKey, Entry};

use crate::cli::failure::Failure;

/// Returns true if a record has this id, or its client gave it.
pub(super) fn is_of(entry: &Entry, id: &str) -> bool {
    entry.record.id == id || entry.record.other.get("client_id").is_some_and(|given| given == id)
}

/// Returns the decrypted content of a record; `None` without a key or without content.
pub(super) fn content(entry: &Entry, key: Option<&ContentKey>) -> Result<Option<Content>, Failure> {
    Ok(key.map(|key| entry.content(key)).transpose()?.flatten())
}
