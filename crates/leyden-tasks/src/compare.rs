//! Task: similarity of texts, by the model's similarity function.

use crate::embed::Embed;
use crate::error::Error;
use crate::model::TaskModel;
use crate::task::{Plan, Task};
use crate::texts::{TextInput, TextOptions};
use crate::vectors::VectorShape;
use leyden_kernels::Tier;
use leyden_models::heads::HeadOutput;
use leyden_models::{ModelConfig, Pooling};

/// Similarity of texts.
#[derive(Clone, Copy, Debug)]
pub struct Compare {
    embed: Embed,
    /// Number of first texts.
    first: usize,
}

impl Compare {
    /// Plans the similarity of each text after the `first` ones: to the text at the same place among those, or to the
    /// only one of them.
    ///
    /// # Errors
    /// As [`encode_texts`](crate::encode_texts).
    pub fn plan<'t>(
        model: &TaskModel<'_>,
        inputs: impl IntoIterator<Item = TextInput<'t>>,
        options: &TextOptions,
        (pooling, first): (Pooling, usize),
    ) -> Result<Plan<Compare>, Error> {
        let vectors = (pooling, VectorShape::compared(model.config));
        let Plan { prompts, task } = Embed::plan(model, inputs, options, vectors)?;
        Ok(Plan { prompts, task: Compare { embed: task, first } })
    }
}

impl Task for Compare {
    type Result = Vec<f64>;

    fn finish(
        self,
        (config, tier): (&ModelConfig, Tier),
        outputs: Vec<HeadOutput>,
    ) -> Result<Vec<f64>, Error> {
        let vectors = self.embed.finish((config, tier), outputs)?;
        let similarity = config.vectors.similarity;
        let (first, second) = vectors.split_at(self.first.min(vectors.len()));
        let pairs = second.iter().zip(first.iter().cycle());
        Ok(pairs.map(|(second, first)| similarity.of(first, second)).collect())
    }
}
