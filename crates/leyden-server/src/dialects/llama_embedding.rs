//! llama-server's own `/embedding` and `/embeddings`: vectors for texts, in a list.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::embedding;
use crate::encoding::{self, Planned};
use crate::error::ApiError;
use crate::operation::{operation, several_schema};
use crate::prompt;
use crate::request_model::RequestModel;
use crate::streamed_json::StreamedJson;
use hyper::Response;
use leyden_tasks::{Embed, Truncation};
use serde_json::{Value, json};
use std::sync::Arc;

pub(crate) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, wanted) = prompt::prepare(&app, call, read).await?;
    let (vectors, _) = wanted.run(app, call).await?;
    // Without pooling a text has one vector per token, so a single vector is in a list, too.
    let mut pieces = StreamedJson::new();
    let shown = |(index, vector): (usize, Vec<f32>)| {
        let vector = pieces.numbers(vector);
        json!({ "index": index, "embedding": [vector] })
    };
    let shown = vectors.into_iter().enumerate().map(shown).collect();
    Ok(pieces.document(&shown))
}

fn read(app: &App, call: &Call) -> Result<Planned<Embed>, ApiError> {
    let mut body = call.fields(app)?;
    let model = RequestModel::take(app, &mut body)?;
    let normalize = body.integer("embd_normalize").is_none_or(|norm| norm >= 0);
    body.put("normalize", normalize);
    let name = match (body.has("content"), body.has("input")) {
        (true, false) => "content",
        (false, true) => "input",
        (true, true) => {
            return Err(ApiError::conflict("input", "`content` and `input` exclude each other"));
        }
        (false, false) => {
            return Err(ApiError::conflict("content", "one of `content` and `input` is required"));
        }
    };
    let input = encoding::input(&mut body, name);
    embedding::read(call, &model, &mut body, input, Truncation::Refuse)
}

pub(crate) fn describe(app: &App) -> Value {
    let has =
        |name: &str| json!({ "required": [name], "properties": { name: { "type": ["string", "array"] } } });
    let texts = several_schema(app, app.limits.embedding_inputs);
    let body = json!({
        "type": "object", "additionalProperties": false,
        "properties": {
            "model": app.model_schema(), "content": texts, "input": texts,
            "embd_normalize": {
                "type": "integer", "enum": [2, -1], "description": "2: vectors are normalised to length 1; -1: they are not"
            },
            "encoding_format": { "const": "float" }
        },
        "oneOf": [has("content"), has("input")]
    });
    let number = json!({ "type": "array", "items": { "type": "number" } });
    let answer = json!({ "type": "array", "items": {
        "type": "object", "required": ["index", "embedding"],
        "properties": { "index": { "type": "integer" }, "embedding": { "type": "array", "items": number } }
    } });
    operation("llamaEmbedding", "llama-server: embedding vectors of texts", Some(&body), &answer)
}
