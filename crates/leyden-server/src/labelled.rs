//! Extraction of entities for labels in the request: the prompts, and the choice among the spans found.

use crate::app::App;
use crate::call::Call;
use crate::encoding::{self, Wanted};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::served::Served;
use crate::usage::Usage;
use hyper::StatusCode;
use leyden_models::heads::{FoundSpans, HeadOutput, SpanLogits};
use leyden_models::{LabelledSpan, choose_spans};
use leyden_text::{Bounds, LabelMarks, LabelPrompt, LabelledText, WindowLimits};
use serde_json::{Value, json};
use std::sync::Arc;

/// Maximum number of entities in an answer. With `nested` and a low threshold a text may have one per pair of span and
/// label.
const MAX_ENTITIES: usize = 1 << 16;

/// Labels of a request, and the texts in which their entities are searched.
pub(crate) struct LabelRequest {
    wanted: Wanted,
    labels: Vec<String>,
    /// Each text, with its words and windows.
    texts: Vec<(String, LabelledText)>,
    nested: bool,
}

/// Returns the schemas of the fields for the OpenAPI document.
pub(crate) fn schema() -> Value {
    json!({
        "labels": {
            "type": "array", "minItems": 1, "maxItems": LabelPrompt::MAX_LABELS, "items": { "type": "string" },
            "description": "What entities of the texts are wanted, in words of any kind; for models of GLiNER alone, which need them"
        },
        "threshold": {
            "type": "number", "minimum": 0, "maximum": 1,
            "description": "The score above which words are an entity; 0.5 if nothing is said"
        },
        "nested": { "type": "boolean", "description": "Whether an entity may lie within another one" }
    })
}

/// Takes `labels`, `threshold` and `nested`; returns `None` without labels.
pub(crate) fn read(
    model: &Arc<Served>,
    call: &Call,
    body: &mut Fields,
    input: &str,
) -> Result<Option<LabelRequest>, ApiError> {
    let spans = model.network.config().spans.as_ref();
    let (threshold, nested) = (body.number("threshold"), body.flag("nested"));
    let Some(labels) = body.list("labels") else {
        if spans.is_some() {
            return Err(ApiError::field(
                "labels",
                "the model has no labels of its own: `labels` must name some",
            ));
        }
        return match [("threshold", threshold.is_some()), ("nested", nested.is_some())] {
            [(name, true), _] | [_, (name, true)] => {
                Err(ApiError::conflict(name, format!("`{name}` is of use with `labels` alone")))
            }
            _ => Ok(None),
        };
    };
    let Some(spans) = spans else {
        return Err(ApiError {
            param: Some("labels".to_owned()),
            ..encoding::lacks(model, "take labels: those of GLiNER do")
        });
    };
    let labels: Vec<String> = labels.iter().filter_map(|label| label.as_str().map(str::to_owned)).collect();
    let refused = |what: String| ApiError::field("labels", format!("`labels`: {what}"));
    let labels: Vec<String> =
        LabelPrompt::distinct(&labels).map_err(refused)?.into_iter().map(str::to_owned).collect();
    let gone = || call.is_given_up();
    let bounds = Bounds::NONE.until(&gone);
    let unwritable =
        |path: &str| ApiError::field(path, format!("`{path}` cannot be written in the model's vocabulary"));
    let tokenizer = model.tokenizer.as_ref();
    let marks = LabelMarks::find(tokenizer, [&spans.mark, &spans.separator], model.vocabulary);
    let marks = marks
        .ok()
        .flatten()
        .ok_or_else(|| ApiError::internal("the model's mark of labels is not in its vocabulary"))?;
    let prompt = LabelPrompt::new(tokenizer, &labels, &marks, &bounds).map_err(|_| unwritable("labels"))?;
    let most = crate::prompt::longest(model);
    if !prompt.leaves_room(most) {
        return Err(ApiError::context_length("labels", prompt.tokens(), most));
    }
    let limits =
        WindowLimits { tokens: most, words: spans.words_at_once(labels.len()), span: spans.max_width };
    let (threshold, nested) = (threshold.unwrap_or(0.5), nested.unwrap_or(false));
    let label_tokens = spans.label_tokens(prompt.marks());
    let mut texts = Vec::new();
    let mut wanted = Wanted::of(model);
    for (path, text) in given(input, body.take(input))? {
        let read =
            LabelledText::new(tokenizer, &prompt, &text, limits, &bounds).map_err(|_| unwritable(&path))?;
        for window in &read.windows {
            let spans = SpanLogits { words: window.tokens.clone(), labels: label_tokens.clone() };
            wanted.add(&path, window.ids.clone(), FoundSpans { spans, threshold })?;
        }
        texts.push((text, read));
    }
    Ok(Some(LabelRequest { wanted, labels, texts, nested }))
}

/// Returns the texts of a field, each with its path in the request.
fn given(name: &str, value: Option<Value>) -> Result<Vec<(String, String)>, ApiError> {
    let text = |path: String, value: Value| match value {
        Value::String(text) => Ok((path, text)),
        _ => Err(ApiError::field(
            &path,
            format!("with `labels`, `{path}` must be a text, as entities have places in it"),
        )),
    };
    match value {
        Some(Value::Array(items)) => {
            items.into_iter().enumerate().map(|(i, item)| text(format!("{name}[{i}]"), item)).collect()
        }
        value => Ok(vec![text(name.to_owned(), value.unwrap_or_default())?]),
    }
}

impl LabelRequest {
    pub(crate) fn model(&self) -> &Arc<Served> {
        &self.wanted.model
    }

    /// Computes the entities of each text, in the form of the answer.
    pub(crate) async fn entities(self, app: Arc<App>, call: Call) -> Result<(Vec<Value>, Usage), ApiError> {
        let LabelRequest { wanted, labels, texts, nested } = self;
        if wanted.is_empty() {
            return Ok((vec![json!([]); texts.len()], Usage::default()));
        }
        let found = wanted.finished(app, call, move |_, outputs| {
            let (mut outputs, mut room, mut all) = (outputs.into_iter(), MAX_ENTITIES, Vec::new());
            for (text, read) in &texts {
                let mut found = Vec::new();
                for number in 0..read.windows.len() {
                    let Some(HeadOutput::Spans(spans)) = outputs.next() else {
                        return Err(ApiError::internal("the spans of a window are missing"));
                    };
                    found.extend(decided(read, number, spans));
                }
                let chosen = choose_spans(found, nested);
                room = room.checked_sub(chosen.len()).ok_or_else(too_many)?;
                all.push(shown(text, read, &labels, &chosen));
            }
            Ok(all)
        });
        let (found, usage) = found.await?;
        Ok((found?, usage))
    }
}

/// Returns the error of an answer with more than [`MAX_ENTITIES`].
fn too_many() -> ApiError {
    let message = format!(
        "the answer has more than {MAX_ENTITIES} entities: raise `threshold`, or send fewer texts or labels at a time"
    );
    let error = ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "answer_too_large", message);
    ApiError { param: Some("threshold".to_owned()), ..error }
}

/// Returns the spans of window `number` whose scores count, with the words of the whole text.
fn decided(
    text: &LabelledText,
    number: usize,
    spans: Vec<LabelledSpan>,
) -> impl Iterator<Item = LabelledSpan> {
    let first = text.windows[number].words.start;
    let in_text = move |span: LabelledSpan| {
        let words = first + span.words.start..first + span.words.end;
        LabelledSpan { words, ..span }
    };
    spans.into_iter().map(in_text).filter(move |span| text.decides(&span.words) == Some(number))
}

/// Returns entities in the form of the answer, with offsets in characters. `spans` are in the order of their first
/// words.
fn shown(text: &str, read: &LabelledText, labels: &[String], spans: &[LabelledSpan]) -> Value {
    // Bytes and characters counted so far.
    let mut counted = (0, 0);
    let entity = |span: &LabelledSpan| {
        let bytes = read.words[span.words.start].start..read.words[span.words.end - 1].end;
        counted = (bytes.start, counted.1 + text[counted.0..bytes.start].chars().count());
        let word = &text[bytes];
        json!({
            "entity_group": labels[span.label], "score": span.score, "word": word,
            "start": counted.1, "end": counted.1 + word.chars().count()
        })
    };
    spans.iter().map(entity).collect()
}
