//! Request fields for the end of an answer: stop strings, stop tokens, `ignore_eos`, `min_tokens`.

use crate::app::App;
use crate::error::ApiError;
use crate::fields::{self, Fields};
use crate::schema::BY_MODEL;
use crate::served::Served;
use crate::worker::Ending;
use serde_json::{Value, json};

/// Maximum number of stop tokens.
const STOP_TOKENS: usize = 128;

/// Takes the fields.
pub(crate) fn read(body: &mut Fields, model: &Served) -> Result<Ending, ApiError> {
    let stop = match body.take("stop") {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(texts)) => texts.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    Ok(Ending {
        stop,
        stop_tokens: stop_tokens(body, model)?,
        includes_stop: body.flag("include_stop_str_in_output").unwrap_or(false),
        ignore_end: body.flag("ignore_eos").unwrap_or(false),
        min_tokens: body.size("min_tokens").unwrap_or(0),
    })
}

fn stop_tokens(body: &mut Fields, model: &Served) -> Result<Vec<u32>, ApiError> {
    let last = i64::try_from(model.vocabulary).unwrap_or(i64::MAX) - 1;
    let items = body.list("stop_token_ids").unwrap_or_default();
    let id = |(i, value): (usize, &Value)| {
        let id = fields::integer(&format!("stop_token_ids[{i}]"), value, 0..=last)?;
        Ok(u32::try_from(id).unwrap_or_default())
    };
    let mut ids = items.iter().enumerate().map(id).collect::<Result<Vec<u32>, ApiError>>()?;
    ids.sort_unstable();
    Ok(ids)
}

/// Returns the schemas of the fields for the OpenAPI document.
pub(crate) fn schema(app: &App) -> Value {
    let limits = &app.limits;
    let stop = json!({ "type": "string", "minLength": 1, "maxLength": limits.stop_chars });
    let id = json!({ "type": "integer", "minimum": 0, "maximum": app.vocabulary().saturating_sub(1), BY_MODEL: true });
    json!({
        "stop": {
            "anyOf": [stop, { "type": "array", "maxItems": limits.stops, "items": stop }],
            "description": "Stop strings: the content ends before the first of them; they do not end reasoning or tool calls"
        },
        "stop_token_ids": { "type": "array", "maxItems": STOP_TOKENS, "items": id },
        "include_stop_str_in_output": { "type": "boolean" },
        "ignore_eos": { "type": "boolean", "description": "True if the model's end tokens do not end the answer" },
        "min_tokens": {
            "type": "integer", "minimum": 0, "maximum": i32::MAX,
            "description": "Minimum of tokens before an end token or a stop string ends the answer; at most `max_tokens`"
        },
    })
}
