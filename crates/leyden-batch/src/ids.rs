//! [`Ids`]: ids that rows have had.

use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_128;

/// Maximum number of ids that are kept: about 100 MiB.
const MAX_IDS: usize = 1 << 22;

/// Ids that rows have had, by hash.
#[derive(Debug, Default)]
pub(crate) struct Ids(HashMap<u128, u64>);

impl Ids {
    /// Adds the id of the row with this number in the input. Returns the number of the earlier row with the same id. Beyond
    /// [`MAX_IDS`] ids, later rows are compared with the first ones only.
    pub(crate) fn add(&mut self, id: &str, index: u64) -> Option<u64> {
        let hash = xxh3_128(id.as_bytes());
        if let Some(earlier) = self.0.get(&hash) {
            return Some(*earlier);
        }
        if self.0.len() < MAX_IDS {
            self.0.insert(hash, index);
        }
        None
    }
}
