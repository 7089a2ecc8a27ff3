//! Downloads of models that clients have requested: one per model, shared by its clients, and a few at a time.
//!
//! A pull runs on a thread of its own. All its clients receive its progress; a client that joins receives the last line
//! first. A slow client misses lines and delays nobody. A pull without clients stops.

use crate::error::ApiError;
use hyper::body::Bytes;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of concurrent pulls.
const PULLS: usize = 4;
/// Value of `Retry-After` when there are too many.
const RETRY: Duration = Duration::from_secs(10);
/// Number of lines buffered for a slow client.
const LINES: usize = 64;

/// The pulls of a server.
#[derive(Debug)]
pub(crate) struct Pulls {
    running: Mutex<HashMap<String, Running>>,
    threads: Arc<Semaphore>,
}

#[derive(Debug)]
struct Running {
    lines: broadcast::Sender<Bytes>,
    last: Bytes,
    abandoned: Abandoned,
}

/// Handle that stops a pull when all its clients have disconnected, even while it waits for the hub.
#[derive(Clone, Default)]
pub struct Abandoned(Arc<Mutex<Stop>>);

#[derive(Default)]
enum Stop {
    /// There are clients, and no function is set.
    #[default]
    Unset,
    /// The function that stops the pull.
    Set(Box<dyn FnOnce() + Send>),
    /// The clients have disconnected.
    Due,
}

impl Abandoned {
    /// Sets the function that stops the pull. It is called on the thread that drops the last client, or at once if all
    /// clients have disconnected already.
    pub fn then(&self, stop: impl FnOnce() + Send + 'static) {
        let mut at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*at, Stop::Due) {
            drop(at);
            stop();
        } else {
            *at = Stop::Set(Box::new(stop));
        }
    }

    fn call(&self) {
        let before = {
            let mut at = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *at, Stop::Due)
        };
        if let Stop::Set(stop) = before {
            stop();
        }
    }
}

impl fmt::Debug for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Abandoned").finish_non_exhaustive()
    }
}

/// Sender of a pull's progress to its clients. Dropping it ends their streams.
#[derive(Debug)]
pub(crate) struct PullSender {
    pulls: Arc<Pulls>,
    name: String,
    lines: broadcast::Sender<Bytes>,
    abandoned: Abandoned,
    _thread: OwnedSemaphorePermit,
}

/// Receiver of a pull's progress for one client. Dropping the last one of a pull stops it.
#[derive(Debug)]
pub(crate) struct PullProgress {
    /// The last line before the client joined.
    first: Option<Bytes>,
    /// `None` once it is dropped.
    lines: Option<broadcast::Receiver<Bytes>>,
    pulls: Arc<Pulls>,
    name: String,
    of: broadcast::WeakSender<Bytes>,
}

impl Drop for PullProgress {
    fn drop(&mut self) {
        self.lines = None;
        // Without a sender the pull has ended.
        let Some(of) = self.of.upgrade() else { return };
        let mut running = self.pulls.running();
        let mine = running.get(&self.name).is_some_and(|pull| pull.lines.same_channel(&of));
        // No client joins while the list is locked.
        if mine && of.receiver_count() == 0 {
            let pull = running.remove(&self.name);
            drop(running);
            if let Some(pull) = pull {
                pull.abandoned.call();
            }
        }
    }
}

impl Default for Pulls {
    fn default() -> Pulls {
        Pulls { running: Mutex::default(), threads: Arc::new(Semaphore::new(PULLS)) }
    }
}

impl Pulls {
    fn running(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the pull of a model, or starts one: `work` runs on its thread.
    ///
    /// # Errors
    /// There are too many other pulls, or the system has no thread for it.
    pub(crate) fn join(
        self: &Arc<Self>,
        name: &str,
        work: impl FnOnce(&PullSender) + Send + 'static,
    ) -> Result<PullProgress, ApiError> {
        let mut running = self.running();
        if let Some(pull) = running.get(name) {
            return Ok(self.heard(name, Some(pull.last.clone()), &pull.lines, pull.lines.subscribe()));
        }
        let Ok(thread) = Arc::clone(&self.threads).try_acquire_owned() else {
            let message = format!("{PULLS} models are already being pulled");
            return Err(ApiError::unavailable("too_many_pulls", message, RETRY));
        };
        let (lines, heard) = broadcast::channel(LINES);
        let (pulls, abandoned) = (Arc::clone(self), Abandoned::default());
        let sender =
            PullSender { pulls, name: name.to_owned(), lines, abandoned: abandoned.clone(), _thread: thread };
        let (lines, last) = (sender.lines.clone(), Bytes::new());
        running.insert(name.to_owned(), Running { lines: lines.clone(), last, abandoned });
        // Sender and receiver both lock the list when they are dropped, which happens here if the thread fails to
        // start.
        drop(running);
        let first = self.heard(name, None, &lines, heard);
        drop(lines);
        std::thread::Builder::new()
            .name("pull".to_owned())
            .spawn(move || work(&sender))
            .map_err(|error| ApiError::internal(format!("cannot start a thread for the pull: {error}")))?;
        Ok(first)
    }

    fn heard(
        self: &Arc<Self>,
        name: &str,
        first: Option<Bytes>,
        of: &broadcast::Sender<Bytes>,
        lines: broadcast::Receiver<Bytes>,
    ) -> PullProgress {
        let (pulls, name) = (Arc::clone(self), name.to_owned());
        PullProgress { first, lines: Some(lines), pulls, name, of: of.downgrade() }
    }
}

impl PullSender {
    /// Sends a line to all clients. Returns false if there are none: then the pull must stop, and the next client that
    /// asks for the model starts another one.
    pub(crate) fn send(&self, line: &Value) -> bool {
        let line: Bytes = format!("{line}\n").into();
        let mut running = self.pulls.running();
        let Some(pull) = running.get_mut(&self.name).filter(|pull| pull.lines.same_channel(&self.lines))
        else {
            return false;
        };
        pull.last = line.clone();
        let heard = self.lines.send(line).is_ok();
        if !heard {
            running.remove(&self.name);
        }
        heard
    }

    /// Returns the handle that stops the pull when its clients have disconnected.
    pub(crate) fn abandoned(&self) -> &Abandoned {
        &self.abandoned
    }

    /// Returns true if there are clients; like [`send`](Self::send), without a line.
    pub(crate) fn is_heard(&self) -> bool {
        let mut running = self.pulls.running();
        let heard = self.lines.receiver_count() > 0;
        if !heard && running.get(&self.name).is_some_and(|pull| pull.lines.same_channel(&self.lines)) {
            running.remove(&self.name);
        }
        heard
    }
}

impl Drop for PullSender {
    fn drop(&mut self) {
        let mut running = self.pulls.running();
        if running.get(&self.name).is_some_and(|pull| pull.lines.same_channel(&self.lines)) {
            running.remove(&self.name);
        }
    }
}

impl PullProgress {
    /// Returns the next line; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take().filter(|first| !first.is_empty()) {
            return Some(first);
        }
        let lines = self.lines.as_mut()?;
        loop {
            match lines.recv().await {
                Ok(line) => return Some(line),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::mpsc;

    /// Starts a pull that sends `line` on a signal, and then ends.
    fn begin(pulls: &Arc<Pulls>, name: &str) -> (Result<PullProgress, ApiError>, mpsc::Sender<Value>) {
        let (go, told_to) = mpsc::channel::<Value>();
        let heard = pulls.join(name, move |sender| {
            sender.send(&json!("begun"));
            while let Ok(line) = told_to.recv() {
                if !sender.send(&line) {
                    return;
                }
            }
        });
        (heard, go)
    }

    #[tokio::test]
    async fn clients_of_one_model_share_a_pull() {
        let pulls = Arc::new(Pulls::default());
        let (first, go) = begin(&pulls, "a");
        let mut first = first.unwrap();
        assert_eq!(first.next().await.unwrap(), "\"begun\"\n");
        let mut more: Vec<PullProgress> =
            (0..80).map(|_| pulls.join("a", |_| panic!("a second thread")).unwrap()).collect();
        go.send(json!("success")).unwrap();
        drop(go);
        more.push(first);
        for (i, heard) in more.iter_mut().enumerate() {
            if i < 80 {
                assert_eq!(heard.next().await.unwrap(), "\"begun\"\n");
            }
            assert_eq!(heard.next().await.unwrap(), "\"success\"\n");
            assert!(heard.next().await.is_none());
        }
        assert!(pulls.running().is_empty());
    }

    #[tokio::test]
    async fn the_last_client_that_goes_ends_a_silent_pull() {
        for sets_at_once in [true, false] {
            let pulls = Arc::new(Pulls::default());
            let (go, goes) = mpsc::channel::<()>();
            let (ended, end) = mpsc::channel::<()>();
            let first = pulls.join("a", move |sender| {
                if !sets_at_once {
                    goes.recv().unwrap();
                }
                let (stop, stopped) = mpsc::channel::<()>();
                sender.abandoned().then(move || stop.send(()).unwrap());
                // A hub that does not respond.
                stopped.recv().unwrap();
                assert!(!sender.is_heard());
                ended.send(()).unwrap();
            });
            let second = pulls.join("a", |_| panic!("a second thread")).unwrap();
            drop(first.unwrap());
            assert_eq!(pulls.running().len(), 1);
            drop(second);
            assert!(pulls.running().is_empty());
            let _ = go.send(());
            end.recv_timeout(Duration::from_secs(60)).unwrap();
        }
    }

    #[tokio::test]
    async fn there_are_so_many_at_a_time_and_what_nobody_hears_ends() {
        let pulls = Arc::new(Pulls::default());
        let mut all: Vec<_> = (0..PULLS).map(|i| begin(&pulls, &i.to_string())).collect();
        let refused = begin(&pulls, "more").0.unwrap_err();
        assert_eq!((refused.code, refused.retry_after), ("too_many_pulls", Some(RETRY)));
        let (heard, go) = all.remove(0);
        drop(heard);
        let _ = go.send(json!("nobody hears this"));
        drop(go);
        // Waits for the end of its thread.
        while pulls.threads.available_permits() == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(begin(&pulls, "more").0.is_ok());
    }
}
