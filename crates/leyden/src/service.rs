//! [`Service`]: an engine on a thread of its own. Any thread submits requests to it at any time, and those that are open
//! together are computed together.

use crate::error::Error;
use crate::generation::{Generation, StreamEvent};
use crate::options::GenerateOptions;
use crate::service_thread::{Incoming, Reply, Work, Worker};
use leyden_engine::TokenLogprobs;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Engine on a thread of its own, for requests that arrive at any time from any thread. Created by
/// [`Model::service`](crate::Model::service).
///
/// Answers and log probabilities of a text do not depend on the other texts, to the bit. Dropping it ends all open
/// requests with [`Error::Closed`].
///
/// ```
/// use leyden::{BatchOptions, GenerateOptions, LoadOptions, Model};
///
/// let model = Model::embedded(&LoadOptions::default())?;
/// let service = model.service(&BatchOptions::new().parallel(8))?;
/// let options = GenerateOptions::new().max_tokens(8);
/// let king = service.generate(&model.tokenize("The king")?, &options)?;
/// let queen = service.generate(&model.tokenize("The queen")?, &options)?;
/// assert!(!king.finish()?.text.is_empty());
/// assert!(!queen.finish()?.text.is_empty());
/// # Ok::<(), leyden::Error>(())
/// ```
pub struct Service {
    /// Channel of requests; `None` while it is dropped.
    requests: Option<Sender<Incoming>>,
    /// True once it is dropped.
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    context: usize,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("context", &self.context).finish_non_exhaustive()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        drop(self.requests.take());
        // A panic of the thread was reported by its message, and its requests have ended with an error.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Service {
    /// Starts the thread of an engine.
    pub(crate) fn start(worker: Worker, context: usize) -> Result<Service, Error> {
        let (requests, incoming) = channel();
        let closed = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&closed);
        let thread = std::thread::Builder::new().name("leyden-service".into());
        let thread = thread.spawn(move || worker.run(&incoming, &ends));
        let thread = thread.map_err(|error| Error::Thread { what: error.to_string() })?;
        Ok(Service { requests: Some(requests), closed, thread: Some(thread), context })
    }

    /// Returns the context length in tokens.
    #[must_use]
    pub fn context(&self) -> usize {
        self.context
    }

    /// Begins to continue `prompt`, with the same answer as [`Session::generate`](crate::Session::generate), and returns
    /// at once.
    ///
    /// # Errors
    /// The prompt is empty or too long, or the engine's thread has ended. Other errors come with the answer.
    pub fn generate(&self, prompt: &[u32], options: &GenerateOptions) -> Result<Answering, Error> {
        self.submit(prompt, Work::Text { options: Box::new(options.clone()), pieces: false })
    }

    /// Begins to continue `prompt` like [`generate`](Self::generate), with the text in pieces as it is generated.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    pub fn stream(&self, prompt: &[u32], options: &GenerateOptions) -> Result<Answering, Error> {
        self.submit(prompt, Work::Text { options: Box::new(options.clone()), pieces: true })
    }

    /// Begins to compute the log probabilities of the tokens of `text` after position `from`, each with the `top` most
    /// probable tokens at its position, and returns at once.
    ///
    /// # Errors
    /// As [`generate`](Self::generate).
    ///
    /// ```
    /// use leyden::{BatchOptions, LoadOptions, Model};
    ///
    /// let model = Model::embedded(&LoadOptions::default())?;
    /// let service = model.service(&BatchOptions::new())?;
    /// let text = model.tokenize("Once upon a time")?;
    /// let scores = service.score(&text, 0, 0)?.scores()?;
    /// assert_eq!(scores.len(), text.len() - 1);
    /// # Ok::<(), leyden::Error>(())
    /// ```
    pub fn score(&self, text: &[u32], from: usize, top: usize) -> Result<Answering, Error> {
        self.submit(text, Work::Scores { from, top })
    }

    fn submit(&self, prompt: &[u32], work: Work) -> Result<Answering, Error> {
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if prompt.len() > self.context {
            return Err(Error::PromptTooLong { tokens: prompt.len(), context: self.context });
        }
        let (reply, replies) = channel();
        let cancelled = Arc::new(AtomicBool::new(false));
        let incoming = Incoming { prompt: prompt.to_vec(), work, reply, cancelled: Arc::clone(&cancelled) };
        let sent = self.requests.as_ref().map(|requests| requests.send(incoming));
        match sent {
            Some(Ok(())) => Ok(Answering { replies, cancelled }),
            _ => Err(Error::Closed),
        }
    }
}

/// Request of a [`Service`] under way. Dropping it cancels the request.
#[derive(Debug)]
pub struct Answering {
    replies: Receiver<Result<Reply, Error>>,
    cancelled: Arc<AtomicBool>,
}

/// Handle that cancels a request from any thread.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<AtomicBool>);

impl Canceller {
    /// Cancels the request before the engine's next step; its answer so far ends with
    /// [`Finish::Cancelled`](crate::Finish::Cancelled).
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Answering {
    /// Returns a handle that cancels the request.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.cancelled))
    }

    /// Waits for the next event, at most for `limit`; `None` if there is none by then. The last event is
    /// [`StreamEvent::Done`].
    ///
    /// # Errors
    /// The model failed, an option is out of range, or the service was dropped.
    pub fn next_within(&self, limit: Duration) -> Result<Option<StreamEvent>, Error> {
        match self.reply_within(limit)? {
            Some(Reply::Event(event)) => Ok(Some(event)),
            Some(Reply::Scores(_)) | None => Ok(None),
        }
    }

    /// Waits for the scores of a text, at most for `limit`; `None` if they are not there by then.
    ///
    /// # Errors
    /// As [`next_within`](Self::next_within).
    pub fn scores_within(&self, limit: Duration) -> Result<Option<Vec<TokenLogprobs>>, Error> {
        match self.reply_within(limit)? {
            Some(Reply::Scores(scores)) => Ok(Some(scores)),
            Some(Reply::Event(_)) | None => Ok(None),
        }
    }

    /// Waits for the finished answer.
    ///
    /// # Errors
    /// As [`next_within`](Self::next_within).
    pub fn finish(self) -> Result<Generation, Error> {
        loop {
            match self.replies.recv() {
                Ok(Ok(Reply::Event(StreamEvent::Done(answer)))) => return Ok(answer),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(Error::Closed),
            }
        }
    }

    /// Waits for the scores of a text.
    ///
    /// # Errors
    /// As [`next_within`](Self::next_within).
    pub fn scores(self) -> Result<Vec<TokenLogprobs>, Error> {
        loop {
            match self.replies.recv() {
                Ok(Ok(Reply::Scores(scores))) => return Ok(scores),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => return Err(Error::Closed),
            }
        }
    }

    fn reply_within(&self, limit: Duration) -> Result<Option<Reply>, Error> {
        match self.replies.recv_timeout(limit) {
            Ok(reply) => reply.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Error::Closed),
        }
    }
}
