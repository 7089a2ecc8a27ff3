//! Task: vectors of texts.

use crate::error::Error;
use crate::model::TaskModel;
use crate::task::{Plan, Task, TaskPrompt, vectors};
use crate::texts::{TextInput, TextOptions, encode_texts};
use crate::vectors::VectorShape;
use leyden_kernels::Tier;
use leyden_models::heads::{HeadOutput, TextVector};
use leyden_models::{ModelConfig, Pooling};

/// Vectors of texts.
#[derive(Clone, Copy, Debug)]
pub struct Embed {
    shape: VectorShape,
}

impl Embed {
    /// Plans the vectors of texts, pooled by `pooling`, in this shape.
    ///
    /// # Errors
    /// As [`encode_texts`](crate::encode_texts).
    pub fn plan<'t>(
        model: &TaskModel<'_>,
        inputs: impl IntoIterator<Item = TextInput<'t>>,
        options: &TextOptions,
        (pooling, shape): (Pooling, VectorShape),
    ) -> Result<Plan<Embed>, Error> {
        let texts = encode_texts(model, inputs, options)?;
        let prompts = texts.into_iter().map(|ids| TaskPrompt::new(ids, TextVector { pooling })).collect();
        Ok(Plan { prompts, task: Embed { shape } })
    }
}

impl Task for Embed {
    type Result = Vec<Vec<f32>>;

    fn finish(self, _: (&ModelConfig, Tier), outputs: Vec<HeadOutput>) -> Result<Vec<Vec<f32>>, Error> {
        Ok(vectors(outputs)?.into_iter().map(|(_, vector)| self.shape.apply(vector)).collect())
    }
}
