//! The fields that say when an answer ends.

use crate::app::{App, Served};
use crate::error::ApiError;
use crate::fields::{self, Fields, wrong};
use crate::limits::Limits;
use serde_json::{Value, json};

/// The most ids of tokens that end an answer.
const STOP_TOKENS: usize = 128;

/// When an answer ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    /// Texts of which any ends it.
    pub(crate) stop: Vec<String>,
    /// Tokens of which any ends it, ascending.
    pub(crate) stop_tokens: Vec<u32>,
    /// Whether what ended it is part of it.
    pub(crate) includes_stop: bool,
    /// Whether the model's end does not end it.
    pub(crate) ignore_end: bool,
    /// Before so many tokens nothing does.
    pub(crate) min_tokens: usize,
}

/// Takes the fields.
pub(crate) fn read(body: &mut Fields, model: &Served, limits: &Limits) -> Result<Ending, ApiError> {
    Ok(Ending {
        stop: stop(body, limits)?,
        stop_tokens: stop_tokens(body, model)?,
        includes_stop: body.flag("include_stop_str_in_output")?.unwrap_or(false),
        ignore_end: body.flag("ignore_eos")?.unwrap_or(false),
        min_tokens: body.size("min_tokens", 0, i32::MAX as usize)?.unwrap_or(0),
    })
}

fn stop(body: &mut Fields, limits: &Limits) -> Result<Vec<String>, ApiError> {
    let checked = |path: &str, value| {
        let text = fields::text(path, value, limits.stop_chars)?;
        if text.is_empty() { Err(ApiError::field(path, format!("`{path}` is empty"))) } else { Ok(text) }
    };
    match body.take("stop") {
        None => Ok(Vec::new()),
        Some(value @ Value::String(_)) => Ok(vec![checked("stop", value)?]),
        Some(Value::Array(items)) if items.len() <= limits.stops => {
            items.into_iter().enumerate().map(|(i, v)| checked(&format!("stop[{i}]"), v)).collect()
        }
        Some(Value::Array(items)) => {
            let message = format!("`stop` has {} items; {} are the most", items.len(), limits.stops);
            Err(ApiError::field("stop", message))
        }
        Some(other) => Err(wrong("stop", "a text or a list of texts", &other)),
    }
}

fn stop_tokens(body: &mut Fields, model: &Served) -> Result<Vec<u32>, ApiError> {
    let last = i64::try_from(model.vocabulary).unwrap_or(i64::MAX) - 1;
    let items = body.list("stop_token_ids", 0, STOP_TOKENS)?.unwrap_or_default();
    let id = |(i, value): (usize, &Value)| {
        let id = fields::integer(&format!("stop_token_ids[{i}]"), value, 0..=last)?;
        Ok(u32::try_from(id).unwrap_or_default())
    };
    let mut ids = items.iter().enumerate().map(id).collect::<Result<Vec<u32>, ApiError>>()?;
    ids.sort_unstable();
    Ok(ids)
}

/// The fields in the OpenAPI document.
pub(crate) fn schema(app: &App) -> Value {
    let limits = &app.limits;
    let stop = json!({ "type": "string", "minLength": 1, "maxLength": limits.stop_chars });
    let id = json!({ "type": "integer", "minimum": 0, "maximum": app.vocabulary().saturating_sub(1) });
    json!({
        "stop": {
            "anyOf": [stop, { "type": "array", "maxItems": limits.stops, "items": stop }],
            "description": "The content ends before the first of these; reasoning and calls of tools do not"
        },
        "stop_token_ids": { "type": "array", "maxItems": STOP_TOKENS, "items": id },
        "include_stop_str_in_output": { "type": "boolean" },
        "ignore_eos": { "type": "boolean", "description": "Whether the model's end does not end the answer" },
        "min_tokens": {
            "type": "integer", "minimum": 0, "maximum": i32::MAX,
            "description": "Before so many tokens nothing ends the answer; no more than the most tokens"
        },
    })
}
