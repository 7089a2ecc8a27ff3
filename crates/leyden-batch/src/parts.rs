//! [`Run`]: the parts of a run besides the computation, with its [`Limits`] and [`Progress`].

use crate::{Item, Shard, Sink, Source};
use std::time::Duration;

/// Limits of a run.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum distance between the first row without an answer and the last row that was handed out.
    pub window: usize,
    /// Maximum size of the rows in flight in bytes; a single row may be larger.
    pub bytes: usize,
    /// Maximum time for which answers are not durable.
    pub flush_every: Duration,
    /// Part of the rows that is computed.
    pub shard: Option<Shard>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { window: 4096, bytes: 256 << 20, flush_every: Duration::from_secs(1), shard: None }
    }
}

impl Limits {
    /// Sets [`shard`](Self::shard).
    #[must_use]
    pub fn shard(mut self, shard: Option<Shard>) -> Limits {
        self.shard = shard;
        self
    }

    /// Sets [`window`](Self::window).
    #[must_use]
    pub fn window(mut self, rows: usize) -> Limits {
        self.window = rows.max(1);
        self
    }

    /// Sets [`flush_every`](Self::flush_every).
    #[must_use]
    pub fn flush_every(mut self, time: Duration) -> Limits {
        self.flush_every = time;
        self
    }
}

/// State of a run for displays.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// Rows read from the input.
    pub read: u64,
    /// Rows with an answer, those of earlier runs included.
    pub done: u64,
    /// Rows with an error, those of earlier runs included.
    pub failed: u64,
    /// Rows of other shards.
    pub skipped: u64,
    /// Rows that earlier runs finished.
    pub kept: u64,
    /// Rows of earlier runs that were found again in the input so far.
    pub passed: u64,
    /// Share of the input that has been read, from 0 to 1.
    pub share: Option<f64>,
}

/// Parts of a run besides the computation.
pub struct Run<'a> {
    pub(crate) source: Box<dyn Source + 'a>,
    pub(crate) sink: &'a mut dyn Sink,
    pub(crate) error_row: &'a (dyn Fn(&Item, &str) -> String + Sync),
    pub(crate) limits: Limits,
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
    pub(crate) progress: &'a (dyn Fn(&Progress) + Sync),
}

impl std::fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl<'a> Run<'a> {
    /// Returns a run of a source to a sink. `error_row` makes the output row of a row with an error from its reason.
    #[must_use]
    pub fn new(
        source: Box<dyn Source + 'a>,
        sink: &'a mut dyn Sink,
        error_row: &'a (dyn Fn(&Item, &str) -> String + Sync),
    ) -> Run<'a> {
        Run { source, sink, error_row, limits: Limits::default(), stop: &|| false, progress: &|_| () }
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Run<'a> {
        Run { limits, ..self }
    }

    /// Sets the function that returns true after an interrupt.
    #[must_use]
    pub fn stop(self, stop: &'a (dyn Fn() -> bool + Sync)) -> Run<'a> {
        Run { stop, ..self }
    }

    /// Sets the function that gets the counts, at most ten times per second.
    #[must_use]
    pub fn progress(self, progress: &'a (dyn Fn(&Progress) + Sync)) -> Run<'a> {
        Run { progress, ..self }
    }
}
