//! Detection of an emulator of another processor, in which tests take tens of times as long.

use std::time::Duration;

/// Returns true if the tests run in an emulator.
#[must_use]
pub fn emulated() -> bool {
    crate::knobs::runner()
}

/// Returns a time limit that also suffices in an emulator.
#[must_use]
pub fn patience(limit: Duration) -> Duration {
    limit * if emulated() { 100 } else { 1 }
}
