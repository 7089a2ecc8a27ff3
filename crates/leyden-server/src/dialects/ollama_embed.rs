//! Ollama's `/api/embed` and its older form `/api/embeddings`: vectors of texts.

use super::ollama;
use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::embedding;
use crate::encoding::{self, Planned};
use crate::error::ApiError;
use crate::operation::operation;
use crate::prompt;
use crate::replies::document;
use crate::streamed_json::StreamedJson;
use crate::truncation;
use hyper::{Response, StatusCode};
use leyden_tasks::Embed;
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn embed(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, wanted) = prompt::prepare(&app, call, read_embed).await?;
    let Some(wanted) = wanted else {
        let shown = json!({
            "model": call.fields(&app)?.peek("model"), "embeddings": [], "total_duration": 0, "load_duration": 0,
            "prompt_eval_count": 0,
        });
        return Ok(document(StatusCode::OK, &shown));
    };
    let (name, entry) = (wanted.model.answer_name(), Arc::clone(&call.entry));
    let (vectors, usage) = wanted.run(app, call).await?;
    let total = u64::try_from(entry.times().0.as_nanos()).unwrap_or(u64::MAX);
    let mut pieces = StreamedJson::new();
    let vectors: Value = vectors.into_iter().map(|vector| pieces.numbers(vector)).collect();
    let shown = json!({
        "model": name, "embeddings": vectors, "total_duration": total, "load_duration": 0,
        "prompt_eval_count": usage.prompt,
    });
    Ok(pieces.document(&shown))
}

/// Reads the texts to embed; `None` if there is no text.
fn read_embed(app: &App, call: &Call) -> Result<Option<Planned<Embed>>, ApiError> {
    let mut body = call.fields(app)?;
    let model = ollama::model(app, call, &mut body)?;
    let long = truncation::read(&mut body, true);
    let input = encoding::input(&mut body, "input");
    if input.iter().all(|(_, text)| text.is_empty()) {
        return Ok(None);
    }
    embedding::read(call, &model, &mut body, input, long).map(Some)
}

/// Answers the older form of `/api/embed`: one text, whose vector is not normalised.
pub(crate) async fn embeddings(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, wanted) = prompt::prepare(&app, call, read_embeddings).await?;
    let vector = match wanted {
        Some(wanted) => wanted.run(app, call).await?.0.swap_remove(0),
        None => Vec::new(),
    };
    let mut pieces = StreamedJson::new();
    let vector = pieces.numbers(vector);
    Ok(pieces.document(&json!({ "embedding": vector })))
}

fn read_embeddings(app: &App, call: &Call) -> Result<Option<Planned<Embed>>, ApiError> {
    let mut body = call.fields(app)?;
    let model = ollama::model(app, call, &mut body)?;
    let Some(text) = body.text("prompt").filter(|text| !text.is_empty()) else { return Ok(None) };
    body.put("normalize", false);
    let input = vec![("prompt".to_owned(), text.into())];
    let long = truncation::read(&mut body, true);
    embedding::read(call, &model, &mut body, input, long).map(Some)
}

pub(crate) fn describe_embed(app: &App) -> Value {
    let text = json!({ "type": "string" });
    let dimensions = embedding::dimensions_schema(app);
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["model", "input"],
        "properties": {
            "model": app.model_schema(), "dimensions": dimensions,
            "input": { "anyOf": [
                text, { "type": "array", "maxItems": app.limits.embedding_inputs, "items": text }
            ] },
            "truncate": { "type": "boolean", "default": true, "description": "Whether texts that are too long are truncated" },
            "options": {}, "keep_alive": { "anyOf": [{ "type": "number" }, { "type": "string" }] }
        }
    });
    let vectors = json!({ "type": "array", "items": { "type": "array", "items": { "type": "number" } } });
    let answer = json!({
        "type": "object", "required": ["model", "embeddings"],
        "properties": { "model": text, "embeddings": vectors }
    });
    operation("ollamaEmbed", "Ollama: embedding vectors of texts", Some(&body), &answer)
}

pub(crate) fn describe_embeddings(app: &App) -> Value {
    let keep = json!({ "anyOf": [{ "type": "number" }, { "type": "string" }] });
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["model"],
        "properties": {
            "model": app.model_schema(), "prompt": { "type": "string" }, "options": {}, "keep_alive": keep
        }
    });
    let vector = json!({ "type": "array", "items": { "type": "number" } });
    let answer =
        json!({ "type": "object", "required": ["embedding"], "properties": { "embedding": vector } });
    operation(
        "ollamaEmbeddings",
        "Ollama, deprecated: embedding vector of a text, not normalised",
        Some(&body),
        &answer,
    )
}
