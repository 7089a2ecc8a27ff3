//! [`Task`]: the step from outputs of heads to a result; [`Plan`]: a task with its prompts.

use crate::error::{Error, ErrorKind};
use leyden_kernels::Tier;
use leyden_models::ModelConfig;
use leyden_models::heads::{Head, HeadOutput};
use leyden_text::Pair;

/// Prompt of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPrompt {
    /// Tokens.
    pub ids: Vec<u32>,
    /// Index of the first token of a pair's second text, for models with token types.
    pub second: Option<usize>,
    /// Head whose output the task needs.
    pub head: Head,
}

impl TaskPrompt {
    /// Returns the prompt of a single text.
    pub(crate) fn new(ids: Vec<u32>, head: impl Into<Head>) -> TaskPrompt {
        TaskPrompt { ids, second: None, head: head.into() }
    }

    /// Returns the prompt of a pair of texts.
    pub(crate) fn of_pair(pair: Pair, head: impl Into<Head>) -> TaskPrompt {
        TaskPrompt { ids: pair.ids, second: pair.second, head: head.into() }
    }
}

/// Task with its prompts.
#[derive(Debug)]
pub struct Plan<T> {
    /// Prompts to compute, in any order.
    pub prompts: Vec<TaskPrompt>,
    /// Task that finishes with their outputs.
    pub task: T,
}

/// Task whose prompts have been computed.
pub trait Task: Send + 'static {
    /// Result.
    type Result: Send + 'static;

    /// True if [`finish`](Self::finish) may take more than some milliseconds.
    const LONG_FINISH: bool = false;

    /// Returns the result from the model's parameters, an instruction-set tier (all give the same bits) and the outputs
    /// of the heads, in the order of the prompts.
    ///
    /// # Errors
    /// Results are not finite or too large, or outputs are of another head.
    fn finish(self, model: (&ModelConfig, Tier), outputs: Vec<HeadOutput>) -> Result<Self::Result, Error>;
}

/// Returns the width and the values of each output of vectors.
pub(crate) fn vectors(outputs: Vec<HeadOutput>) -> Result<Vec<(usize, Vec<f32>)>, Error> {
    let of = |output| match output {
        HeadOutput::Vectors { width, values } => Ok((width, values)),
        _ => Err(ErrorKind::Output.into()),
    };
    outputs.into_iter().map(of).collect()
}

/// Returns the values of each output of logits.
pub(crate) fn logits(outputs: Vec<HeadOutput>) -> Result<Vec<Vec<f32>>, Error> {
    let of = |output| match output {
        HeadOutput::Logits { values, .. } => Ok(values),
        _ => Err(ErrorKind::Output.into()),
    };
    outputs.into_iter().map(of).collect()
}
