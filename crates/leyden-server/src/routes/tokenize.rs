//! `/tokenize`: the tokens of a text or a conversation.

use crate::app::{App, Call, document};
use crate::body::Reply;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::openapi::{messages_schema, operation};
use crate::prompt;
use hyper::{Response, StatusCode};
use leyden_text::Special;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    prompt::aside(move || {
        let mut body = Fields::of_body(call.json(&app.limits)?)?;
        let model = app.model(body.text("model", app.limits.name_chars)?.as_deref())?;
        let text = body.text("prompt", app.limits.body_bytes)?;
        let special = body.flag("add_special_tokens")?.unwrap_or(true);
        let messages = body.list("messages", 1, app.limits.messages)?;
        body.finish()?;
        let tokens = match (text, messages) {
            (Some(text), None) if special => prompt::of_whole_text(model, "prompt", &text)?,
            (Some(text), None) => model
                .tokenizer
                .encode(&text, Special::AsText)
                .map_err(|e| ApiError::field("prompt", e.to_string()))?,
            (None, Some(messages)) => {
                let messages = prompt::messages(messages, &app.limits)?;
                prompt::of_messages(model, &messages, &prompt::Chat::default())?.1
            }
            (None, None) => {
                return Err(ApiError::field("prompt", "one of `prompt` and `messages` is needed"));
            }
            (Some(_), Some(_)) => {
                return Err(ApiError::conflict("messages", "`prompt` and `messages` exclude each other"));
            }
        };
        let shown = json!({ "tokens": tokens, "count": tokens.len(), "max_model_len": model.context });
        Ok(document(StatusCode::OK, &shown))
    })
    .await
}

pub(super) fn describe(app: &App) -> Value {
    let special = json!({
        "type": "boolean",
        "default": true,
        "description": "Whether names of special tokens become these, and the text begins and ends as the model expects"
    });
    let of = |name: &str, schema: Value| {
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": [name],
            "properties": { "model": app.model_schema(), name: schema, "add_special_tokens": special }
        })
    };
    let text = of("prompt", json!({ "type": "string" }));
    let body = json!({ "anyOf": [text, of("messages", messages_schema(&app.limits))] });
    let schema = json!({
        "type": "object",
        "required": ["tokens", "count", "max_model_len"],
        "properties": {
            "tokens": { "type": "array", "items": { "type": "integer" } },
            "count": { "type": "integer" },
            "max_model_len": { "type": "integer" }
        }
    });
    operation("tokenize", "The tokens of a text or a conversation", Some(&body), &schema)
}
