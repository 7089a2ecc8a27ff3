//! Limit of open files: every connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files to the maximum that the system allows.
pub(super) fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, connections beyond the old limit fail or wait.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
