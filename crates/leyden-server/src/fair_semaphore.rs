//! Fair semaphores per API key, for work that keeps a processor busy: compiling grammars, and preparing requests.
//!
//! A grammar may take a second of a processor, and so may a prompt of megabytes. So this work does not run on the
//! engine's thread or the sockets' threads, and only a few pieces run at a time. Permits are fair between keys: a key
//! has at most one permit, or one less than there are, and its other requests queue behind its own work. So the work of
//! a key waits for at most this number of another key's pieces, whatever the number of that key's requests.

use crate::error::ApiError;
use leyden_engine::schedule::KeyId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Maximum number of concurrent pieces of long work, on the largest machine.
const MAX_CONCURRENT: usize = 8;
/// Processors per piece of long work; the engine uses the rest.
const PROCESSORS_EACH: usize = 4;
/// Maximum number of a key's requests that wait for their grammars.
const MAX_GRAMMARS: usize = 128;
/// Minimum and maximum number of requests that are prepared at a time; between them it is one per processor. The
/// allocator keeps memory for each thread, so more threads would only waste memory.
const PREPARED: (usize, usize) = (4, 8);

/// Returns the number of pieces of long work that run at a time on this many processors.
fn concurrent(processors: usize) -> usize {
    (processors / PROCESSORS_EACH).clamp(1, MAX_CONCURRENT)
}

/// Kind of work, with its limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkKind {
    /// Number of pieces that run at a time.
    places: usize,
    /// Maximum number of a key's requests that wait.
    waiting: usize,
    /// Description of the work, for errors.
    what: &'static str,
}

impl WorkKind {
    /// Returns the kind for compiling grammars on this many processors.
    pub(crate) fn grammars(processors: usize) -> WorkKind {
        let what = "too many requests of this key wait for their grammars to be compiled";
        WorkKind { places: concurrent(processors), waiting: MAX_GRAMMARS, what }
    }

    /// Returns the kind for preparing requests of usual lengths. The connection limit bounds the number that wait.
    pub(crate) fn short(processors: usize) -> WorkKind {
        WorkKind { places: processors.clamp(PREPARED.0, PREPARED.1), ..WorkKind::long(processors) }
    }

    /// Returns the kind for preparing long requests.
    pub(crate) fn long(processors: usize) -> WorkKind {
        let what = "too many requests of this key wait for preparation";
        // With two places no key ever has all of them.
        WorkKind { places: concurrent(processors).max(2), waiting: usize::MAX, what }
    }
}

/// Returns the number of threads that all kinds of work take together on this many processors.
pub(crate) fn threads(processors: usize) -> usize {
    [WorkKind::grammars, WorkKind::short, WorkKind::long].iter().map(|kind| kind(processors).places).sum()
}

/// Queue of a key.
#[derive(Debug)]
struct KeyQueue {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// Fair semaphore for one kind of work.
#[derive(Debug)]
pub(crate) struct FairSemaphore {
    kind: WorkKind,
    places: Arc<Semaphore>,
    /// Maximum number of a key's permits.
    each: usize,
    /// Queues by key; their number is limited by the file of keys.
    queues: Mutex<HashMap<KeyId, Arc<KeyQueue>>>,
}

/// Permit to run; dropping it lets the next request run.
#[derive(Debug)]
pub(crate) struct FairPermit {
    _own: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

/// Guard that counts a waiting request.
struct Waiting(Arc<KeyQueue>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl FairSemaphore {
    /// Creates a semaphore. `keys` is true if there are several keys to distinguish.
    pub(crate) fn new(kind: WorkKind, keys: bool) -> FairSemaphore {
        let each = if keys { (kind.places - 1).max(1) } else { kind.places };
        FairSemaphore { kind, places: Arc::new(Semaphore::new(kind.places)), each, queues: Mutex::default() }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// 429: too many requests of the key wait. 503: the deadline has passed.
    pub(crate) async fn acquire(&self, key: KeyId, deadline: Instant) -> Result<FairPermit, ApiError> {
        let queue = {
            let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || {
                Arc::new(KeyQueue {
                    places: Arc::new(Semaphore::new(self.each)),
                    waiting: AtomicUsize::new(0),
                })
            };
            Arc::clone(queues.entry(key).or_insert_with(new))
        };
        let waiting = queue.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(Arc::clone(&queue));
        if waiting >= self.kind.waiting {
            return Err(ApiError::too_many("queue_full", self.kind.what, Duration::from_secs(1)));
        }
        let both = async {
            let own = Arc::clone(&queue.places).acquire_owned().await.ok()?;
            let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
            Some(FairPermit { _own: own, _place: place })
        };
        match timeout_at(deadline, both).await {
            Ok(Some(permit)) => Ok(permit),
            Ok(None) => Err(ApiError::internal("the request could not be prepared")),
            Err(_) => Err(ApiError::deadline()),
        }
    }

    /// Waits for all permits.
    #[cfg(test)]
    pub(crate) async fn acquire_all(&self) -> Vec<OwnedSemaphorePermit> {
        let mut all = Vec::new();
        for _ in 0..self.kind.places {
            all.push(Arc::clone(&self.places).acquire_owned().await.unwrap());
        }
        all
    }

    /// Returns the number of a key's waiting requests.
    #[cfg(test)]
    pub(crate) fn waiting(&self, key: KeyId) -> usize {
        self.queues.lock().unwrap().get(&key).map_or(0, |l| l.waiting.load(Ordering::Relaxed))
    }
}
