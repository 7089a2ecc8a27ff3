//! Turns at what takes a processor for a while: compiling grammars, and preparing requests.
//!
//! A grammar may take a processor a second, and so may a prompt of megabytes. So neither is worked on by the engine's
//! thread nor by those of the sockets, only a few are at a time, and keys take turns: of each key one piece of work at
//! most, or one less than there are places, has a place or waits for one. Another key's work waits for those, and not for
//! a flood.

use crate::error::ApiError;
use leyden_engine::schedule::KeyId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The most pieces of hard work at a time, on the largest machine.
const MOST: usize = 8;
/// Processors for each of them: the rest is the engine's.
const PROCESSORS_EACH: usize = 4;
/// The most requests of a key that wait for their grammars.
const MOST_GRAMMARS: usize = 128;
/// The fewest and the most requests that are prepared at a time; between these it is one for each processor. The allocator
/// keeps memory for each thread, so there are not more than are of use.
const PREPARED: (usize, usize) = (4, 8);

/// How many pieces of hard work are done at a time on so many processors.
fn hard(processors: usize) -> usize {
    (processors / PROCESSORS_EACH).clamp(1, MOST)
}

/// A kind of work of which a few pieces are done at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// How many.
    places: usize,
    /// The most requests of a key that wait.
    waiting: usize,
    /// What these wait for, in an error.
    what: &'static str,
}

impl Kind {
    /// Compiling grammars on so many processors.
    pub(crate) fn grammars(processors: usize) -> Kind {
        let what = "too many requests of this key wait for their grammars to be compiled";
        Kind { places: hard(processors), waiting: MOST_GRAMMARS, what }
    }

    /// Preparing requests of usual lengths. As many wait as there are connections.
    pub(crate) fn short(processors: usize) -> Kind {
        Kind { places: processors.clamp(PREPARED.0, PREPARED.1), ..Kind::long(processors) }
    }

    /// Preparing long requests.
    pub(crate) fn long(processors: usize) -> Kind {
        let what = "too many requests of this key wait for being prepared";
        // With two, no key ever has all the places.
        Kind { places: hard(processors).max(2), waiting: usize::MAX, what }
    }
}

/// How many threads all kinds of work take together on so many processors.
pub(crate) fn threads(processors: usize) -> usize {
    [Kind::grammars, Kind::short, Kind::long].iter().map(|kind| kind(processors).places).sum()
}

/// Those of a key.
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

/// A turn. Dropped, it is the next one's.
#[derive(Debug)]
pub(crate) struct Turn {
    _own: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

/// Counts one who waits.
struct Waiting(Arc<Line>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turns {
    /// `keys` says whether there are several users to tell apart.
    pub(crate) fn new(kind: Kind, keys: bool) -> Turns {
        let each = if keys { (kind.places - 1).max(1) } else { kind.places };
        Turns { kind, places: Arc::new(Semaphore::new(kind.places)), each, lines: Mutex::default() }
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// 429: too many of the key wait. 503: the deadline comes first.
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

    /// How many of a key wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self, key: KeyId) -> usize {
        self.lines.lock().unwrap().get(&key).map_or(0, |l| l.waiting.load(Ordering::Relaxed))
    }
}
