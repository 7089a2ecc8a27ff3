//! Task: vectors of the tokens of texts.

use crate::error::Error;
use crate::model::TaskModel;
use crate::task::{Plan, Task, TaskPrompt, vectors};
use crate::texts::{TextInput, TextOptions, encode_texts};
use leyden_kernels::Tier;
use leyden_models::ModelConfig;
use leyden_models::heads::{HeadOutput, TokenVectors};

/// Rows of one text: vectors or scores of its tokens.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// Number of values of a row.
    pub width: usize,
    /// Values, `[rows, width]`.
    pub values: Vec<f32>,
}

/// Vectors of the tokens of texts: those of the model's head for late interaction, or the hidden states.
#[derive(Clone, Copy, Debug)]
pub struct EmbedTokens;

impl EmbedTokens {
    /// Plans the vectors of the tokens of texts.
    ///
    /// # Errors
    /// As [`encode_texts`](crate::encode_texts).
    pub fn plan<'t>(
        model: &TaskModel<'_>,
        inputs: impl IntoIterator<Item = TextInput<'t>>,
        options: &TextOptions,
    ) -> Result<Plan<EmbedTokens>, Error> {
        let texts = encode_texts(model, inputs, options)?;
        let prompts = texts.into_iter().map(|ids| TaskPrompt::new(ids, TokenVectors)).collect();
        Ok(Plan { prompts, task: EmbedTokens })
    }
}

impl Task for EmbedTokens {
    type Result = Vec<Rows>;

    fn finish(self, _: (&ModelConfig, Tier), outputs: Vec<HeadOutput>) -> Result<Vec<Rows>, Error> {
        Ok(vectors(outputs)?.into_iter().map(|(width, values)| Rows { width, values }).collect())
    }
}
