//! Task: scores of the labels of texts, of pairs of texts, or of tokens.

use crate::embed_tokens::Rows;
use crate::error::{Error, ErrorKind};
use crate::kind::TaskKind;
use crate::model::TaskModel;
use crate::pairs::{LongDocument, encode_pairs};
use crate::task::{Plan, Task, TaskPrompt, logits};
use crate::texts::{Preface, TextInput, TextOptions, encode_texts};
use crate::truncation::Truncation;
use leyden_kernels::Tier;
use leyden_models::ModelConfig;
use leyden_models::heads::{HeadOutput, LabelLogits};

/// Scores of labels: a row of each text or pair, or a row of each token.
#[derive(Clone, Copy, Debug)]
pub struct Classify {
    /// True for logits instead of scores.
    raw: bool,
}

impl Classify {
    /// Plans the scores of the labels of texts, or of the tokens of texts if the task is
    /// [`TaskKind::ExtractTokens`]; logits if `raw`.
    ///
    /// # Errors
    /// The model has no such labels, or as [`encode_texts`](crate::encode_texts).
    pub fn plan<'t>(
        model: &TaskModel<'_>,
        task: TaskKind,
        inputs: impl IntoIterator<Item = TextInput<'t>>,
        (truncation, raw): (Truncation, bool),
    ) -> Result<Plan<Classify>, Error> {
        let head = label_head(model, task)?;
        let options = TextOptions { preface: Preface::none(), truncation };
        let texts = encode_texts(model, inputs, &options)?;
        let prompts = texts.into_iter().map(|ids| TaskPrompt::new(ids, head)).collect();
        Ok(Plan { prompts, task: Classify { raw } })
    }

    /// Plans the scores of the labels of pairs of texts; logits if `raw`.
    ///
    /// # Errors
    /// The model has no labels of texts, or as [`encode_pairs`](crate::encode_pairs).
    pub fn plan_pairs<'t>(
        model: &TaskModel<'_>,
        pairs: impl IntoIterator<Item = (&'t str, &'t str)>,
        truncation: Truncation,
        raw: bool,
    ) -> Result<Plan<Classify>, Error> {
        let head = label_head(model, TaskKind::Classify)?;
        let parts = encode_pairs(model, pairs, LongDocument::Truncate(truncation))?;
        let prompts = parts.into_iter().map(|part| TaskPrompt::of_pair(part.tokens, head)).collect();
        Ok(Plan { prompts, task: Classify { raw } })
    }
}

impl Task for Classify {
    type Result = Vec<Rows>;

    fn finish(
        self,
        (config, tier): (&ModelConfig, Tier),
        outputs: Vec<HeadOutput>,
    ) -> Result<Vec<Rows>, Error> {
        let classifier = config.classifier().ok_or(ErrorKind::Output)?;
        let rows = |mut values: Vec<f32>| {
            if !self.raw {
                classifier.scores(tier, &mut values);
            }
            Rows { width: classifier.labels.len(), values }
        };
        Ok(logits(outputs)?.into_iter().map(rows).collect())
    }
}

/// Returns the head of a model's labels, if the model can do the task.
pub(crate) fn label_head(model: &TaskModel<'_>, task: TaskKind) -> Result<LabelLogits, Error> {
    model.require(task)?;
    let classifier = model.config.classifier().ok_or(ErrorKind::Unable(task))?;
    Ok(LabelLogits { of: classifier.of })
}
