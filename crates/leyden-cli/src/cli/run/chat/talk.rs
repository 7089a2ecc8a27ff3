//! [`Talk`]: the state of a conversation.

use std::io::Write;

use leyden::Message;

use super::super::answer::Answerer;
use super::super::settings::Settings;
use crate::cli::failure::Failure;
use crate::cli::text::plural;

/// Divisor of the context: dropping turns frees a quarter of it.
pub(super) const FREE_SHARE: usize = 4;

/// State of a conversation.
#[derive(Debug, Clone)]
pub(crate) struct Talk {
    /// Model, as named by the user.
    pub(crate) model: String,
    /// Messages that are in the prompt, without the system message.
    pub(crate) messages: Vec<Message>,
    /// Older messages, dropped because the context was full.
    dropped: Vec<Message>,
    pub(crate) settings: Settings,
    /// Texts of files to put before the next message.
    pub(crate) attached: Vec<String>,
}

impl Talk {
    /// Returns a conversation without messages.
    pub(crate) fn new(model: String, settings: Settings) -> Self {
        Self { model, messages: Vec::new(), dropped: Vec::new(), settings, attached: Vec::new() }
    }

    /// Returns all messages, the system message first and dropped ones included.
    pub(crate) fn all_messages(&self) -> Vec<Message> {
        let system = self.settings.system.as_ref().map(|text| Message::new("system", text));
        system.into_iter().chain(self.dropped.iter().chain(&self.messages).cloned()).collect()
    }

    /// Removes all messages and attached texts.
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

    /// Drops the oldest turns until a quarter of the context is free, but never the last question. Returns the number
    /// of dropped turns.
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

/// Returns the message about dropped turns.
pub(super) fn trimmed(dropped: usize, talk: &Talk, answerer: &dyn Answerer) -> Result<String, Failure> {
    let tokens = answerer.tokens(&talk.messages, &talk.settings)?;
    let context = answerer.context();
    Ok(format!(
        "(dropped the {} so that a quarter of the context is free: {tokens} of {context} tokens are used)",
        plural(dropped, "oldest turn")
    ))
}

pub(super) fn say(err: &mut dyn Write, text: &str) {
    // Standard error may be closed; the conversation continues.
    let _ = writeln!(err, "{text}");
}
