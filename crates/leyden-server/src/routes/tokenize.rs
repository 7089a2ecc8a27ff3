//! `/tokenize`: the tokens of a text or a conversation.

use crate::app::{App, Call, Served};
use crate::body::Reply;
use crate::error::ApiError;
use crate::inference;
use crate::messages;
use crate::older;
use crate::openapi::operation;
use crate::pieces::{self, Pieces};
use crate::prompt::{self, Extent};
use crate::rendering;
use crate::tools;
use hyper::Response;
use leyden_text::Special;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, (model, tokens, texts)) = prompt::prepare(&app, call, read).await?;
    let (key, deadline) = (call.caller.fairness(), call.deadline(&app).into());
    let bytes = tokens.len().saturating_mul(size_of::<u32>());
    call.entry.hold(app.answer_memory.hold(key, bytes, deadline).await?);
    let mut pieces = Pieces::new();
    let (count, context) = (tokens.len(), model.context);
    let tokens: Arc<[u32]> = tokens.into();
    let mut list = |write: fn(&Served, u32, &mut Vec<u8>)| {
        let (model, tokens) = (Arc::clone(&model), Arc::clone(&tokens));
        pieces.list(0..count, move |i, out| write(&model, tokens[i], out))
    };
    let text = |model: &Served, id: u32, out: &mut Vec<u8>| {
        pieces::json(&String::from_utf8_lossy(model.tokenizer.token_bytes(id).unwrap_or_default()), out);
    };
    let ids = list(|_, id, out| pieces::json(&id, out));
    let texts = if texts { list(text) } else { Value::Null };
    let shown = json!({ "count": count, "max_model_len": context, "tokens": ids, "token_strs": texts });
    Ok(pieces.document(&shown))
}

/// Returns the model, the tokens, and whether their texts are wanted.
fn read(app: &App, call: &Call) -> Result<(Arc<Served>, Vec<u32>, bool), ApiError> {
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
    Ok((model, tokens, texts))
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
