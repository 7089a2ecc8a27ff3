//! `/tokenize`: the tokens of a text or a conversation.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::inference;
use crate::legacy_functions;
use crate::messages;
use crate::operation::operation;
use crate::prompt::{self, EncodingLimits};
use crate::rendering;
use crate::request_model::RequestModel;
use crate::served::Served;
use crate::streamed_json::{self, StreamedJson};
use crate::tools;
use hyper::Response;
use leyden_text::Special;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, (model, tokens, form)) = prompt::prepare(&app, call, read).await?;
    let (key, deadline) = (call.caller.fairness(), call.deadline(&app).into());
    let bytes = tokens.len().saturating_mul(size_of::<u32>());
    call.entry.hold(app.answer_memory.hold(key, bytes, deadline).await?);
    let mut pieces = StreamedJson::new();
    let (count, context) = (tokens.len(), model.context);
    let tokens: Arc<[u32]> = tokens.into();
    let mut list = |write: fn(&Served, u32, &mut Vec<u8>)| {
        let (model, tokens) = (Arc::clone(&model), Arc::clone(&tokens));
        pieces.list(0..count, move |i, out| write(&model, tokens[i], out))
    };
    let text = |model: &Served, id: u32, out: &mut Vec<u8>| {
        streamed_json::json(
            &String::from_utf8_lossy(model.tokenizer.token_bytes(id).unwrap_or_default()),
            out,
        );
    };
    let id = |_: &Served, id: u32, out: &mut Vec<u8>| streamed_json::json(&id, out);
    let shown = match form {
        Form::Vllm { texts } => {
            let ids = list(id);
            let texts = if texts { list(text) } else { Value::Null };
            json!({ "count": count, "max_model_len": context, "tokens": ids, "token_strs": texts })
        }
        Form::LlamaServer { texts } => json!({ "tokens": if texts { list(piece) } else { list(id) } }),
    };
    Ok(pieces.document(&shown))
}

/// Form of an answer, and a flag for the texts of tokens.
#[derive(Clone, Copy, Debug)]
enum Form {
    Vllm { texts: bool },
    LlamaServer { texts: bool },
}

/// Writes a token with its text as in llama-server: a text that is not UTF-8 is a list of bytes.
fn piece(model: &Served, id: u32, out: &mut Vec<u8>) {
    let bytes = model.tokenizer.token_bytes(id).unwrap_or_default();
    let piece = std::str::from_utf8(bytes).map_or_else(|_| json!(bytes), Value::from);
    streamed_json::json(&json!({ "id": id, "piece": piece }), out);
}

/// Returns the model, the tokens, and the form of the answer.
fn read(app: &App, call: &Call) -> Result<(RequestModel, Vec<u32>, Form), ApiError> {
    let mut body = call.fields(app)?;
    let model = RequestModel::take(app, &mut body)?;
    if let Some(text) = body.text("content") {
        if body.has("prompt") || body.has("messages") {
            let message = "`content` excludes `prompt` and `messages`";
            return Err(ApiError::conflict("content", message));
        }
        let tokens = of_content(&model, call, &text, &mut body)?;
        let texts = body.flag("with_pieces").unwrap_or(false);
        return Ok((model, tokens, Form::LlamaServer { texts }));
    }
    let special = body.flag("add_special_tokens").unwrap_or(true);
    let texts = body.flag("return_token_strs").unwrap_or(false);
    let limits = EncodingLimits::of_body(call);
    let tokens = match (body.text("prompt"), body.has("messages")) {
        (Some(text), false) => of_text(&model, limits, &text, special)?,
        // Conversations are read as those of a chat.
        (None, true) => {
            let legacy = legacy_functions::rewrite(&mut body)?;
            let read = inference::conversation(app, call, &model, limits, &mut body);
            read.map_err(|error| if legacy { legacy_functions::renamed(error) } else { error })?.0.tokens
        }
        (None, false) => {
            return Err(ApiError::field("prompt", "one of `prompt`, `messages` and `content` is required"));
        }
        (Some(_), true) => {
            return Err(ApiError::conflict("messages", "`prompt` and `messages` exclude each other"));
        }
    };
    Ok((model, tokens, Form::Vllm { texts }))
}

/// Returns the tokens of llama-server's `content`.
fn of_content(model: &Served, call: &Call, text: &str, body: &mut Fields) -> Result<Vec<u32>, ApiError> {
    let (whole, marks) =
        (body.flag("add_special").unwrap_or(false), body.flag("parse_special").unwrap_or(true));
    let special = if marks { Special::Parse } else { Special::AsText };
    let limits = EncodingLimits::of_body(call);
    if whole && marks {
        return prompt::of_whole_text(model, limits, "content", text);
    }
    let mut tokens = limits.encode(model, "content", text, |tokenizer, text, bounds| {
        tokenizer.encode_within(text, special, bounds)
    })?;
    if whole {
        let tokenizer = &model.tokenizer;
        let (bos, eos) = (tokenizer.bos(), tokenizer.eos());
        tokens.splice(0..0, bos.filter(|_| tokenizer.add_bos()));
        tokens.extend(eos.filter(|_| tokenizer.add_eos()));
    }
    Ok(tokens)
}

fn of_text(
    model: &Served,
    limits: EncodingLimits<'_>,
    text: &str,
    special: bool,
) -> Result<Vec<u32>, ApiError> {
    if special {
        return prompt::of_whole_text(model, limits, "prompt", text);
    }
    limits.encode(model, "prompt", text, |tokenizer, text, bounds| {
        tokenizer.encode_within(text, Special::AsText, bounds)
    })
}

pub(super) fn describe(app: &App) -> Value {
    let special = json!({
        "type": "boolean",
        "default": true,
        "description": "Whether special tokens in the text are recognised, and begin and end tokens are added"
    });
    let mut properties = json!({
        "model": app.model_schema(), "prompt": { "type": "string" }, "messages": messages::schema(&app.limits),
        "add_special_tokens": special, "return_token_strs": { "type": "boolean", "default": false },
        "content": { "type": "string", "description": "llama-server's field; the answer has only `tokens`" },
        "add_special": { "type": "boolean", "default": false, "description": "For `content`: whether begin and end tokens are added" },
        "parse_special": { "type": "boolean", "default": true, "description": "For `content`: whether special tokens in the text are recognised" },
        "with_pieces": { "type": "boolean", "default": false, "description": "For `content`: whether the answer contains the texts of tokens" }
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
        "oneOf": [has("prompt", "string"), has("messages", "array"), has("content", "string")]
    });
    let schema = json!({
        "type": "object",
        "required": ["tokens"],
        "properties": {
            "count": { "type": "integer" },
            "max_model_len": { "type": "integer" },
            "tokens": { "type": "array", "items": { "type": ["integer", "object"] } },
            "token_strs": { "type": ["array", "null"], "items": { "type": "string" } }
        }
    });
    operation("tokenize", "Convert a text or a conversation to token ids", Some(&body), &schema)
}
