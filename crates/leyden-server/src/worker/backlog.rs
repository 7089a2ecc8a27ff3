//! Requests of more choices than places in the queue: the others take theirs as the first proceed.

use super::job::{Job, Task};
use crate::mailbox::{End, Sender};
use crate::metrics::ModelMetrics;
use leyden_engine::Scope;
use leyden_engine::schedule::KeyId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// The most places in the queue that one request has at a time, and the part of a key's places: a request of thousands
/// of texts shall leave room for others, and enough of them wait to fill the next step.
const PLACES: usize = 32;
const PART_OF_KEY: usize = 4;

/// How many places a request may have where a key has so many.
pub(super) fn places(per_key: usize) -> usize {
    (per_key / PART_OF_KEY).clamp(1, PLACES)
}

/// What of a request is not in the scheduler yet.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) key: KeyId,
    pub(super) priority: i32,
    pub(super) scope: Arc<Scope>,
    pub(super) arrived: Instant,
    pub(super) deadline: Instant,
    pub(super) mailbox: Arc<Sender>,
    /// With the numbers of the choices.
    pub(super) tasks: VecDeque<(usize, Task)>,
}

impl Rest {
    pub(super) fn new(job: Job) -> Rest {
        let Job { key, priority, scope, arrived, deadline, tasks, mailbox } = job;
        let tasks = tasks.into_iter().enumerate().collect();
        Rest { key, priority, scope, arrived, deadline, mailbox, tasks }
    }

    /// Ends it all.
    pub(super) fn give_up(self, end: End, metrics: &ModelMetrics) {
        let finished = if self.mailbox.is_closed() { End::Closing } else { end }.finish();
        for (choice, _) in self.tasks {
            metrics.finished[finished].add(1);
            metrics.end_to_end.observe(self.arrived.elapsed());
            self.mailbox.update(choice, |u| u.end = Some(end));
        }
    }
}
