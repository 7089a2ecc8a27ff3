//! Task: entities by the labels that a model gives to tokens.

use crate::classify::label_head;
use crate::entities::{Aggregation, Entity, entities};
use crate::error::{Error, ErrorKind, Place};
use crate::kind::TaskKind;
use crate::model::TaskModel;
use crate::task::{Plan, Task, TaskPrompt, logits};
use crate::token_windows::{owner, starts};
use leyden_kernels::Tier;
use leyden_models::ModelConfig;
use leyden_models::heads::HeadOutput;
use leyden_text::{Located, encode_located};

/// Window of a text.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Index of the text.
    text: usize,
    /// First token of the window in the text.
    start: usize,
}

/// Texts whose entities are searched by the labels of tokens. A text that is longer than the context is read in
/// overlapping windows, and each token's labels come from the window whose edges are farthest from it.
#[derive(Debug)]
pub struct ExtractTokens {
    aggregation: Aggregation,
    texts: Vec<Vec<Located>>,
    windows: Vec<Window>,
    /// Maximum number of tokens of a text in a window.
    room: usize,
    /// Number of tokens before those of the text.
    before: usize,
}

impl ExtractTokens {
    /// Plans the entities of texts.
    ///
    /// # Errors
    /// The model has no labels for tokens, or a text cannot be tokenized.
    pub fn plan<T: AsRef<str>>(
        model: &TaskModel<'_>,
        texts: &[T],
        aggregation: Aggregation,
    ) -> Result<Plan<ExtractTokens>, Error> {
        if TaskKind::ExtractLabels.is_possible(model.config) {
            return Err(ErrorKind::NeedsLabels.into());
        }
        let head = label_head(model, TaskKind::ExtractTokens)?;
        let tokenizer = model.tokenizer;
        let begin = tokenizer.bos().filter(|_| tokenizer.add_bos());
        let end = tokenizer.eos().filter(|_| tokenizer.add_eos());
        let before = usize::from(begin.is_some());
        let room = model.max_tokens.saturating_sub(before + usize::from(end.is_some())).max(1);
        let mut task = ExtractTokens { aggregation, texts: Vec::new(), windows: Vec::new(), room, before };
        let mut prompts = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let located = encode_located(tokenizer, text.as_ref(), &model.bounds());
            let located = located.map_err(|error| ErrorKind::Text(error).at(Place::Text(number)))?;
            for start in starts(located.len(), room) {
                let window = &located[start..located.len().min(start + room)];
                let ids = begin.into_iter().chain(window.iter().map(|token| token.id)).chain(end);
                prompts.push(TaskPrompt::new(ids.collect(), head));
                task.windows.push(Window { text: number, start });
            }
            task.texts.push(located);
        }
        Ok(Plan { prompts, task })
    }
}

impl Task for ExtractTokens {
    type Result = Vec<Vec<Entity>>;

    const LONG_FINISH: bool = true;

    fn finish(
        self,
        (config, tier): (&ModelConfig, Tier),
        outputs: Vec<HeadOutput>,
    ) -> Result<Self::Result, Error> {
        let classifier = config.classifier().ok_or(ErrorKind::Output)?;
        let labels = &classifier.labels[..];
        let ExtractTokens { aggregation, texts, windows, room, before } = self;
        let n = labels.len();
        let mut all: Vec<Vec<f32>> = texts.iter().map(|tokens| vec![0.0; tokens.len() * n]).collect();
        for (Window { text, start }, mut scores) in windows.into_iter().zip(logits(outputs)?) {
            classifier.scores(tier, &mut scores);
            let tokens = texts[text].len();
            let own = scores.chunks_exact(n.max(1)).skip(before).take(room.min(tokens - start));
            for (at, row) in (start..).zip(own) {
                if owner(at, tokens, room) == start {
                    all[text][at * n..][..n].copy_from_slice(row);
                }
            }
        }
        let of_text =
            |(tokens, scores): (&Vec<Located>, &Vec<f32>)| entities(tokens, scores, labels, aggregation);
        Ok(texts.iter().zip(&all).map(of_text).collect())
    }
}
