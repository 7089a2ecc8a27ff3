//! Task: relevance of documents for a question.

use crate::classify::label_head;
use crate::error::{Error, ErrorKind};
use crate::kind::TaskKind;
use crate::model::TaskModel;
use crate::pairs::{LongDocument, encode_pairs};
use crate::task::{Plan, Task, TaskPrompt, logits};
use leyden_kernels::Tier;
use leyden_models::ModelConfig;
use leyden_models::heads::HeadOutput;

/// Relevance of pairs of a question and a document.
#[derive(Clone, Debug)]
pub struct Rerank {
    /// Pair of each prompt.
    pair_of: Vec<usize>,
    pairs: usize,
    /// True for log-odds instead of scores from 0 to 1.
    raw: bool,
}

impl Rerank {
    /// Plans the relevance of the second text of each pair for the first: from 0 to 1 or, if `raw`, log-odds.
    ///
    /// # Errors
    /// The model is no reranker, or as [`encode_pairs`](crate::encode_pairs).
    pub fn plan<'t>(
        model: &TaskModel<'_>,
        pairs: impl ExactSizeIterator<Item = (&'t str, &'t str)>,
        long: LongDocument,
        raw: bool,
    ) -> Result<Plan<Rerank>, Error> {
        let head = label_head(model, TaskKind::Rerank)?;
        let mut task = Rerank { pair_of: Vec::new(), pairs: pairs.len(), raw };
        let mut prompts = Vec::with_capacity(task.pairs);
        for part in encode_pairs(model, pairs, long)? {
            task.pair_of.push(part.pair);
            prompts.push(TaskPrompt::of_pair(part.tokens, head));
        }
        Ok(Plan { prompts, task })
    }
}

impl Task for Rerank {
    type Result = Vec<f32>;

    /// Returns the relevance of each pair: the best of its parts.
    fn finish(
        self,
        (config, tier): (&ModelConfig, Tier),
        outputs: Vec<HeadOutput>,
    ) -> Result<Vec<f32>, Error> {
        let classifier = config.classifier().ok_or(ErrorKind::Output)?;
        let mut best = vec![f32::NEG_INFINITY; self.pairs];
        for (pair, logits) in self.pair_of.into_iter().zip(logits(outputs)?) {
            let score = classifier.relevance(tier, &logits, self.raw).first().copied();
            best[pair] = best[pair].max(score.unwrap_or_default());
        }
        Ok(best)
    }
}
