//! From the engine's thread to the task that answers a request.
//!
//! The engine never waits for a reader: what is not read yet is joined with what comes next, so a mailbox holds at most
//! an answer, whose length the context bounds. A dropped [`Mailbox`] is how a request is cancelled.

use leyden_engine::TokenLogprobs;
use leyden_engine::schedule::Refusal;
use leyden_text::output::OutputEvent;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How a choice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The model ended it, or a stop text appeared.
    Stop,
    /// It has the tokens it may have, or the context is full.
    Length,
    /// Its time was over.
    Deadline,
    /// The server is closing.
    Closing,
    /// The step that it was in failed.
    Failed,
    /// The model computed values that are not numbers.
    NotFinite,
    /// No token continues what the text must look like.
    Stuck,
}

impl End {
    /// Its place among [`FINISHES`](crate::metrics::FINISHES).
    pub(crate) fn finish(self) -> usize {
        match self {
            End::Stop => 0,
            End::Length => 1,
            End::Closing => 2,
            End::Deadline => 3,
            End::Failed | End::NotFinite | End::Stuck => 4,
        }
    }
}

/// A generated token with its logarithmic probabilities.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TokenLogprob {
    pub(crate) token: u32,
    /// Where it begins in the answer's text, in characters.
    pub(crate) offset: usize,
    pub(crate) logprob: f32,
    /// The best tokens, best first, and the chosen one if it is none of them.
    pub(crate) top: Vec<(u32, f32)>,
}

impl TokenLogprob {
    pub(crate) fn new(told: TokenLogprobs, offset: usize) -> TokenLogprob {
        let TokenLogprobs { token, logprob, top } = told;
        TokenLogprob { token, offset, logprob, top }
    }
}

/// What is new about a choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Update {
    pub(crate) parts: Vec<OutputEvent>,
    /// Only if they are wanted.
    pub(crate) logprobs: Vec<TokenLogprob>,
    /// Those of the prompt's tokens from the second on, if they are wanted.
    pub(crate) prompt_logprobs: Vec<TokenLogprobs>,
    /// Tokens generated, in all; the one that ended the text is not among them.
    pub(crate) generated: usize,
    /// Tokens of the prompt that were in the cache, once known.
    pub(crate) cached: Option<usize>,
    /// The state of an embedding.
    pub(crate) state: Vec<f32>,
    pub(crate) end: Option<End>,
}

impl Update {
    /// Adds to what is said; what goes on is joined.
    pub(crate) fn say(&mut self, parts: impl IntoIterator<Item = OutputEvent>) {
        for part in parts {
            match (self.parts.last_mut(), part) {
                (Some(OutputEvent::Content(said)), OutputEvent::Content(more))
                | (Some(OutputEvent::Reasoning(said)), OutputEvent::Reasoning(more)) => said.push_str(&more),
                (
                    Some(OutputEvent::ToolCallArguments { index, fragment }),
                    OutputEvent::ToolCallArguments { index: same, fragment: more },
                ) if *index == same => fragment.push_str(&more),
                (_, part) => self.parts.push(part),
            }
        }
    }

    /// The content of what is said.
    pub(crate) fn text(&self) -> String {
        let content = |part: &OutputEvent| match part {
            OutputEvent::Content(text) => Some(text.clone()),
            _ => None,
        };
        self.parts.iter().filter_map(content).collect()
    }
}

#[derive(Debug, Default)]
struct Letters {
    /// Whether the request was taken, once decided.
    verdict: Option<Result<(), Refusal>>,
    parts: Vec<Option<Update>>,
    /// The worker is no more.
    abandoned: bool,
}

#[derive(Debug)]
struct Shared {
    letters: Mutex<Letters>,
    arrived: Notify,
    closed: AtomicBool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Letters> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The reader's side.
#[derive(Debug)]
pub(crate) struct Mailbox(Arc<Shared>);

/// The engine's side.
#[derive(Debug)]
pub(crate) struct Sender(Arc<Shared>);

/// A mailbox for a request of `choices` choices.
pub(crate) fn mailbox(choices: usize) -> (Sender, Mailbox) {
    let letters = Letters { parts: vec![None; choices], ..Letters::default() };
    let letters = Mutex::new(letters);
    let shared = Arc::new(Shared { letters, arrived: Notify::new(), closed: AtomicBool::new(false) });
    (Sender(Arc::clone(&shared)), Mailbox(shared))
}

impl Sender {
    /// Whether nobody reads any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Relaxed)
    }

    /// Says whether the request was taken.
    pub(crate) fn decide(&self, verdict: Result<(), Refusal>) {
        self.0.lock().verdict.get_or_insert(verdict);
        self.0.arrived.notify_one();
    }

    /// Changes what is new about a choice.
    pub(crate) fn update(&self, choice: usize, change: impl FnOnce(&mut Update)) {
        let mut letters = self.0.lock();
        if let Some(part) = letters.parts.get_mut(choice) {
            change(part.get_or_insert_default());
        }
        drop(letters);
        self.0.arrived.notify_one();
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.lock().abandoned = true;
        self.0.arrived.notify_one();
    }
}

/// The worker ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abandoned;

impl Mailbox {
    /// Waits for the decision on the request.
    pub(crate) async fn verdict(&mut self) -> Result<Result<(), Refusal>, Abandoned> {
        loop {
            let (verdict, abandoned) = {
                let letters = self.0.lock();
                (letters.verdict.clone(), letters.abandoned)
            };
            match verdict {
                Some(verdict) => return Ok(verdict),
                None if abandoned => return Err(Abandoned),
                None => self.0.arrived.notified().await,
            }
        }
    }

    /// Waits for news: of each choice that has any, its number and what is new.
    pub(crate) async fn next(&mut self) -> Result<Vec<(usize, Update)>, Abandoned> {
        loop {
            let (news, abandoned) = {
                let mut letters = self.0.lock();
                let parts = letters.parts.iter_mut().enumerate();
                let news: Vec<_> = parts.filter_map(|(i, p)| Some((i, p.take()?))).collect();
                (news, letters.abandoned)
            };
            if !news.is_empty() {
                return Ok(news);
            }
            if abandoned {
                return Err(Abandoned);
            }
            self.0.arrived.notified().await;
        }
    }

    /// The same, but gives up after a time.
    pub(crate) async fn next_within(
        &mut self,
        time: Duration,
    ) -> Option<Result<Vec<(usize, Update)>, Abandoned>> {
        tokio::time::timeout(time, self.next()).await.ok()
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn what_is_not_read_is_joined() {
        block(async {
            let (sender, mut mailbox) = mailbox(2);
            sender.decide(Ok(()));
            assert_eq!(mailbox.verdict().await, Ok(Ok(())));
            sender.update(1, |u| u.say([OutputEvent::Content("a".into())]));
            sender.update(1, |u| u.say([OutputEvent::Content("b".into())]));
            let news = mailbox.next().await.unwrap();
            assert_eq!((news.len(), news[0].0, news[0].1.text()), (1, 1, "ab".to_owned()));
            assert_eq!(news[0].1.parts.len(), 1);
            assert!(mailbox.next_within(Duration::from_millis(1)).await.is_none());
            sender.update(0, |u| u.end = Some(End::Stop));
            drop(sender);
            assert_eq!(mailbox.next().await.unwrap()[0].1.end, Some(End::Stop));
            assert_eq!(mailbox.next().await, Err(Abandoned));
        });
    }

    #[test]
    fn a_reader_that_goes_is_noticed() {
        let (sender, mailbox) = mailbox(1);
        assert!(!sender.is_closed());
        drop(mailbox);
        assert!(sender.is_closed());
    }
}
