//! Open files, of which every connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Many systems allow few open files unless asked for more.
pub(super) fn allow() {
    let limit = getrlimit(Resource::Nofile);
    // Where this is refused, connections beyond the limit fail or wait, as they would without it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
