//! Task: sparse vectors of texts.

use crate::error::{Error, ErrorKind};
use crate::kind::TaskKind;
use crate::model::TaskModel;
use crate::task::{Plan, Task, TaskPrompt};
use crate::texts::{TextInput, TextOptions, encode_texts};
use leyden_kernels::Tier;
use leyden_models::ModelConfig;
use leyden_models::heads::{HeadOutput, SparseVector};

/// Sparse vectors of texts: weights of token ids, by ascending id.
#[derive(Clone, Copy, Debug)]
pub struct EmbedSparse;

impl EmbedSparse {
    /// Plans the sparse vectors of texts.
    ///
    /// # Errors
    /// The model computes none, or as [`encode_texts`](crate::encode_texts).
    pub fn plan<'t>(
        model: &TaskModel<'_>,
        inputs: impl IntoIterator<Item = TextInput<'t>>,
        options: &TextOptions,
    ) -> Result<Plan<EmbedSparse>, Error> {
        model.require(TaskKind::EmbedSparse)?;
        let prompt = |ids: Vec<u32>| {
            let mut special: Vec<u32> =
                ids.iter().copied().filter(|id| model.tokenizer.is_special(*id)).collect();
            special.sort_unstable();
            special.dedup();
            TaskPrompt::new(ids, SparseVector { special })
        };
        let prompts = encode_texts(model, inputs, options)?.into_iter().map(prompt).collect();
        Ok(Plan { prompts, task: EmbedSparse })
    }
}

impl Task for EmbedSparse {
    type Result = Vec<Vec<(u32, f32)>>;

    fn finish(self, _: (&ModelConfig, Tier), outputs: Vec<HeadOutput>) -> Result<Self::Result, Error> {
        let weights = |output| match output {
            HeadOutput::Sparse(weights) => Ok(weights),
            _ => Err(ErrorKind::Output.into()),
        };
        outputs.into_iter().map(weights).collect()
    }
}
