//! text-embeddings-inference's endpoints: `/embed`, `/embed_all`, `/embed_sparse`, `/predict`, `/similarity`, `/info`.
//! Its `/rerank` is shared with other dialects ([`crate::routes`]).

use crate::app::App;
use crate::auth;
use crate::body::Reply;
use crate::call::Call;
use crate::decisions::{self, Decisions, WithDecision};
use crate::dialect::Dialect;
use crate::embedding;
use crate::encoding::{self, Input, PairOf, Paths, Placed, Planned};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::operation::{operation, several_schema};
use crate::prompt;
use crate::replies::document;
use crate::request_model::RequestModel;
use crate::schema::with;
use crate::served::Served;
use crate::streamed_json::{self, StreamedJson};
use crate::truncation;
use hyper::{Response, StatusCode};
use leyden_tasks::{Classify, Compare, EmbedSparse, EmbedTokens, TaskKind, TextInput, TextOptions, ranked};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// text-embeddings-inference's dialect.
pub(crate) static TEI: Dialect =
    Dialect { name: "TeiError", error, error_schema, any_content: false, key: auth::bearer };

fn error(error: &ApiError) -> Value {
    let class = match error.status.as_u16() {
        429 | 503 => "Overloaded",
        500.. => "Backend",
        _ if error.code == "context_length_exceeded" => "Tokenizer",
        _ => "Validation",
    };
    json!({ "error": error.message, "error_type": class })
}

fn error_schema() -> Value {
    let text = json!({ "type": "string" });
    json!({
        "type": "object", "required": ["error", "error_type"],
        "properties": { "error": text, "error_type": text }
    })
}

pub(crate) async fn embed(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, wanted) = prompt::prepare(&app, call, |app, call| {
        let mut body = call.fields(app)?;
        let model = &RequestModel::take(app, &mut body)?;
        let long = truncation::read(&mut body, false);
        let input = encoding::input(&mut body, "inputs");
        embedding::read(call, model, &mut body, input, long)
    })
    .await?;
    let (vectors, _) = wanted.run(app, call).await?;
    let mut pieces = StreamedJson::new();
    let shown = vectors.into_iter().map(|vector| pieces.numbers(vector)).collect();
    Ok(pieces.document(&shown))
}

/// Takes the fields of an endpoint of vectors of other kinds: the texts with their paths, and their treatment.
fn read_texts(
    model: &Served,
    body: &mut Fields,
) -> Result<(Paths, Vec<TextInput<'static>>, TextOptions), ApiError> {
    let truncation = truncation::read(body, false);
    let preface = encoding::preface(model, body.text("prompt_name").as_deref())?;
    let inputs = encoding::input(body, "inputs");
    let (paths, texts) = encoding::texts(model, inputs)?;
    Ok((paths, texts, TextOptions { preface, truncation }))
}

pub(crate) async fn embed_all(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, planned) = prompt::prepare(&app, call, |app, call| {
        let mut body = call.fields(app)?;
        let model = &RequestModel::take(app, &mut body)?;
        let (paths, texts, options) = read_texts(model, &mut body)?;
        encoding::plan(model, call, &paths, |parts| EmbedTokens::plan(parts, texts, &options))
    })
    .await?;
    let (all, _) = planned.run(app, call).await?;
    let mut pieces = StreamedJson::new();
    let shown = all.into_iter().map(|rows| pieces.rows(rows.values, rows.width)).collect();
    Ok(pieces.document(&shown))
}

pub(crate) async fn embed_sparse(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, planned) = prompt::prepare(&app, call, |app, call| {
        let mut body = call.fields(app)?;
        let model = &RequestModel::take(app, &mut body)?;
        let (paths, texts, options) = read_texts(model, &mut body)?;
        encoding::plan(model, call, &paths, |parts| EmbedSparse::plan(parts, texts, &options))
    })
    .await?;
    let one = |(index, value): (u32, f32), out: &mut Vec<u8>| {
        streamed_json::json(&json!({ "index": index, "value": value }), out);
    };
    let (all, _) = planned.run(app, call).await?;
    let mut pieces = StreamedJson::new();
    let shown = all.into_iter().map(|numbers| pieces.list(numbers, one)).collect();
    Ok(pieces.document(&shown))
}

/// Returns the texts or pairs of a request to classify, and true if they are several.
fn predicted(value: Value) -> (Vec<Vec<Placed>>, bool) {
    let text = |path: String, value: Value| match value {
        Value::String(text) => (path, text),
        _ => (path, String::new()),
    };
    let list = |path: String, item: Value| match item {
        Value::Array(items) => {
            items.into_iter().enumerate().map(|(i, item)| text(format!("{path}[{i}]"), item)).collect()
        }
        other => vec![text(path, other)],
    };
    match value {
        Value::Array(items) if items.first().is_some_and(Value::is_array) => {
            let item = |(i, item): (usize, Value)| list(format!("inputs[{i}]"), item);
            (items.into_iter().enumerate().map(item).collect(), true)
        }
        other => (vec![list("inputs".to_owned(), other)], false),
    }
}

/// Request to `/predict`.
enum Predicted {
    /// Scores of labels.
    Scores(Planned<Classify>),
    /// Scores of labels, and decisions by a calibration.
    Decisions(Decisions),
}

/// Returns the request, and true if its texts or pairs are several.
fn read_predict(app: &App, call: &Call) -> Result<(Predicted, bool), ApiError> {
    let mut body = call.fields(app)?;
    let model = &RequestModel::take(app, &mut body)?;
    // Answers have another form with decisions, so that a field must ask for them.
    let wanted = decisions::read(model, &mut body, false)?;
    let long = decisions::truncation(model, &mut body, wanted.as_ref())?;
    let raw = body.flag("raw_scores").unwrap_or(false);
    let (inputs, several) = predicted(body.take("inputs").unwrap_or_default());
    let pairs = inputs.iter().filter(|texts| texts.len() == 2).count();
    if wanted.is_some() && pairs > 0 {
        return Err(ApiError::conflict(
            "inputs",
            "`inputs`: a calibration is about texts, not about pairs of texts",
        ));
    }
    let planned = if pairs == 0 {
        let (paths, texts): (Vec<_>, Vec<_>) = inputs.into_iter().flatten().unzip();
        let texts = texts.into_iter().map(TextInput::from);
        let paths = Paths::new(paths);
        if let Some(wanted) = wanted {
            let planned = wanted.plan(model, call, (paths, texts.collect()), (long, raw))?;
            return Ok((Predicted::Decisions(planned), several));
        }
        encoding::plan(model, call, &paths, |parts| {
            Classify::plan(parts, TaskKind::Classify, texts, (long, raw))
        })?
    } else if pairs == inputs.len() {
        let pairs: Vec<PairOf<'_>> =
            inputs.iter().map(|texts| PairOf { query: &texts[0], document: &texts[1] }).collect();
        encoding::plan(model, call, &Paths::of_pairs(&pairs), |parts| {
            Classify::plan_pairs(parts, encoding::pair_texts(&pairs), long, raw)
        })?
    } else {
        return Err(ApiError::conflict("inputs", "`inputs`: texts and pairs of texts exclude each other"));
    };
    Ok((Predicted::Scores(planned), several))
}

pub(crate) async fn predict(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, (predicted, several)) = prompt::prepare(&app, call, read_predict).await?;
    let model = match &predicted {
        Predicted::Scores(planned) => &planned.model,
        Predicted::Decisions(decisions) => decisions.model(),
    };
    let labels: Arc<[String]> = encoding::labels(model).to_vec().into();
    let all: Vec<WithDecision> = match predicted {
        Predicted::Scores(planned) => {
            let (scores, _) = planned.run(app, call).await?;
            scores.into_iter().map(|rows| (rows.values, None)).collect()
        }
        Predicted::Decisions(decisions) => {
            let (all, _) = decisions.run(app, call).await?;
            all.into_iter().map(|(scores, decision)| (scores, Some(decision))).collect()
        }
    };
    let mut pieces = StreamedJson::new();
    let shown = |(scores, decision): WithDecision| {
        let labels = Arc::clone(&labels);
        let scores = pieces.list(ranked(scores), move |(label, score), out| {
            streamed_json::json(&json!({ "label": labels.get(label), "score": score }), out);
        });
        match decision {
            None => scores,
            Some(decision) => json!({ "decision": decision, "scores": scores }),
        }
    };
    let mut all: Vec<Value> = all.into_iter().map(shown).collect();
    let shown = if several { Value::Array(all) } else { all.pop().unwrap_or_default() };
    Ok(pieces.document(&shown))
}

pub(crate) async fn similarity(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, planned) = prompt::prepare(&app, call, |app, call| {
        let mut body = call.fields(app)?;
        let model = &RequestModel::take(app, &mut body)?;
        let mut fields = body.object("parameters").unwrap_or_default();
        let truncation = truncation::read(&mut fields, false);
        let options = TextOptions {
            preface: encoding::preface(model, fields.text("prompt_name").as_deref())?,
            truncation,
        };
        let mut inputs = body.object("inputs").unwrap_or_default();
        let texts = ["source_sentence", "sentences"]
            .map(|name| (format!("inputs.{name}"), Input::from(inputs.take(name).unwrap_or_default())));
        let (paths, texts) = encoding::texts(model, texts.into())?;
        encoding::plan(model, call, &paths, |parts| Compare::plan(parts, texts, &options, (model.pooling, 1)))
    })
    .await?;
    let (similarities, _) = planned.run(app, call).await?;
    Ok(document(StatusCode::OK, &json!(similarities)))
}

pub(crate) async fn info(app: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    let models = app.models.served();
    // Its servers have one model: of several, the first that makes vectors or labels is shown.
    let model = models.iter().find(|model| !model.generates).or(models.first());
    let Some(model) = model else {
        return Err(ApiError::unavailable("model_not_loaded", "no model is loaded", Duration::from_secs(1)));
    };
    let labels_texts = TaskKind::Classify.is_possible(model.network.config());
    let kind = match model.network.config().classifier().filter(|_| labels_texts) {
        Some(classifier) => {
            let id2label: Map<String, Value> = classifier
                .labels
                .iter()
                .enumerate()
                .map(|(i, l)| (i.to_string(), l.as_str().into()))
                .collect();
            let label2id: Map<String, Value> =
                classifier.labels.iter().enumerate().map(|(i, l)| (l.clone(), i.into())).collect();
            let kind = if classifier.ranks() { "reranker" } else { "classifier" };
            json!({ kind: { "id2label": id2label, "label2id": label2id } })
        }
        None => json!({ "embedding": { "pooling": model.pooling.to_string() } }),
    };
    let shown = json!({
        "model_id": model.name, "model_sha": null, "model_dtype": model.info.weights, "model_type": kind,
        "served_model_name": model.name, "max_concurrent_requests": app.limits.connections,
        "max_input_length": prompt::longest(model), "max_batch_tokens": prompt::longest(model),
        "max_batch_requests": null, "max_client_batch_size": app.limits.embedding_inputs, "auto_truncate": false,
        "tokenization_workers": 1, "version": env!("CARGO_PKG_VERSION"), "sha": null, "docker_label": null
    });
    Ok(document(StatusCode::OK, &shown))
}

fn body(app: &App, inputs: &Value, more: Value) -> Value {
    let fields = with(json!({ "model": app.model_schema(), "inputs": inputs }), more);
    json!({ "type": "object", "additionalProperties": false, "required": ["inputs"], "properties": fields })
}

fn vector() -> Value {
    json!({ "type": "array", "items": { "type": "number" } })
}

pub(crate) fn describe_embed(app: &App) -> Value {
    let inputs = several_schema(app, app.limits.embedding_inputs);
    let body = body(app, &inputs, with(embedding::schema(app), truncation::schema()));
    let answer = json!({ "type": "array", "items": vector() });
    operation("tei_embed", "Embedding vectors of texts", Some(&body), &answer)
}

fn prompt_name(app: &App) -> Value {
    json!({ "prompt_name": { "type": "string", "maxLength": app.limits.name_chars } })
}

pub(crate) fn describe_embed_all(app: &App) -> Value {
    let inputs = several_schema(app, app.limits.embedding_inputs);
    let body = body(app, &inputs, with(prompt_name(app), truncation::schema()));
    let answer = json!({ "type": "array", "items": { "type": "array", "items": vector() } });
    operation("tei_embed_all", "Hidden states of all tokens of texts", Some(&body), &answer)
}

pub(crate) fn describe_embed_sparse(app: &App) -> Value {
    let inputs = several_schema(app, app.limits.embedding_inputs);
    let body = body(app, &inputs, with(prompt_name(app), truncation::schema()));
    let number = json!({
        "type": "object", "required": ["index", "value"],
        "properties": { "index": { "type": "integer" }, "value": { "type": "number" } }
    });
    let answer = json!({ "type": "array", "items": { "type": "array", "items": number } });
    operation(
        "tei_embed_sparse",
        "Sparse vectors of texts: token ids with nonzero weights",
        Some(&body),
        &answer,
    )
}

pub(crate) fn describe_predict(app: &App) -> Value {
    let text = json!({ "type": "string" });
    let pair = json!({ "type": "array", "minItems": 1, "maxItems": 2, "items": text });
    let several =
        json!({ "type": "array", "minItems": 1, "maxItems": app.limits.embedding_inputs, "items": pair });
    let inputs = json!({ "anyOf": [text, pair, several] });
    let flag = json!({ "type": "boolean", "default": false });
    let fields = with(json!({ "raw_scores": flag }), decisions::schema());
    let body = body(app, &inputs, with(fields, truncation::schema()));
    let label = json!({
        "type": "object", "required": ["label", "score"],
        "properties": { "label": text, "score": { "type": "number" } }
    });
    let one = json!({ "type": "array", "items": label });
    let decided = json!({
        "type": "object", "required": ["decision", "scores"],
        "properties": { "decision": decisions::answer_schema(), "scores": one }
    });
    let several = json!({ "type": "array", "items": { "anyOf": [label, one, decided] } });
    let answer = json!({ "anyOf": [several, decided] });
    operation("tei_predict", "Classify texts or pairs of texts", Some(&body), &answer)
}

pub(crate) fn describe_similarity(app: &App) -> Value {
    let text = json!({ "type": "string" });
    let sentences =
        json!({ "type": "array", "minItems": 1, "maxItems": app.limits.embedding_inputs - 1, "items": text });
    let inputs = json!({
        "type": "object", "additionalProperties": false, "required": ["source_sentence", "sentences"],
        "properties": { "source_sentence": text, "sentences": sentences }
    });
    let parameters = json!({
        "type": "object", "additionalProperties": false, "properties": with(prompt_name(app), truncation::schema())
    });
    let body = body(app, &inputs, json!({ "parameters": parameters }));
    operation(
        "tei_similarity",
        "Similarity of texts to one text, by the model's similarity function (by default the cosine)",
        Some(&body),
        &vector(),
    )
}

pub(crate) fn describe_info(_: &App) -> Value {
    let answer = json!({ "type": "object", "required": ["model_id", "model_type", "max_input_length"] });
    operation("tei_info", "The model, and the limits of requests", None, &answer)
}
