//! Task: decisions on the labels of texts by a calibration: a label, a set of labels, or an abstention.

use crate::calibration::{Decider, Decision};
use crate::classify::label_head;
use crate::error::{Error, ErrorKind, Place};
use crate::kind::TaskKind;
use crate::model::TaskModel;
use crate::task::{Plan, Task, TaskPrompt, logits};
use crate::texts::{Preface, TextInput, TextOptions, encode_texts};
use crate::truncation::Truncation;
use leyden_kernels::Tier;
use leyden_models::ModelConfig;
use leyden_models::heads::HeadOutput;
use std::sync::Arc;

/// Decisions on the labels of texts.
#[derive(Clone, Debug)]
pub struct Decide {
    decider: Arc<Decider>,
    /// True for logits instead of scores beside the decisions.
    raw: bool,
}

/// Decision on a text, with the scores of all labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// Scores of the labels without the calibration, as [`Classify`](crate::Classify) gives them.
    pub scores: Vec<f32>,
    /// Decision.
    pub decision: Decision,
}

impl Decide {
    /// Plans decisions on texts; logits beside them if `raw`. The calibration of the decider has been checked against
    /// the model.
    ///
    /// # Errors
    /// The model has no labels of texts, or as [`encode_texts`](crate::encode_texts).
    pub fn plan<'t>(
        model: &TaskModel<'_>,
        inputs: impl IntoIterator<Item = TextInput<'t>>,
        decider: Arc<Decider>,
        (truncation, raw): (Truncation, bool),
    ) -> Result<Plan<Decide>, Error> {
        let head = label_head(model, TaskKind::Classify)?;
        let options = TextOptions { preface: Preface::none(), truncation };
        let texts = encode_texts(model, inputs, &options)?;
        let prompts = texts.into_iter().map(|ids| TaskPrompt::new(ids, head)).collect();
        Ok(Plan { prompts, task: Decide { decider, raw } })
    }
}

impl Task for Decide {
    type Result = Vec<Decided>;

    fn finish(
        self,
        (config, tier): (&ModelConfig, Tier),
        outputs: Vec<HeadOutput>,
    ) -> Result<Vec<Decided>, Error> {
        let classifier = config.classifier().ok_or(ErrorKind::Output)?;
        let decided = |(number, mut values): (usize, Vec<f32>)| {
            let decision = self.decider.decide(&values);
            let decision = decision.map_err(|error| ErrorKind::Calibration(error).at(Place::Text(number)))?;
            if !self.raw {
                classifier.scores(tier, &mut values);
            }
            Ok(Decided { scores: values, decision })
        };
        logits(outputs)?.into_iter().enumerate().map(decided).collect()
    }
}
