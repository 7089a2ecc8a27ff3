//! [`Answerer`]: the model of a conversation, and the parts of its answers.

use std::ops::ControlFlow;

use leyden::Message;

use super::settings::Settings;
use crate::cli::failure::Failure;

/// Model that answers.
pub(super) trait Answerer {
    /// Answers a conversation that ends with a user's message. `on_event` may stop the answer, which then is the text
    /// so far.
    fn answer(
        &mut self,
        messages: &[Message],
        settings: &Settings,
        on_event: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<Reply, Failure>;

    /// Returns the number of tokens of the conversation.
    fn tokens(&self, messages: &[Message], settings: &Settings) -> Result<usize, Failure>;

    /// Returns the length of the context in tokens.
    fn context(&self) -> usize;

    /// Returns true if the amount of reasoning can be set.
    fn can_think(&self) -> bool;

    /// Sets the length of the context in tokens; `None` for that of the model. The conversation is computed again.
    fn set_context(&mut self, tokens: Option<usize>) -> Result<(), Failure>;
}

/// Piece of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Heard<'a> {
    /// No text: a regular call to check for an interrupt.
    Nothing,
    /// Generated text, whose parts follow as other events.
    Raw(&'a str),
    /// Part of the reasoning.
    Reasoning(&'a str),
    /// Part of the answer.
    Content(&'a str),
}

/// Complete answer.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) message: Message,
    /// True if it ended because the context was full.
    pub(super) is_full: bool,
    /// Speed as text.
    pub(super) speed: String,
}
