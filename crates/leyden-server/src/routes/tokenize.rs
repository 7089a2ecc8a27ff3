//! `/tokenize`: the tokens of a text or a conversation.

use crate::app::{App, Call, Served, plain};
use crate::body::Reply;
use crate::error::ApiError;
use crate::inference;
use crate::messages;
use crate::older;
use crate::openapi::operation;
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
    let mut body = call.fields(app)?;
    let model = app.model(body.text("model").as_deref())?;
    let special = body.flag("add_special_tokens").unwrap_or(true);
    let texts = body.flag("return_token_strs").unwrap_or(false);
    let extent = Extent::of_body(call);
    let tokens = match (body.text("prompt"), body.has("messages")) {
        (Some(text), false) => of_text(&model, extent, &text, special)?,
        // As a chat is read.
        (None, true) => {
            let older = older::rewrite(&mut body)?;
            let read = inference::conversation(app, call, &model, extent, &mut body);
            read.map_err(|error| if older { older::renamed(error) } else { error })?.0.tokens
        }
        (None, false) => {
            return Err(ApiError::field("prompt", "one of `prompt` and `messages` is needed"));
        }
        (Some(_), true) => {
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

pub(super) fn describe(app: &App) -> Value {
    let special = json!({
        "type": "boolean",
        "default": true,
        "description": "Whether names of special tokens become these, and the text begins and ends as the model expects"
    });
    let mut properties = json!({
        "model": app.model_schema(), "prompt": { "type": "string" }, "messages": messages::schema(&app.limits),
        "add_special_tokens": special, "return_token_strs": { "type": "boolean", "default": false }
    });
    for more in [rendering::schema(&app.limits), tools::schema(&app.limits)] {
        if let (Value::Object(all), Value::Object(more)) = (&mut properties, more) {
            all.extend(more);
        }
    }
    let has =
        |name: &str, kind: &str| json!({ "required": [name], "properties": { name: { "type": kind } } });
    let body = json!({
        "type": "object", "additionalProperties": false, "properties": properties,
        "oneOf": [has("prompt", "string"), has("messages", "array")]
    });
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
