//! Extraction of entities for labels of a request (GLiNER).

use crate::embedder::{Embedder, Text};
use crate::entities::Entity;
use crate::error::Error;
use crate::label_marks::{lacks, marks};
use leyden_models::heads::{FoundSpans, Head, HeadOutput, SpanLogits};
use leyden_models::{LabelledSpan, choose_spans};
use leyden_text::{Bounds, LabelPrompt, LabelledText, WindowLimits};

/// Maximum number of tokens whose hidden states are kept at a time.
const TOKENS: usize = 8192;

/// Options of [`Embedder::extract_labels`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SpanOptions {
    /// Score, from 0 to 1, above which a span is an entity.
    pub threshold: f32,
    /// True if entities may lie within others.
    pub nested: bool,
}

impl Default for SpanOptions {
    fn default() -> SpanOptions {
        SpanOptions { threshold: 0.5, nested: false }
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
}

impl Embedder<'_> {
    /// Finds the entities of these labels in texts, in their order: spans of words with their best label. A text that
    /// is longer than the context is read in overlapping windows, and each span gets its score from the window whose
    /// edges are farthest from it.
    ///
    /// ```no_run
    /// use leyden::{EmbedOptions, LoadOptions, Model, SpanOptions};
    ///
    /// let model = Model::open("gliner_small-v2.1", &LoadOptions::new())?;
    /// let mut embedder = model.embedder(&EmbedOptions::default())?;
    /// let found = embedder.extract_labels(&["Angela lives in Leiden."], &["person", "city"], SpanOptions::default())?;
    /// # Ok::<(), leyden::Error>(())
    /// ```
    ///
    /// # Errors
    /// The model takes no labels, there are none or too many, a text cannot be tokenized, or the model failed.
    pub fn extract_labels<T: AsRef<str>, L: AsRef<str>>(
        &mut self,
        texts: &[T],
        labels: &[L],
        options: SpanOptions,
    ) -> Result<Vec<Vec<Entity>>, Error> {
        let model = self.model;
        let Some(spans) = &model.config().spans else {
            return Err(Error::TakesNoLabels { file: self.file() });
        };
        if !(0.0..=1.0).contains(&options.threshold) {
            let what = format!("{} is not between 0 and 1", options.threshold);
            return Err(Error::Option { name: "threshold", what });
        }
        let labels = LabelPrompt::distinct(labels).map_err(|what| Error::Option { name: "labels", what })?;
        let tokenizer = model.tokenizer();
        let marks = marks(tokenizer, spans, model.network().vocabulary())?
            .ok_or_else(|| Error::LabelMark { file: self.file(), what: lacks(spans) })?;
        let prompt = LabelPrompt::new(tokenizer, &labels, &marks, &Bounds::NONE)?;
        let context = self.engine.options().context;
        if !prompt.leaves_room(context) {
            return Err(Error::LabelsTooLong { tokens: prompt.tokens(), context });
        }
        let words = spans.words_at_once(labels.len());
        let limits = WindowLimits { tokens: context, words, span: spans.max_width };
        let of_labels = spans.label_tokens(prompt.marks());
        let read = |text: &T| LabelledText::new(tokenizer, &prompt, text.as_ref(), limits, &Bounds::NONE);
        let read = texts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let all: Vec<(usize, usize)> =
            (0..).zip(&read).flat_map(|(i, text)| (0..text.windows.len()).map(move |w| (i, w))).collect();
        let mut found: Vec<Vec<LabelledSpan>> = vec![Vec::new(); texts.len()];
        let mut rest = &all[..];
        while !rest.is_empty() {
            let mut tokens = 0;
            let fits = |&&(text, window): &&(usize, usize)| {
                tokens += read[text].windows[window].ids.len();
                tokens <= TOKENS
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let (group, others) = rest.split_at(count);
            rest = others;
            let window = |&(text, window): &(usize, usize)| Text {
                ids: read[text].windows[window].ids.clone(),
                second: None,
            };
            let head = |&(text, window): &(usize, usize)| {
                let words = read[text].windows[window].tokens.clone();
                let spans = SpanLogits { words, labels: of_labels.clone() };
                FoundSpans { spans, threshold: options.threshold }.into()
            };
            let heads: Vec<Head> = group.iter().map(head).collect();
            let outputs = self.outputs(&group.iter().map(window).collect::<Vec<_>>(), &heads)?;
            for (&(number, window), output) in group.iter().zip(outputs) {
                let text = &read[number];
                let first = text.windows[window].words.start;
                let HeadOutput::Spans(spans) = output else { continue };
                let in_text = spans.into_iter().map(|span| {
                    let words = first + span.words.start..first + span.words.end;
                    LabelledSpan { words, ..span }
                });
                found[number].extend(in_text.filter(|span| text.decides(&span.words) == Some(window)));
            }
        }
        let entity = |text: &LabelledText, span: LabelledSpan| Entity {
            label: labels[span.label].to_owned(),
            score: span.score,
            range: text.words[span.words.start].start..text.words[span.words.end - 1].end,
        };
        let chosen = |(text, found)| {
            choose_spans(found, options.nested).into_iter().map(|span| entity(text, span)).collect()
        };
        Ok(read.iter().zip(found).map(chosen).collect())
    }
}
