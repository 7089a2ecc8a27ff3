//! `/tokenize`: the tokens of a text or a conversation.

use crate::app::{App, Call, Served, plain};
use crate::body::Reply;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::limits::Limits;
use crate::messages;
use crate::older;
use crate::openapi::{messages_schema, operation};
use crate::prompt::{self, Extent};
use crate::rendering;
use crate::tools;
use hyper::{Response, StatusCode};
use leyden_text::Special;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (_, shown) = prompt::prepare(&app, call, read).await?;
    Ok(plain(StatusCode::OK, "application/json", shown))
}

fn read(app: &App, call: &Call) -> Result<String, ApiError> {
    let mut body = Fields::of_body(call.json(&app.limits)?)?;
    let model = app.model(body.text("model", app.limits.name_chars)?.as_deref())?;
    let special = body.flag("add_special_tokens")?.unwrap_or(true);
    let texts = body.flag("return_token_strs")?.unwrap_or(false);
    let text = body.text("prompt", app.limits.body_bytes)?;
    let messages = body.list("messages", 1, app.limits.messages)?;
    let extent = Extent::of_body(call);
    let tokens = match (text, messages) {
        (Some(text), None) => {
            body.finish()?;
            of_text(model, extent, &text, special)?
        }
        (None, Some(messages)) => of_messages(model, extent, body, messages, &app.limits)?,
        (None, None) => {
            return Err(ApiError::field("prompt", "one of `prompt` and `messages` is needed"));
        }
        (Some(_), Some(_)) => {
            return Err(ApiError::conflict("messages", "`prompt` and `messages` exclude each other"));
        }
    };
    let mut shown = json!({ "count": tokens.len(), "max_model_len": model.context, "tokens": tokens, "token_strs": null });
    if texts {
        let text = |id: &u32| String::from_utf8_lossy(model.tokenizer.token_bytes(*id).unwrap_or_default());
        shown["token_strs"] = tokens.iter().map(|id| text(id).into_owned()).collect();
    }
    Ok(shown.to_string())
}

fn of_text(model: &Served, extent: Extent<'_>, text: &str, special: bool) -> Result<Vec<u32>, ApiError> {
    if special {
        return prompt::of_whole_text(model, extent, "prompt", text);
    }
    extent.encode(model, "prompt", text, |tokenizer, text, bounds| {
        tokenizer.encode_within(text, Special::AsText, bounds)
    })
}

/// The tokens of a chat's prompt, read as a chat is.
fn of_messages(
    model: &Served,
    extent: Extent<'_>,
    mut body: Fields,
    messages: Vec<Value>,
    limits: &Limits,
) -> Result<Vec<u32>, ApiError> {
    let messages = messages::read(messages, limits)?;
    let older = older::rewrite(&mut body)?;
    let tools = tools::read(&mut body, model, limits);
    let tools = tools.map_err(|error| if older { older::renamed(error) } else { error })?;
    let mut rendering = rendering::read(&mut body, limits)?;
    rendering.tools = tools.map(|tools| tools.list);
    body.finish()?;
    Ok(prompt::of_messages(model, extent, &messages, &rendering)?.1)
}

pub(super) fn describe(app: &App) -> Value {
    let special = json!({
        "type": "boolean",
        "default": true,
        "description": "Whether names of special tokens become these, and the text begins and ends as the model expects"
    });
    let of = |name: &str, schema: Value, more: &[Value]| {
        let mut properties = json!({
            "model": app.model_schema(), name: schema, "add_special_tokens": special,
            "return_token_strs": { "type": "boolean", "default": false }
        });
        for more in more {
            if let (Value::Object(all), Value::Object(more)) = (&mut properties, more) {
                all.extend(more.clone());
            }
        }
        json!({
            "type": "object", "additionalProperties": false, "required": [name], "properties": properties
        })
    };
    let text = of("prompt", json!({ "type": "string" }), &[]);
    let chat = [rendering::schema(&app.limits), tools::schema(&app.limits)];
    let body = json!({ "anyOf": [text, of("messages", messages_schema(&app.limits), &chat)] });
    let schema = json!({
        "type": "object",
        "required": ["count", "max_model_len", "tokens"],
        "properties": {
            "count": { "type": "integer" },
            "max_model_len": { "type": "integer" },
            "tokens": { "type": "array", "items": { "type": "integer" } },
            "token_strs": { "type": ["array", "null"], "items": { "type": "string" } }
        }
    });
    operation("tokenize", "The tokens of a text or a conversation", Some(&body), &schema)
}
