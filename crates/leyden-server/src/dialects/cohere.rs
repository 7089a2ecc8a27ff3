//! Cohere's `/v2/embed` and `/v1/embed`: vectors for texts, in the types that a request names. `/rerank` is shared with
//! other dialects and lives in [`crate::routes`].

use super::openai;
use crate::app::App;
use crate::auth;
use crate::base64::base64;
use crate::body::Reply;
use crate::call::Call;
use crate::dialect::Dialect;
use crate::embedding;
use crate::encoding::{Inputs, Planned};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::operation::operation;
use crate::prompt;
use crate::request_model::RequestModel;
use crate::served::Served;
use crate::streamed_json::{self, StreamedJson};
use hyper::Response;
use leyden_tasks::{Embed, Truncation};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Cohere's dialect.
pub(crate) static COHERE: Dialect =
    Dialect { name: "CohereError", error, error_schema, any_content: false, key: auth::bearer };

fn error(error: &ApiError) -> Value {
    let mut shown = openai::error(error);
    shown["message"] = error.message.as_str().into();
    shown
}

fn error_schema() -> Value {
    let mut schema = openai::error_schema();
    schema["required"] = json!(["message", "error"]);
    schema["properties"]["message"] = json!({ "type": "string" });
    schema
}

/// Representations of a vector in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Float,
    /// Base64 of the bytes.
    Base64,
    /// Signs, packed into integers from -128 to 127, eight in each.
    Binary,
    /// Signs, packed into integers from 0 to 255, eight in each.
    Ubinary,
}

/// Names of the representations.
const KINDS: &[(&str, Kind)] =
    &[("float", Kind::Float), ("base64", Kind::Base64), ("binary", Kind::Binary), ("ubinary", Kind::Ubinary)];

impl Kind {
    /// Adds a vector to the pieces of an answer.
    fn shown(self, vector: &[f32], pieces: &mut StreamedJson) -> Value {
        let vector = vector.to_vec();
        match self {
            Kind::Float => pieces.numbers(vector),
            Kind::Base64 => pieces.once(move |out| streamed_json::json(&base64(&vector), out)),
            Kind::Binary => {
                let bytes: Vec<i16> = signs(&vector).map(|byte| i16::from(byte) - 128).collect();
                json!(bytes)
            }
            Kind::Ubinary => json!(signs(&vector).collect::<Vec<u8>>()),
        }
    }
}

/// Packs signs into bytes, the first in the highest bit: 1 for a number above zero.
fn signs(vector: &[f32]) -> impl Iterator<Item = u8> {
    let byte =
        |eight: &[f32]| eight.iter().enumerate().fold(0, |byte, (i, x)| byte | u8::from(*x > 0.0) << (7 - i));
    vector.chunks(8).map(byte)
}

/// Names of prompts in models, by `input_type`.
const PROMPTS: &[(&str, &[&str])] = &[
    ("search_query", &["search_query", "query"]),
    ("search_document", &["search_document", "document", "passage"]),
    ("classification", &["classification", "Classification"]),
    ("clustering", &["clustering", "Clustering"]),
];

/// A checked request.
struct Ready {
    wanted: Planned<Embed>,
    texts: Vec<Value>,
    /// `None` if the request has no `embedding_types`, which `/v1/embed` allows.
    kinds: Option<Vec<(&'static str, Kind)>>,
}

fn read(app: &App, call: &Call) -> Result<Ready, ApiError> {
    let mut body = call.fields(app)?;
    let model = RequestModel::take(app, &mut body)?;
    let kinds = body.list("embedding_types").map(|names| {
        let kind = |name: &Value| KINDS.iter().find(|(known, _)| name == known).copied();
        names.iter().filter_map(kind).collect()
    });
    if let Some(dimensions) = body.size("output_dimension") {
        if dimensions > model.vector_width {
            let message =
                format!("`output_dimension` is {dimensions}, but the vectors have {}", model.vector_width);
            return Err(ApiError::field("output_dimension", message));
        }
        body.put("dimensions", dimensions);
    }
    let texts = texts(&mut body)?;
    let inputs: Inputs = texts.iter().map(|(path, text)| (path.clone(), text.as_str().into())).collect();
    let most = body.size("max_tokens").unwrap_or(usize::MAX);
    let long = match body.text("truncate").as_deref() {
        Some("NONE") => Truncation::Refuse,
        Some("START") => Truncation::Beginning(most),
        _ => Truncation::End(most),
    };
    if let Some(name) = body.text("input_type").and_then(|kind| prompt_of(&model, &kind)) {
        body.put("prompt_name", name);
    }
    let texts = texts.into_iter().map(|(_, text)| text.into()).collect();
    Ok(Ready { wanted: embedding::read(call, &model, &mut body, inputs, long)?, texts, kinds })
}

/// Returns the name of the model's prompt for an `input_type`, if it has one.
fn prompt_of(model: &Served, kind: &str) -> Option<String> {
    let (_, names) = PROMPTS.iter().find(|(name, _)| *name == kind)?;
    names.iter().find(|name| model.prompts.get(Some(name)).is_some()).map(|name| (*name).to_owned())
}

/// Takes `texts` or `inputs`, and returns each text with its path in the body. Parts of an input are joined.
fn texts(body: &mut Fields) -> Result<Vec<(String, String)>, ApiError> {
    let (texts, inputs) = (body.list("texts"), body.list("inputs"));
    match (texts, inputs) {
        (Some(texts), None) => {
            let one = |(i, text): (usize, Value)| {
                (format!("texts[{i}]"), text.as_str().unwrap_or_default().to_owned())
            };
            Ok(texts.into_iter().enumerate().map(one).collect())
        }
        (None, Some(inputs)) => {
            let one = |(i, input): (usize, Value)| {
                let content = Fields::from(input).take("content").unwrap_or_default();
                (format!("inputs[{i}].content"), crate::messages::text_of(content))
            };
            Ok(inputs.into_iter().enumerate().map(one).collect())
        }
        (None, None) => Err(ApiError::conflict("texts", "one of `texts` and `inputs` is required")),
        (Some(_), Some(_)) => Err(ApiError::conflict("inputs", "`texts` and `inputs` exclude each other")),
    }
}

async fn answered(app: Arc<App>, call: Call, first: bool) -> Result<Response<Reply>, ApiError> {
    let (call, Ready { wanted, texts, kinds }) = prompt::prepare(&app, call, read).await?;
    let id = call.entry.id().to_owned();
    let (vectors, usage) = wanted.run(app, call).await?;
    let mut pieces = StreamedJson::new();
    let mut of = |kind: Kind| vectors.iter().map(|vector| kind.shown(vector, &mut pieces)).collect::<Value>();
    let (kind, embeddings) = match kinds {
        None if first => ("embeddings_floats", of(Kind::Float)),
        kinds => {
            let kinds = kinds.unwrap_or_else(|| vec![KINDS[0]]);
            let all: Map<String, Value> =
                kinds.iter().map(|(name, kind)| ((*name).to_owned(), of(*kind))).collect();
            ("embeddings_by_type", all.into())
        }
    };
    let version = if first { "1" } else { "2" };
    let shown = json!({
        "id": id, "response_type": kind, "embeddings": embeddings, "texts": texts,
        "meta": { "api_version": { "version": version }, "billed_units": { "input_tokens": usage.prompt } }
    });
    Ok(pieces.document(&shown))
}

pub(crate) async fn embed(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    answered(app, call, false).await
}

pub(crate) async fn embed_first(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    answered(app, call, true).await
}

pub(crate) fn describe_embed(app: &App) -> Value {
    let has = |name: &str| json!({ "required": [name], "properties": { name: { "type": "array" } } });
    let most = app.limits.embedding_inputs;
    let text = json!({ "type": "string" });
    let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
    let inputs: Vec<&str> = PROMPTS.iter().map(|(name, _)| *name).collect();
    let input = json!({
        "type": "object", "additionalProperties": false, "required": ["content"],
        "properties": { "content": crate::messages::content_schema(&app.limits) }
    });
    let body = json!({
        "type": "object", "additionalProperties": false,
        "properties": {
            "model": app.model_schema(),
            "input_type": { "enum": inputs, "description": "Selects the model's prompt that is put before texts, if it has one" },
            "texts": { "type": "array", "minItems": 1, "maxItems": most, "items": text },
            "inputs": { "type": "array", "minItems": 1, "maxItems": most, "items": input },
            "max_tokens": {
                "type": "integer", "minimum": 1, "maximum": i32::MAX, "description": "Maximum number of tokens of a text"
            },
            "output_dimension": embedding::dimensions_schema(app),
            "embedding_types": { "type": "array", "minItems": 1, "maxItems": KINDS.len(), "items": { "enum": names } },
            "truncate": { "enum": ["END", "START", "NONE"], "description": "Side at which a text that is too long is truncated" }
        },
        "oneOf": [has("texts"), has("inputs")]
    });
    let answer = json!({ "type": "object", "required": ["id", "response_type", "embeddings", "texts"] });
    operation("cohereEmbed", "Cohere: embedding vectors of texts", Some(&body), &answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_packed_eight_by_eight() {
        let vector = [1.0, -1.0, 0.0, 0.5, -0.5, 2.0, -2.0, 1.0, 1.0];
        let shown = |kind: Kind| kind.shown(&vector, &mut StreamedJson::new());
        assert_eq!(shown(Kind::Ubinary), json!([0b1001_0101, 0b1000_0000]));
        assert_eq!(shown(Kind::Binary), json!([0b1001_0101 - 128, 0]));
    }
}
