//! `/v1/rerank`, `/v2/rerank`, `/rerank`: ranks documents by relevance to a query, in the dialects of Cohere, Jina,
//! llama-server and vLLM, which agree on most fields, and of text-embeddings-inference, whose requests have `texts`.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::encoding::{self, PairOf, Paths, Placed, Planned};
use crate::error::ApiError;
use crate::operation::operation;
use crate::prompt;
use crate::replies::document;
use crate::request_model::RequestModel;
use crate::schema::with;
use crate::truncation;
use hyper::{Response, StatusCode};
use leyden_tasks::{LongDocument, Rerank};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A request that has been read.
struct Wanted {
    planned: Planned<Rerank>,
    most: usize,
    /// The texts, if the answer contains them.
    texts: Option<Vec<String>>,
    /// True if the answer has the form of text-embeddings-inference's.
    list: bool,
}

pub(super) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, Wanted { planned, most, texts, list }) = prompt::prepare(&app, call, read).await?;
    let (id, name) = (call.entry.id().to_owned(), planned.model.answer_name());
    let (scores, usage) = planned.run(app, call).await?;
    let mut ranked = leyden_tasks::ranked(scores);
    ranked.truncate(most);
    let text = |index: usize| texts.as_ref().and_then(|texts| texts.get(index));
    if list {
        let shown = |(index, score): &(usize, f32)| {
            let mut shown = json!({ "index": index, "score": score });
            text(*index).into_iter().for_each(|text| shown["text"] = text.as_str().into());
            shown
        };
        return Ok(document(StatusCode::OK, &ranked.iter().map(shown).collect()));
    }
    let shown = |(index, score): &(usize, f32)| {
        let mut shown = json!({ "index": index, "relevance_score": score });
        text(*index).into_iter().for_each(|text| shown["document"] = json!({ "text": text }));
        shown
    };
    let results: Value = ranked.iter().map(shown).collect();
    let shown = json!({
        "id": format!("rerank-{id}"), "object": "list", "model": name, "results": results,
        "usage": { "prompt_tokens": usage.prompt, "total_tokens": usage.prompt },
        "meta": { "api_version": { "version": "2" }, "billed_units": { "search_units": 1 } }
    });
    Ok(document(StatusCode::OK, &shown))
}

/// Returns the texts of a field, each with its path; objects have their text in the field `text`.
fn texts(name: &str, items: Vec<Value>) -> Result<Vec<Placed>, ApiError> {
    let text = |(i, item): (usize, Value)| match item {
        Value::String(text) => Ok((format!("{name}[{i}]"), text)),
        Value::Object(object) => match object.get("text") {
            Some(Value::String(text)) => Ok((format!("{name}[{i}].text"), text.clone())),
            _ => Err(ApiError::field(format!("{name}[{i}].text"), format!("`{name}[{i}].text` is missing"))),
        },
        _ => Err(ApiError::field(format!("{name}[{i}]"), format!("`{name}[{i}]` is not a text"))),
    };
    items.into_iter().enumerate().map(text).collect()
}

fn read(app: &App, call: &Call) -> Result<Wanted, ApiError> {
    let mut body = call.fields(app)?;
    let model = RequestModel::take(app, &mut body)?;
    let query = ("query".to_owned(), body.text("query").unwrap_or_default());
    let (name, items, list) = match (body.list("documents"), body.list("texts")) {
        (Some(documents), None) => ("documents", documents, false),
        (None, Some(texts)) => ("texts", texts, true),
        (None, None) => {
            return Err(ApiError::conflict("documents", "one of `documents` and `texts` is required"));
        }
        (Some(_), Some(_)) => {
            return Err(ApiError::conflict("texts", "`documents` and `texts` exclude each other"));
        }
    };
    let texts = texts(name, items)?;
    let truncates = body.has("truncate") || body.has("truncate_prompt_tokens");
    let long = match (body.size("max_tokens_per_doc"), truncation::read(&mut body, false)) {
        (Some(tokens), _) => LongDocument::Beginning(tokens),
        // text-embeddings-inference refuses texts that are too long.
        (None, long) if list || truncates => LongDocument::Truncate(long),
        (None, _) => LongDocument::InParts,
    };
    let raw = body.flag("raw_scores").unwrap_or(false) || !body.flag("use_activation").unwrap_or(true);
    let pairs: Vec<PairOf<'_>> = texts.iter().map(|document| PairOf { query: &query, document }).collect();
    let planned = encoding::plan(&model, call, &Paths::of_pairs(&pairs), |parts| {
        Rerank::plan(parts, encoding::pair_texts(&pairs), long, raw)
    })?;
    let returns = body.flag("return_documents").or(body.flag("return_text")).unwrap_or(false);
    Ok(Wanted {
        planned,
        most: body.size("top_n").filter(|most| *most > 0).unwrap_or(usize::MAX),
        texts: returns.then(|| texts.into_iter().map(|(_, text)| text).collect()),
        list,
    })
}

pub(super) fn describe(app: &App) -> Value {
    let most = app.limits.embedding_inputs;
    let text = json!({ "type": "string" });
    let object = json!({ "type": "object", "required": ["text"], "properties": { "text": text } });
    let documents =
        json!({ "type": "array", "minItems": 1, "maxItems": most, "items": { "anyOf": [text, object] } });
    let texts = json!({ "type": "array", "minItems": 1, "maxItems": most, "items": text });
    let flag = json!({ "type": "boolean", "default": false });
    let size =
        |what: &str| json!({ "type": "integer", "minimum": 1, "maximum": i32::MAX, "description": what });
    let fields = json!({
        "model": app.model_schema(),
        "query": text,
        "documents": documents,
        "texts": texts,
        "top_n": {
            "type": "integer", "minimum": 0, "maximum": i32::MAX,
            "description": "Maximum number of results; 0 for all"
        },
        "max_tokens_per_doc": size(
            "Maximum number of tokens of a document, which is truncated; without it, a long document is read in parts and gets the best part's score"
        ),
        "return_documents": flag,
        "return_text": flag,
        "raw_scores": { "type": "boolean", "default": false, "description": "Whether scores are logits instead of values from 0 to 1" },
        "use_activation": { "type": "boolean", "description": "Opposite of `raw_scores`" }
    });
    let has = |name: &str| {
        let mut needed = Map::new();
        needed.insert("required".to_owned(), json!([name]));
        needed.insert("properties".to_owned(), json!({ name: { "type": "array" } }));
        Value::Object(needed)
    };
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["query"],
        "properties": with(fields, truncation::schema()),
        "oneOf": [has("documents"), has("texts")]
    });
    let number = json!({ "type": "number" });
    let index = json!({ "type": "integer" });
    let result = json!({
        "type": "object", "required": ["index", "relevance_score"],
        "properties": { "index": index, "relevance_score": number, "document": object }
    });
    let answer = json!({ "anyOf": [
        {
            "type": "object", "required": ["id", "model", "results", "usage"],
            "properties": { "results": { "type": "array", "items": result } }
        },
        {
            "type": "array",
            "items": {
                "type": "object", "required": ["index", "score"],
                "properties": { "index": index, "score": number, "text": text }
            }
        }
    ] });
    operation("rerank", "Sort documents by relevance to a query", Some(&body), &answer)
}
