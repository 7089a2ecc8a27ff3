//! Turns at compiling grammars.
//!
//! A grammar may take a processor a second. So it is compiled neither on the engine's thread nor on those that prepare
//! requests, only a few are at a time, and keys take turns: of each key one grammar at most, or one less than are
//! compiled at a time, has a place or waits for one. Another key's grammar waits for those, and not for a flood.

use crate::error::ApiError;
use leyden_engine::schedule::KeyId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The most that are compiled at a time, on the largest machine.
const MOST: usize = 8;
/// Processors for each that is compiled: the rest is the engine's.
const PROCESSORS_EACH: usize = 4;
/// The most requests of a key that wait for a turn.
const MOST_WAITING: usize = 128;

/// How many grammars are compiled at a time on so many processors.
pub(crate) fn places(processors: usize) -> usize {
    (processors / PROCESSORS_EACH).clamp(1, MOST)
}

/// Those of a key.
#[derive(Debug)]
struct Line {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// The turns of a server.
#[derive(Debug)]
pub(crate) struct Turns {
    places: Arc<Semaphore>,
    #[cfg(test)]
    most: usize,
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
    /// For a machine with so many processors; `keys` says whether there are several users to tell apart.
    pub(crate) fn new(processors: usize, keys: bool) -> Turns {
        let places = places(processors);
        let each = if keys { (places - 1).max(1) } else { places };
        Turns {
            places: Arc::new(Semaphore::new(places)),
            #[cfg(test)]
            most: places,
            each,
            lines: Mutex::default(),
        }
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
        if waiting >= MOST_WAITING {
            let message = "too many requests of this key wait for their grammars to be compiled";
            return Err(ApiError::too_many("queue_full", message, Duration::from_secs(1)));
        }
        let both = async {
            let own = Arc::clone(&line.places).acquire_owned().await.ok()?;
            let place = Arc::clone(&self.places).acquire_owned().await.ok()?;
            Some(Turn { _own: own, _place: place })
        };
        match timeout_at(deadline, both).await {
            Ok(Some(turn)) => Ok(turn),
            Ok(None) => Err(ApiError::internal("the grammar could not be compiled")),
            Err(_) => Err(crate::generate::deadline()),
        }
    }

    /// Takes all turns as soon as they are free.
    #[cfg(test)]
    pub(crate) async fn take_all(&self) -> Vec<OwnedSemaphorePermit> {
        let mut all = Vec::new();
        for _ in 0..self.most {
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
