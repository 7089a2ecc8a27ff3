//! Tests may run behind an emulator of another processor, which takes tens of times as long.

use std::time::Duration;

/// Whether they do.
#[must_use]
pub fn emulated() -> bool {
    crate::knobs::runner()
}

/// A limit of time that holds behind an emulator too.
#[must_use]
pub fn patience(limit: Duration) -> Duration {
    limit * if emulated() { 100 } else { 1 }
}
