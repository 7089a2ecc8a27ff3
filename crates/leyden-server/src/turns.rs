//! Fair queues for work that keeps a processor busy: compiling grammars, and preparing requests.
//!
//! A grammar may take a second of a processor, and so may a prompt of megabytes. So neither is processed on the
//! engine's thread or on those of the sockets, only a few run at a time, and keys take turns: each key has at most one
//! piece of work, or one less than there are places, that runs or waits for a place. Another key's work waits for
//! these, and not for a flood of requests.

use crate::error::ApiError;
use leyden_engine::schedule::KeyId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Maximum number of concurrent pieces of long work, on the largest machine.
const MOST: usize = 8;
/// Processors per piece of long work; the engine uses the rest.
const PROCESSORS_EACH: usize = 4;
/// Maximum number of a key's requests that wait for their grammars.
const MAX_GRAMMARS: usize = 128;
/// Minimum and maximum number of requests that are prepared at a time; between them it is one per processor. The
/// allocator keeps memory for each thread, so more threads would only waste memory.
const PREPARED: (usize, usize) = (4, 8);

/// Returns the number of pieces of long work that run at a time on this many processors.
fn hard(processors: usize) -> usize {
    (processors / PROCESSORS_EACH).clamp(1, MOST)
}

/// A kind of work of which a few pieces run at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Number of pieces that run at a time.
    places: usize,
    /// Maximum number of a key's requests that wait.
    waiting: usize,
    /// Description of the work, for errors.
    what: &'static str,
}

impl Kind {
    /// Returns the kind for compiling grammars on this many processors.
    pub(crate) fn grammars(processors: usize) -> Kind {
        let what = "too many requests of this key wait for their grammars to be compiled";
        Kind { places: hard(processors), waiting: MAX_GRAMMARS, what }
    }

    /// Returns the kind for preparing requests of usual lengths. The connection limit bounds the number that wait.
    pub(crate) fn short(processors: usize) -> Kind {
        Kind { places: processors.clamp(PREPARED.0, PREPARED.1), ..Kind::long(processors) }
    }

    /// Returns the kind for preparing long requests.
    pub(crate) fn long(processors: usize) -> Kind {
        let what = "too many requests of this key wait for being prepared";
        // With two places no key ever has all of them.
        Kind { places: hard(processors).max(2), waiting: usize::MAX, what }
    }
}

/// Returns the number of threads that all kinds of work take together on this many processors.
pub(crate) fn threads(processors: usize) -> usize {
    [Kind::grammars, Kind::short, Kind::long].iter().map(|kind| kind(processors).places).sum()
}

/// Places and waiting requests of a key.
#[derive(Debug)]
struct Line {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// The turns at one kind of work.
#[derive(Debug)]
pub(crate) struct Turns {
    kind: Kind,
    places: Arc<Semaphore>,
    each: usize,
    /// By key; there are no more than in the file of keys.
    lines: Mutex<HashMap<KeyId, Arc<Line>>>,
}

/// A turn; dropping it gives the turn to the next request.
#[derive(Debug)]
pub(crate) struct Turn {
    _own: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

/// Guard that counts a waiting request.
struct Waiting(Arc<Line>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turns {
    /// Creates the turns. `keys` is true if there are several keys to distinguish.
    pub(crate) fn new(kind: Kind, keys: bool) -> Turns {
        let each = if keys { (kind.places - 1).max(1) } else { kind.places };
        Turns { kind, places: Arc::new(Semaphore::new(kind.places)), each, lines: Mutex::default() }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// 429: too many requests of the key wait. 503: the deadline has passed.
    pub(crate) async fn take(&self, key: KeyId, deadline: Instant) -> Result<Turn, ApiError> {
        let line = {
            let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
            let new = || {
                Arc::new(Line { places: Arc::new(Semaphore::new(self.each)), waiting: AtomicUsize::new(0) })
            };
            Arc::clone(lines.entry(key).or_insert_with(new))
        };
        let waiting = line.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(Arc::clone(&line));
        if waiting >= self.kind.waiting {
            return Err(ApiError::too_many("queue_full", self.kind.what, Duration::from_secs(1)));
        }
        let both = async {
            let own = Arc::clone(&line.places).acquire_owned().await.ok()?;
            let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
            Some(Turn { _own: own, _place: place })
        };
        match timeout_at(deadline, both).await {
            Ok(Some(turn)) => Ok(turn),
            Ok(None) => Err(ApiError::internal("the request could not be prepared")),
            Err(_) => Err(ApiError::deadline()),
        }
    }

    /// Takes all turns as soon as they are free.
    #[cfg(test)]
    pub(crate) async fn take_all(&self) -> Vec<OwnedSemaphorePermit> {
        let mut all = Vec::new();
        for _ in 0..self.kind.places {
            all.push(Arc::clone(&self.places).acquire_owned().await.unwrap());
        }
        all
    }

    /// Returns the number of a key's waiting requests.
    #[cfg(test)]
    pub(crate) fn waiting(&self, key: KeyId) -> usize {
        self.lines.lock().unwrap().get(&key).map_or(0, |l| l.waiting.load(Ordering::Relaxed))
    }
}
