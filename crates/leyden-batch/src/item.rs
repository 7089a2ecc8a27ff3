//! [`Item`], a row on its way through a run, and its [`Answer`].

use leyden_rows::Row;
use xxhash_rust::xxh3::xxh3_64;

/// Row on its way through a run.
#[derive(Debug, Clone)]
pub struct Item {
    /// Number among the rows of this run, from 0: rows of other shards do not count.
    pub number: u64,
    /// Number in the input, from 0.
    pub index: u64,
    /// Id given by the user: the field `custom_id`.
    pub id: Option<String>,
    /// Row.
    pub row: Row,
    /// Hash of the row's content.
    pub hash: u64,
    /// Length of the row in bytes, as JSON.
    pub bytes: usize,
}

impl Item {
    /// Returns a number that stays the same for this row whatever its place in the file: the hash of its id or, without one, of
    /// its content. Seeds are derived from it.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.id.as_ref().map_or(self.hash, |id| xxh3_64(id.as_bytes()))
    }
}

/// Answer to a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Output row as JSON.
    pub row: String,
    /// Reason of a row with an error.
    pub error: Option<String>,
    /// Key of the row in an output that is sorted.
    pub key: f32,
}

impl Answer {
    /// Returns an answer with this output row.
    #[must_use]
    pub fn of(row: String) -> Answer {
        Answer { row, error: None, key: 0.0 }
    }

    /// Returns an answer for a row with an error.
    #[must_use]
    pub fn failed(row: String, reason: impl Into<String>) -> Answer {
        Answer { row, error: Some(reason.into()), key: 0.0 }
    }
}
