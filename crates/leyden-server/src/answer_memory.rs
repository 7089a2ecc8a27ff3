//! Memory limits of answers: the memory is reserved before an answer is computed, and held until it has been sent.
//!
//! An answer counts with its maximum size. An answer whose maximum exceeds the limit is refused with 413; one for which
//! there is not enough memory at present waits up to `PATIENCE`. Each key has a limit of its own.

use crate::error::ApiError;
use crate::limits::Limits;
use hyper::StatusCode;
use leyden_engine::schedule::KeyId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Bytes per permit of the semaphores.
const UNIT: usize = 4 << 10;
/// Bytes up to which an answer is not counted: the memory of such answers is bounded by the number of connections.
const SMALL: usize = 256 << 10;
/// Time for which an answer waits for memory.
const PATIENCE: Duration = Duration::from_secs(60);

/// Memory of all answers.
#[derive(Debug)]
pub(crate) struct AnswerMemory {
    most: usize,
    server: Arc<Semaphore>,
    /// Limit in bytes of each key's answers; `None` without keys.
    key_bytes: Option<usize>,
    keys: Mutex<HashMap<KeyId, Arc<Semaphore>>>,
    patience: Duration,
}

/// Memory that is reserved for an answer.
#[derive(Debug, Default)]
pub(crate) struct MemoryReservation(Vec<OwnedSemaphorePermit>);

impl AnswerMemory {
    pub(crate) fn new(limits: &Limits, has_keys: bool) -> AnswerMemory {
        AnswerMemory {
            most: limits.answer_bytes,
            server: Arc::new(Semaphore::new(limits.answers_bytes.max(limits.answer_bytes).div_ceil(UNIT))),
            key_bytes: has_keys.then(|| limits.answers_bytes_per_key.max(limits.answer_bytes)),
            keys: Mutex::default(),
            patience: PATIENCE,
        }
    }

    /// Reserves `bytes` for an answer, waiting for free memory if necessary.
    ///
    /// # Errors
    /// 413: the answer exceeds the limit. 429 or 503: the wait took too long, for the memory of the key or of the
    /// server.
    pub(crate) async fn hold(
        &self,
        key: KeyId,
        bytes: usize,
        deadline: Instant,
    ) -> Result<MemoryReservation, ApiError> {
        if bytes > self.most {
            let mib = |bytes: usize| bytes.div_ceil(1 << 20);
            let message = format!(
                "the answer could take {} MiB of memory; the maximum is {}: ask for fewer texts, choices, tokens or \
                 log probabilities at a time",
                mib(bytes),
                mib(self.most)
            );
            return Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "answer_too_large", message));
        }
        if bytes <= SMALL {
            return Ok(MemoryReservation::default());
        }
        let until = deadline.min(Instant::now() + self.patience);
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let mut held = MemoryReservation::default();
        if let Some(most) = self.key_bytes {
            let own = self.of_key(key, most);
            let Ok(Ok(permit)) = timeout_at(until, own.acquire_many_owned(units)).await else {
                let message = "other answers of this key use all of its answer memory";
                return Err(ApiError::too_many("answer_memory_full", message, Duration::from_secs(5)));
            };
            held.0.push(permit);
        }
        let Ok(Ok(permit)) = timeout_at(until, Arc::clone(&self.server).acquire_many_owned(units)).await
        else {
            let message = "other answers use all of the server's answer memory";
            return Err(ApiError::unavailable("answer_memory_full", message, Duration::from_secs(5)));
        };
        held.0.push(permit);
        Ok(held)
    }

    /// Returns the memory of a key.
    fn of_key(&self, key: KeyId, most: usize) -> Arc<Semaphore> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(keys.entry(key).or_insert_with(|| Arc::new(Semaphore::new(most.div_ceil(UNIT)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            answer_bytes: 4 << 20,
            answers_bytes: 12 << 20,
            answers_bytes_per_key: 8 << 20,
            ..Limits::default()
        }
    }

    fn memory(has_keys: bool) -> AnswerMemory {
        AnswerMemory { patience: Duration::from_millis(100), ..AnswerMemory::new(&limits(), has_keys) }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn a_key_waits_for_itself_and_leaves_room_for_others() {
        run(async {
            let (memory, shared) = (memory(true), memory(false));
            let later = Instant::now() + Duration::from_secs(3600);
            let hold = async |key: u32, mib: usize| {
                memory.hold(KeyId(key), mib << 20, later).await.map_err(|e| e.status.as_u16())
            };
            assert_eq!(hold(0, 5).await.unwrap_err(), 413);
            let (first, second) = (hold(0, 4).await.unwrap(), hold(0, 4).await.unwrap());
            assert_eq!(hold(0, 1).await.unwrap_err(), 429, "the room of its own is full");
            let other = hold(1, 4).await.unwrap();
            assert_eq!(hold(2, 1).await.unwrap_err(), 503, "that of the server is");
            // Small answers are not counted.
            assert!(memory.hold(KeyId(0), SMALL, later).await.is_ok());
            drop(other);
            assert!(hold(2, 4).await.is_ok());
            drop(first);
            assert!(hold(0, 4).await.is_ok());
            drop(second);
            // Without keys all answers share the server's memory.
            let memory = shared;
            let all = [0; 3].map(|_| memory.hold(KeyId(0), 4 << 20, later));
            let [a, b, c] = all;
            let held = (a.await.unwrap(), b.await.unwrap(), c.await.unwrap());
            assert_eq!(memory.hold(KeyId(0), 1 << 20, later).await.unwrap_err().status.as_u16(), 503);
            drop(held);
        });
    }

    #[test]
    fn who_waits_is_served_when_there_is_room() {
        run(async {
            let memory = AnswerMemory::new(&limits(), true);
            let later = Instant::now() + Duration::from_secs(3600);
            let first = memory.hold(KeyId(0), 4 << 20, later).await.unwrap();
            let second = memory.hold(KeyId(0), 4 << 20, later).await.unwrap();
            let free = async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                drop(first);
            };
            let (third, ()) = tokio::join!(memory.hold(KeyId(0), 4 << 20, later), free);
            assert!(third.is_ok());
            drop(second);
        });
    }
}
