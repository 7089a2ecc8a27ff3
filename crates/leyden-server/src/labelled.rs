//! Extraction of entities for labels in the request: fields, and the form of the answer.

use crate::app::App;
use crate::call::Call;
use crate::encoding::{self, Paths, Planned};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::prompt;
use crate::request_model::RequestModel;
use crate::usage::Usage;
use leyden_tasks::{Entity, ExtractLabels, SpanOptions, TaskKind};
use leyden_text::LabelPrompt;
use serde_json::{Value, json};
use std::sync::Arc;

/// Maximum number of entities in an answer. With `nested` and a low threshold a text may have one per pair of span and
/// label.
const MAX_ENTITIES: usize = 1 << 16;

/// Labels of a request, and the texts in which their entities are searched.
pub(crate) struct LabelRequest {
    planned: Planned<ExtractLabels>,
    texts: Vec<String>,
}

/// Returns the schemas of the fields for the OpenAPI document.
pub(crate) fn schema() -> Value {
    json!({
        "labels": {
            "type": "array", "minItems": 1, "maxItems": LabelPrompt::MAX_LABELS, "items": { "type": "string" },
            "description": "Labels of the entities to find, any words; required for GLiNER models, refused for others"
        },
        "threshold": {
            "type": "number", "minimum": 0, "maximum": 1,
            "description": "Minimum score of an entity; default 0.5"
        },
        "nested": { "type": "boolean", "description": "Whether an entity may lie within another one" }
    })
}

/// Takes `labels`, `threshold` and `nested`; returns `None` without labels.
pub(crate) fn read(
    model: &RequestModel,
    call: &Call,
    body: &mut Fields,
    input: &str,
) -> Result<Option<LabelRequest>, ApiError> {
    let able = TaskKind::ExtractLabels.is_possible(model.network.config());
    let (threshold, nested) = (body.number("threshold"), body.flag("nested"));
    let Some(labels) = body.list("labels") else {
        if able {
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
    if !able {
        return Err(encoding::unable(model, TaskKind::ExtractLabels, "labels"));
    }
    let labels: Vec<&str> = labels.iter().filter_map(Value::as_str).collect();
    let options = SpanOptions::default().nested(nested.unwrap_or(false)).max_entities(MAX_ENTITIES);
    let options = options.threshold(threshold.unwrap_or(options.threshold));
    let (paths, texts): (Vec<String>, Vec<String>) = given(input, body.take(input))?.into_iter().unzip();
    let paths = Paths::new(paths);
    let planned =
        encoding::plan(model, call, &paths, |parts| ExtractLabels::plan(parts, &texts, &labels, options))?;
    Ok(Some(LabelRequest { planned, texts }))
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
    pub(crate) fn model(&self) -> &RequestModel {
        &self.planned.model
    }

    /// Computes the entities of each text, in the form of the answer.
    pub(crate) async fn entities(self, app: Arc<App>, call: Call) -> Result<(Vec<Value>, Usage), ApiError> {
        let LabelRequest { planned, texts } = self;
        let (all, usage) = planned.run(app, call).await?;
        let shown = prompt::run_blocking(move || {
            Ok(texts.iter().zip(&all).map(|(text, entities)| shown(text, entities)).collect())
        });
        Ok((shown.await?, usage))
    }
}

/// Returns entities in the form of the answer, with offsets in characters. `entities` are in the order of their first
/// words.
fn shown(text: &str, entities: &[Entity]) -> Value {
    // Bytes and characters counted so far.
    let mut counted = (0, 0);
    let entity = |entity: &Entity| {
        let bytes = entity.range.clone();
        counted = (bytes.start, counted.1 + text[counted.0..bytes.start].chars().count());
        let word = &text[bytes];
        json!({
            "entity_group": entity.label, "score": entity.score, "word": word,
            "start": counted.1, "end": counted.1 + word.chars().count()
        })
    };
    entities.iter().map(entity).collect()
}
