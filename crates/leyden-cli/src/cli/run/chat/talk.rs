//! [`Talk`]: the state of a conversation.

use std::io::Write;

use leyden::Message;

use super::super::answer::Answerer;
use super::super::settings::Settings;
use crate::cli::failure::Failure;
use crate::cli::text::plural;

/// What of the context is kept free for an answer when the oldest turns are dropped: a quarter.
pub(super) const FREE_SHARE: usize = 4;

/// A conversation as it stands.
#[derive(Debug, Clone)]
pub(crate) struct Talk {
    /// The model, as the user named it.
    pub(crate) model: String,
    /// What was said, without the system's instruction, as far as the model still sees it.
    pub(crate) messages: Vec<Message>,
    /// What was said before, and dropped because the context was full.
    dropped: Vec<Message>,
    pub(crate) settings: Settings,
    /// Texts that go before the next message.
    pub(crate) attached: Vec<String>,
}

impl Talk {
    /// One in which nothing was said.
    pub(crate) fn new(model: String, settings: Settings) -> Self {
        Self { model, messages: Vec::new(), dropped: Vec::new(), settings, attached: Vec::new() }
    }

    /// All messages, with the system's instruction first, those included that were dropped.
    pub(crate) fn all_messages(&self) -> Vec<Message> {
        let system = self.settings.system.as_ref().map(|text| Message::new("system", text));
        system.into_iter().chain(self.dropped.iter().chain(&self.messages).cloned()).collect()
    }

    /// Forgets what was said.
    pub(crate) fn clear(&mut self) {
        self.messages.clear();
        self.dropped.clear();
        self.attached.clear();
    }

    /// Takes the messages of another conversation.
    pub(crate) fn take_messages(&mut self, mut messages: Vec<Message>) {
        if messages.first().is_some_and(|message| message.role == "system") {
            self.settings.system = Some(messages.remove(0).content);
        }
        self.clear();
        self.messages = messages;
    }

    /// Drops the last question with its answer, and returns the question.
    pub(crate) fn drop_last_turn(&mut self) -> Option<Message> {
        let at = self.messages.iter().rposition(|message| message.role == "user")?;
        self.messages.drain(at..).next()
    }

    /// Drops the oldest turns until a quarter of the context is free, but never the last question. Returns how many turns
    /// went.
    pub(crate) fn trim(&mut self, answerer: &dyn Answerer) -> Result<usize, Failure> {
        let room = answerer.context() - answerer.context() / FREE_SHARE;
        let mut dropped = 0;
        while answerer.tokens(&self.messages, &self.settings)? > room {
            let next = self.messages.iter().skip(1).position(|message| message.role == "user");
            let Some(next) = next else { break };
            self.dropped.extend(self.messages.drain(..=next));
            dropped += 1;
        }
        Ok(dropped)
    }
}

/// Says what was dropped, and by which rule.
pub(super) fn trimmed(dropped: usize, talk: &Talk, answerer: &dyn Answerer) -> Result<String, Failure> {
    let tokens = answerer.tokens(&talk.messages, &talk.settings)?;
    let context = answerer.context();
    Ok(format!(
        "(dropped the {} so that a quarter of the context is free: {tokens} of {context} tokens are used)",
        plural(dropped, "oldest turn")
    ))
}

pub(super) fn say(err: &mut dyn Write, text: &str) {
    // Standard error may be closed; the conversation goes on.
    let _ = writeln!(err, "{text}");
}
