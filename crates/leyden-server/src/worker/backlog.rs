//! Backlog of requests with more choices than places in the queue: further choices are queued as earlier ones proceed.

use super::job::{Job, Task};
use crate::mailbox::{End, Sender};
use crate::metrics::ModelMetrics;
use leyden_engine::Scope;
use leyden_engine::schedule::KeyId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Maximum number of places in the queue of one request at a time, and divisor of the places of a key: a request of
/// thousands of texts must leave places to others, but enough of its texts must wait to fill the next step.
const PLACES: usize = 32;
const PART_OF_KEY: usize = 4;

/// Returns the number of places that a request may have if a key has `per_key` places.
pub(super) fn places(per_key: usize) -> usize {
    (per_key / PART_OF_KEY).clamp(1, PLACES)
}

/// Rest of a request: the choices that are not in the scheduler yet.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) key: KeyId,
    pub(super) priority: i32,
    pub(super) scope: Arc<Scope>,
    pub(super) arrived: Instant,
    pub(super) deadline: Instant,
    pub(super) mailbox: Arc<Sender>,
    /// True if the request was admitted, so that none of its choices may be refused.
    pub(super) decided: bool,
    /// Choices with their indexes.
    pub(super) tasks: VecDeque<(usize, Task)>,
}

impl Rest {
    pub(super) fn new(job: Job) -> Rest {
        let Job { key, priority, scope, arrived, deadline, tasks, mailbox } = job;
        let tasks = tasks.into_iter().enumerate().collect();
        Rest { key, priority, scope, arrived, deadline, mailbox, decided: false, tasks }
    }

    /// Ends all of its choices.
    pub(super) fn give_up(self, end: End, metrics: &ModelMetrics) {
        let finished = if self.mailbox.is_closed() { End::Closing } else { end }.finish();
        for (choice, _) in self.tasks {
            metrics.finished[finished].add(1);
            metrics.end_to_end.observe(self.arrived.elapsed());
            self.mailbox.update(choice, |u| u.end = Some(end));
        }
    }
}
