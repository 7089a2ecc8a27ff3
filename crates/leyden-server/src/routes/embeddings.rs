//! `/v1/embeddings`: vectors for texts.

use crate::app::App;
use crate::base64::base64;
use crate::body::Reply;
use crate::call::Call;
use crate::chat_input;
use crate::embedding;
use crate::encoding::Planned;
use crate::error::ApiError;
use crate::operation::operation;
use crate::prompt;
use crate::request_model::RequestModel;
use crate::schema::with;
use crate::streamed_json::{self, StreamedJson};
use crate::truncation;
use hyper::Response;
use leyden_tasks::Embed;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, (wanted, packed)) = prompt::prepare(&app, call, read).await?;
    let name = wanted.model.answer_name();
    let (vectors, usage) = wanted.run(app, call).await?;
    let mut pieces = StreamedJson::new();
    let shown = |(i, vector): (usize, Vec<f32>)| {
        let shown = match packed {
            true => pieces.once(move |out| streamed_json::json(&base64(&vector), out)),
            false => pieces.numbers(vector),
        };
        json!({ "object": "embedding", "index": i, "embedding": shown })
    };
    let data: Vec<Value> = vectors.into_iter().enumerate().map(shown).collect();
    let shown = json!({
        "object": "list",
        "data": data,
        "model": name,
        "usage": { "prompt_tokens": usage.prompt, "total_tokens": usage.prompt },
    });
    Ok(pieces.document(&shown))
}

/// Reads a request; returns true if the vectors are written as base64 of their bytes.
fn read(app: &App, call: &Call) -> Result<(Planned<Embed>, bool), ApiError> {
    let mut body = call.fields(app)?;
    let model = RequestModel::take(app, &mut body)?;
    let packed = body.text("encoding_format").as_deref() == Some("base64");
    let long = truncation::read(&mut body, false);
    let input = chat_input::read(app, call, &model, &mut body, long)?;
    Ok((embedding::read(call, &model, &mut body, input, long)?, packed))
}

pub(super) fn describe(app: &App) -> Value {
    let fields = json!({
        "model": app.model_schema(),
        "encoding_format": { "enum": ["float", "base64"] },
        "use_activation": { "type": "boolean", "description": "The same as `normalize`" }
    });
    let fields = with(with(fields, embedding::schema(app)), truncation::schema());
    let body = json!({ "type": "object", "additionalProperties": false, "properties": fields });
    let body = chat_input::schema(app, body);
    let vector =
        json!({ "anyOf": [{ "type": "array", "items": { "type": "number" } }, { "type": "string" }] });
    let item = json!({
        "type": "object",
        "required": ["object", "index", "embedding"],
        "properties": { "object": { "const": "embedding" }, "index": { "type": "integer" }, "embedding": vector }
    });
    let answer = json!({
        "type": "object",
        "required": ["object", "data", "model", "usage"],
        "properties": {
            "object": { "const": "list" }, "data": { "type": "array", "items": item }, "model": { "type": "string" },
            "usage": { "type": "object", "required": ["prompt_tokens", "total_tokens"], "properties": {
                "prompt_tokens": { "type": "integer" }, "total_tokens": { "type": "integer" }
            } }
        }
    });
    operation("embed", "Create embedding vectors", Some(&body), &answer)
}
