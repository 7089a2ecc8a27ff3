//! Task: entities of labels in the request (GLiNER).

use crate::entities::Entity;
use crate::error::{Error, ErrorKind, Place};
use crate::kind::TaskKind;
use crate::label_marks::label_marks;
use crate::model::TaskModel;
use crate::task::{Plan, Task, TaskPrompt};
use leyden_kernels::Tier;
use leyden_models::heads::{FoundSpans, HeadOutput, SpanLogits};
use leyden_models::{LabelledSpan, ModelConfig, choose_spans};
use leyden_text::{LabelPrompt, LabelledText, LabelledWindow, WindowLimits};

/// Options of entities for labels in the request.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SpanOptions {
    /// Score, from 0 to 1, above which a span is an entity.
    pub threshold: f32,
    /// True if entities may lie within others.
    pub nested: bool,
    /// Maximum number of entities of all texts; more are an error.
    pub max_entities: usize,
}

impl Default for SpanOptions {
    fn default() -> SpanOptions {
        SpanOptions { threshold: 0.5, nested: false, max_entities: usize::MAX }
    }
}

impl SpanOptions {
    /// Sets [`threshold`](Self::threshold).
    #[must_use]
    pub fn threshold(mut self, threshold: f32) -> SpanOptions {
        self.threshold = threshold;
        self
    }

    /// Sets [`nested`](Self::nested).
    #[must_use]
    pub fn nested(mut self, nested: bool) -> SpanOptions {
        self.nested = nested;
        self
    }

    /// Sets [`max_entities`](Self::max_entities).
    #[must_use]
    pub fn max_entities(mut self, max_entities: usize) -> SpanOptions {
        self.max_entities = max_entities;
        self
    }
}

/// Texts in which entities of a request's labels are searched. A text that is longer than the context is read in
/// overlapping windows, and each span's score comes from the window whose edges are farthest from it.
#[derive(Debug)]
pub struct ExtractLabels {
    labels: Vec<String>,
    texts: Vec<LabelledText>,
    nested: bool,
    max_entities: usize,
}

impl ExtractLabels {
    /// Plans the entities of labels in texts.
    ///
    /// # Errors
    /// The model takes no labels; the labels are none, too many, empty or too long; the threshold is out of range; or a
    /// text cannot be tokenized.
    pub fn plan<T: AsRef<str>, L: AsRef<str>>(
        model: &TaskModel<'_>,
        texts: &[T],
        labels: &[L],
        options: SpanOptions,
    ) -> Result<Plan<ExtractLabels>, Error> {
        let Some(spans) = &model.config.spans else {
            return Err(ErrorKind::Unable(TaskKind::ExtractLabels).at(Place::Labels));
        };
        if !(0.0..=1.0).contains(&options.threshold) {
            return Err(ErrorKind::Threshold(options.threshold).into());
        }
        let of_labels = |kind: ErrorKind| kind.at(Place::Labels);
        let labels = LabelPrompt::distinct(labels).map_err(|what| of_labels(ErrorKind::Labels(what)))?;
        let marks = label_marks(spans, model.tokenizer, model.vocabulary)?;
        let (max_tokens, bounds) = (model.max_tokens, model.bounds());
        let prompt = LabelPrompt::new(model.tokenizer, &labels, &marks, &bounds);
        let prompt = prompt.map_err(|error| of_labels(ErrorKind::Text(error)))?;
        if !prompt.leaves_room(max_tokens) {
            return Err(of_labels(ErrorKind::LabelsTooLong { tokens: prompt.tokens(), max_tokens }));
        }
        let words = spans.words_at_once(labels.len());
        let window = WindowLimits { tokens: max_tokens, words, span: spans.max_width };
        let read = |(number, text): (usize, &T)| {
            LabelledText::new(model.tokenizer, &prompt, text.as_ref(), window, &bounds)
                .map_err(|error| ErrorKind::Text(error).at(Place::Text(number)))
        };
        let mut all = texts.iter().enumerate().map(read).collect::<Result<Vec<_>, Error>>()?;
        let of_labels = spans.label_tokens(prompt.marks());
        let threshold = options.threshold;
        let plan = |window: &mut LabelledWindow| {
            let spans = SpanLogits { words: std::mem::take(&mut window.tokens), labels: of_labels.clone() };
            TaskPrompt::new(std::mem::take(&mut window.ids), FoundSpans { spans, threshold })
        };
        let prompts = all.iter_mut().flat_map(|text| &mut text.windows).map(plan).collect();
        let labels = labels.into_iter().map(str::to_owned).collect();
        let SpanOptions { nested, max_entities, .. } = options;
        Ok(Plan { prompts, task: ExtractLabels { labels, texts: all, nested, max_entities } })
    }
}

impl Task for ExtractLabels {
    type Result = Vec<Vec<Entity>>;

    const LONG_FINISH: bool = true;

    fn finish(self, _: (&ModelConfig, Tier), outputs: Vec<HeadOutput>) -> Result<Self::Result, Error> {
        let ExtractLabels { labels, texts, nested, max_entities } = self;
        let mut found = outputs.into_iter();
        let mut room = max_entities;
        let mut all = Vec::with_capacity(texts.len());
        for text in &texts {
            let mut spans = Vec::new();
            for (number, window) in text.windows.iter().enumerate() {
                let Some(HeadOutput::Spans(found)) = found.next() else {
                    return Err(ErrorKind::Output.into());
                };
                for mut span in found {
                    // Words are numbered from the first word of the window.
                    let first = window.words.start;
                    span.words = span.words.start + first..span.words.end + first;
                    if text.decides(&span.words) == Some(number) {
                        spans.push(span);
                    }
                }
            }
            let chosen = choose_spans(spans, nested);
            let error = ErrorKind::TooManyEntities { max: max_entities };
            room = room.checked_sub(chosen.len()).ok_or(error)?;
            let entity = |span: LabelledSpan| Entity {
                label: labels[span.label].clone(),
                score: span.score,
                range: text.words[span.words.start].start..text.words[span.words.end - 1].end,
            };
            all.push(chosen.into_iter().map(entity).collect());
        }
        Ok(all)
    }
}
