//! Counts of a connection's requests, and flags of unread bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The state of a connection's requests.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// Number of requests being answered.
    answering: AtomicUsize,
    /// Number of all requests so far.
    requests: AtomicUsize,
    /// True if the end of some request is ambiguous.
    ambiguous: AtomicBool,
    /// True if a body was not read to its end.
    unread: AtomicBool,
    /// Number of requests being answered on all connections.
    all: Arc<AtomicUsize>,
}

impl Traffic {
    /// Returns the state of a new connection, whose requests are counted in `all`, too.
    pub(crate) fn of(all: &Arc<AtomicUsize>) -> Traffic {
        Traffic { all: Arc::clone(all), ..Traffic::default() }
    }

    pub(crate) fn is_answering(&self) -> bool {
        self.answering.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn is_ambiguous(&self) -> bool {
        self.ambiguous.load(Ordering::Relaxed)
    }

    /// Records that the end of some request is ambiguous.
    pub(crate) fn set_ambiguous(&self) {
        self.ambiguous.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// Records that the rest of a body will not be read.
    pub(crate) fn leave_unread(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }
}

/// Guard that marks a connection as busy.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Traffic>);

impl Busy {
    pub(crate) fn new(traffic: &Arc<Traffic>) -> Busy {
        traffic.all.fetch_add(1, Ordering::Relaxed);
        traffic.answering.fetch_add(1, Ordering::Relaxed);
        traffic.requests.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(traffic))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.answering.fetch_sub(1, Ordering::Relaxed);
        self.0.all.fetch_sub(1, Ordering::Relaxed);
    }
}
