//! [`Answerer`]: the model of a conversation, and the parts of its answers.

use std::ops::ControlFlow;

use leyden::Message;

use super::settings::Settings;
use crate::cli::failure::Failure;

/// Who answers.
pub(super) trait Answerer {
    /// Answers a conversation whose last message is a user's. `on_event` may stop the answer, and what came until then
    /// counts as the answer.
    fn answer(
        &mut self,
        messages: &[Message],
        settings: &Settings,
        on_event: &mut dyn FnMut(Heard<'_>) -> ControlFlow<()>,
    ) -> Result<Reply, Failure>;

    /// Tokens that the conversation takes.
    fn tokens(&self, messages: &[Message], settings: &Settings) -> Result<usize, Failure>;

    /// Tokens that there is room for.
    fn context(&self) -> usize;

    /// Whether it can be told how much to reason.
    fn can_think(&self) -> bool;

    /// Makes a context of so many tokens, or with `None` of as many as the model was made for. What was said is read again.
    fn set_context(&mut self, tokens: Option<usize>) -> Result<(), Failure>;
}

/// What is heard of an answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Heard<'a> {
    /// Time has passed.
    Nothing,
    /// More text, as the model writes it. The parts that follow say what of it is what.
    Raw(&'a str),
    /// More of what the model reasons before it answers.
    Reasoning(&'a str),
    /// More of the answer.
    Content(&'a str),
}

/// An answer.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) message: Message,
    /// Whether it ended because there was no room for more.
    pub(super) is_full: bool,
    /// How fast it was, in words.
    pub(super) speed: String,
}
