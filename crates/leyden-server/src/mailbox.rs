//! The channel between the engine's thread and the task that answers a request.
//!
//! The engine never waits for a reader: unread updates are merged, so a mailbox holds at most one whole answer, whose
//! length the context bounds. Dropping the [`Mailbox`] cancels the request.

use super::sync::{Arc, AtomicBool, Mutex, MutexGuard, Notify, Ordering, timeout};
use leyden_engine::TokenLogprobs;
use leyden_engine::schedule::Refusal;
use leyden_models::heads::HeadOutput;
use leyden_text::output::OutputEvent;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// Reason why a choice ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The model generated an end token, or a stop string appeared.
    Stop,
    /// The token limit was reached, or the context is full.
    Length,
    /// The deadline of the request has passed.
    Deadline,
    /// The server is shutting down.
    Closing,
    /// The step that computed it failed.
    Failed,
    /// The model computed values that are not finite.
    NotFinite,
    /// No token continues a valid text of the grammar.
    Stuck,
}

impl End {
    /// Returns the index in [`FINISHES`](crate::metrics::FINISHES).
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

/// A generated token with its log probabilities.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TokenLogprob {
    pub(crate) token: u32,
    /// Offset of the token in the answer's text, in characters.
    pub(crate) offset: usize,
    pub(crate) logprob: f32,
    /// The most likely tokens, best first, and the chosen one if it is not among them.
    pub(crate) top: Vec<(u32, f32)>,
}

impl TokenLogprob {
    pub(crate) fn new(of_token: TokenLogprobs, offset: usize) -> TokenLogprob {
        let TokenLogprobs { token, logprob, top } = of_token;
        TokenLogprob { token, offset, logprob, top }
    }
}

/// Unread changes of a choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Update {
    pub(crate) parts: Vec<OutputEvent>,
    /// Log probabilities of the new tokens, if requested.
    pub(crate) logprobs: Vec<TokenLogprob>,
    /// Log probabilities of the prompt's tokens from the second on, if requested.
    pub(crate) prompt_logprobs: Vec<TokenLogprobs>,
    /// Number of tokens generated so far, without the token that ended the text.
    pub(crate) generated: usize,
    /// Numbers of draft tokens of speculation so far, and of accepted ones.
    pub(crate) drafts: (usize, usize),
    /// Number of prompt tokens found in the prefix cache, once known.
    pub(crate) cached: Option<usize>,
    /// Time at which the engine began to compute it.
    pub(crate) admitted: Option<Instant>,
    /// Output of the head that the request asks for.
    pub(crate) output: Option<HeadOutput>,
    pub(crate) end: Option<End>,
}

impl Update {
    /// Appends output events, and merges those that continue the last one.
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

    /// Returns the content of the output events.
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
    /// The decision on the request, once made.
    verdict: Option<Result<(), Refusal>>,
    parts: Vec<Option<Update>>,
    /// True if the worker ended.
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

/// The receiving side of a mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox(Arc<Shared>);

/// The engine's side of a mailbox.
#[derive(Debug)]
pub(crate) struct Sender(Arc<Shared>);

/// Creates a mailbox for a request of `choices` choices.
pub(crate) fn mailbox(choices: usize) -> (Sender, Mailbox) {
    let letters = Letters { parts: vec![None; choices], ..Letters::default() };
    let letters = Mutex::new(letters);
    let shared = Arc::new(Shared { letters, arrived: Notify::new(), closed: AtomicBool::new(false) });
    (Sender(Arc::clone(&shared)), Mailbox(shared))
}

impl Sender {
    /// Returns true if the receiver was dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Relaxed)
    }

    /// Accepts or refuses the request.
    pub(crate) fn decide(&self, verdict: Result<(), Refusal>) {
        self.0.lock().verdict.get_or_insert(verdict);
        self.0.arrived.notify_one();
    }

    /// Changes the unread update of a choice.
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

/// Error of a worker that ended without an answer.
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

    /// Waits for updates. Returns the index and the update of each choice that has one.
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

    /// Waits like [`next`](Self::next), for a limited time.
    pub(crate) async fn next_within(
        &mut self,
        time: Duration,
    ) -> Option<Result<Vec<(usize, Update)>, Abandoned>> {
        timeout(time, self.next()).await.ok()
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Relaxed);
    }
}
