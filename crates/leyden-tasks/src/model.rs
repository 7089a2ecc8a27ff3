//! [`TaskModel`]: parts of a model, and limits of a request, that turn texts to prompts.

use crate::error::ErrorKind;
use crate::kind::TaskKind;
use leyden_models::{ModelConfig, Prompts};
use leyden_text::{Bounds, ChatTemplate, Tokenizer};
use std::fmt;

/// Parts of a model that turn texts to prompts, with the limits of a request.
#[derive(Clone, Copy)]
pub struct TaskModel<'a> {
    /// Parameters.
    pub config: &'a ModelConfig,
    /// Tokenizer.
    pub tokenizer: &'a dyn Tokenizer,
    /// Chat template, if the model has one.
    pub template: Option<&'a ChatTemplate>,
    /// Prompts before texts.
    pub prompts: &'a Prompts,
    /// Number of token ids.
    pub vocabulary: usize,
    /// Maximum number of tokens of a prompt.
    pub max_tokens: usize,
    /// True to count all tokens of a text that is refused as too long; false to stop at the limit.
    pub counts_excess: bool,
    /// Callback that cancels the work if it returns true.
    pub stop: &'a dyn Fn() -> bool,
}

impl fmt::Debug for TaskModel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskModel").field("max_tokens", &self.max_tokens).finish_non_exhaustive()
    }
}

impl TaskModel<'_> {
    /// Checks that the model can do a task.
    pub(crate) fn require(&self, task: TaskKind) -> Result<(), ErrorKind> {
        if task.is_possible(self.config) { Ok(()) } else { Err(ErrorKind::Unable(task)) }
    }

    /// Returns the bounds of tokenizing without a maximum number of tokens.
    pub(crate) fn bounds(&self) -> Bounds<'_> {
        Bounds::NONE.until(self.stop)
    }
}

/// Checks the number of tokens of a prompt.
///
/// # Errors
/// There are none, or more than the model takes.
pub fn check_tokens(tokens: usize, max_tokens: usize) -> Result<(), ErrorKind> {
    match tokens {
        0 => Err(ErrorKind::Empty),
        _ if tokens > max_tokens => Err(ErrorKind::TooLong { tokens, counted: true, max_tokens }),
        _ => Ok(()),
    }
}
