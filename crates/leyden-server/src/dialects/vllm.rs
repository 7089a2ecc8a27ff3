//! vLLM's endpoints for pooling models: `/score`, `/classify`, `/pooling`.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::chat_input;
use crate::decisions::{self, Decisions, WithDecision};
use crate::encoding::{self, PairOf, Paths, Placed, Planned};
use crate::error::ApiError;
use crate::labelled::{self, LabelRequest};
use crate::operation::operation;
use crate::prompt;
use crate::request_model::RequestModel;
use crate::schema::with;
use crate::streamed_json::StreamedJson;
use crate::timestamp::unix_time;
use crate::truncation;
use crate::usage::Usage;
use hyper::Response;
use leyden_models::Labelled;
use leyden_tasks::{
    Classify, Compare, Embed, EmbedTokens, LongDocument, Rerank, TaskKind, TextInput, TextOptions,
    VectorShape, best,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns a response with the common fields; `pieces` are the large parts of `data`.
fn answer(pieces: StreamedJson, id: &str, name: &str, data: &Value, usage: Usage) -> Response<Reply> {
    let shown = json!({
        "id": id, "object": "list", "created": unix_time(), "model": name, "data": data,
        "usage": { "prompt_tokens": usage.prompt, "total_tokens": usage.prompt, "completion_tokens": 0 }
    });
    pieces.document(&shown)
}

/// Returns the texts of a field, one or several, each with its path in the body.
fn listed(name: &str, value: Value) -> Vec<Placed> {
    match value {
        Value::String(text) => vec![(name.to_owned(), text)],
        Value::Array(items) => {
            let item = |(i, item): (usize, Value)| Some((format!("{name}[{i}]"), item.as_str()?.to_owned()));
            items.into_iter().enumerate().filter_map(item).collect()
        }
        _ => Vec::new(),
    }
}

/// Names of the field with the first texts of pairs, and of the field with the second texts.
const FIRST: &[&str] = &["text_1", "queries", "data_1"];
const SECOND: &[&str] = &["text_2", "documents", "items", "data_2"];

/// Inputs of a score.
enum Scored {
    /// Pairs, for a model that scores pairs.
    Pairs(Planned<Rerank>),
    /// Texts that are compared.
    Texts(Planned<Compare>),
}

fn read_score(app: &App, call: &Call) -> Result<(RequestModel, Scored), ApiError> {
    let mut body = call.fields(app)?;
    let model = &RequestModel::take(app, &mut body)?;
    let long = truncation::read(&mut body, false);
    let raw = !body.flag("use_activation").unwrap_or(true);
    let mut side = |names: &[&'static str]| {
        let mut given = names.iter().filter_map(|name| body.take(name).map(|value| (*name, value)));
        match (given.next(), given.next()) {
            (Some((name, value)), None) => Ok((name, listed(name, value))),
            (None, _) => {
                Err(ApiError::conflict(names[0], format!("one of `{}` is required", names.join("` and `"))))
            }
            (Some((name, _)), Some((other, _))) => {
                Err(ApiError::conflict(other, format!("`{name}` and `{other}` exclude each other")))
            }
        }
    };
    let ((first_name, first), (name, second)) = (side(FIRST)?, side(SECOND)?);
    if first.len() != 1 && first.len() != second.len() {
        let message = format!(
            "`{first_name}` has {} texts and `{name}` {}: `{first_name}` has one, or as many as `{name}`",
            first.len(),
            second.len()
        );
        return Err(ApiError::conflict(name, message));
    }
    if TaskKind::Rerank.is_possible(model.network.config()) {
        let query = |i: usize| &first[if first.len() == 1 { 0 } else { i }];
        let pair = |(i, document)| PairOf { query: query(i), document };
        let pairs: Vec<PairOf<'_>> = second.iter().enumerate().map(pair).collect();
        let planned = encoding::plan(model, call, &Paths::of_pairs(&pairs), |parts| {
            let long = LongDocument::Truncate(long);
            Rerank::plan(parts, encoding::pair_texts(&pairs), long, raw)
        })?;
        return Ok((model.clone(), Scored::Pairs(planned)));
    }
    let count = first.len();
    let (paths, texts): (Vec<_>, Vec<_>) = first.into_iter().chain(second).unzip();
    let texts = texts.into_iter().map(TextInput::from);
    let options = TextOptions { preface: encoding::preface(model, None)?, truncation: long };
    let planned = encoding::plan(model, call, &Paths::new(paths), |parts| {
        Compare::plan(parts, texts, &options, (model.pooling, count))
    })?;
    Ok((model.clone(), Scored::Texts(planned)))
}

pub(crate) async fn score(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, (model, scored)) = prompt::prepare(&app, call, read_score).await?;
    let (id, name) = (format!("score-{}", call.entry.id()), model.answer_name());
    let (scores, usage): (Vec<f64>, Usage) = match scored {
        Scored::Pairs(planned) => {
            let (scores, usage) = planned.run(app, call).await?;
            (scores.into_iter().map(f64::from).collect(), usage)
        }
        Scored::Texts(planned) => planned.run(app, call).await?,
    };
    let data = scores.iter().enumerate();
    let data = data.map(|(i, score)| json!({ "index": i, "object": "score", "score": score }));
    Ok(answer(StreamedJson::new(), &id, &name, &data.collect(), usage))
}

/// Request to `/classify`.
enum Classified {
    /// Scores of labels.
    Scores(Planned<Classify>),
    /// Scores of labels, and decisions by a calibration.
    Decisions(Decisions),
}

fn read_classify(app: &App, call: &Call) -> Result<Classified, ApiError> {
    let mut body = call.fields(app)?;
    let model = &RequestModel::take(app, &mut body)?;
    let wanted = decisions::read(model, &mut body, true)?;
    let long = decisions::truncation(model, &mut body, wanted.as_ref())?;
    let raw = !body.flag("use_activation").unwrap_or(true);
    let input = chat_input::read(app, call, model, &mut body, long)?;
    let (paths, texts) = encoding::texts(model, input)?;
    if let Some(wanted) = wanted {
        return Ok(Classified::Decisions(wanted.plan(model, call, (paths, texts), (long, raw))?));
    }
    let planned = encoding::plan(model, call, &paths, |parts| {
        Classify::plan(parts, TaskKind::Classify, texts, (long, raw))
    });
    Ok(Classified::Scores(planned?))
}

pub(crate) async fn classify(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, classified) = prompt::prepare(&app, call, read_classify).await?;
    let id = format!("classify-{}", call.entry.id());
    let model = match &classified {
        Classified::Scores(planned) => &planned.model,
        Classified::Decisions(decisions) => decisions.model(),
    };
    let (name, labels) = (model.answer_name(), encoding::labels(model).to_vec());
    let (all, usage): (Vec<WithDecision>, Usage) = match classified {
        Classified::Scores(planned) => {
            let (scores, usage) = planned.run(app, call).await?;
            (scores.into_iter().map(|rows| (rows.values, None)).collect(), usage)
        }
        Classified::Decisions(decisions) => {
            let (all, usage) = decisions.run(app, call).await?;
            (all.into_iter().map(|(scores, decision)| (scores, Some(decision))).collect(), usage)
        }
    };
    let mut pieces = StreamedJson::new();
    let shown = |(i, (scores, decision)): (usize, WithDecision)| {
        let (label, width) = (best(&scores).and_then(|best| labels.get(best)), scores.len());
        let mut item =
            json!({ "index": i, "label": label, "probs": pieces.numbers(scores), "num_classes": width });
        if let Some(decision) = decision {
            item["decision"] = decision;
        }
        item
    };
    let data: Value = all.into_iter().enumerate().map(shown).collect();
    Ok(answer(pieces, &id, &name, &data, usage))
}

/// Request to `/pooling`.
enum Asked {
    Embed(Planned<Embed>),
    TokenEmbed(Planned<EmbedTokens>),
    /// Scores of labels of texts.
    Scores(Planned<Classify>),
    /// Scores of labels of tokens.
    TokenScores(Planned<Classify>),
    Entities(LabelRequest),
}

fn read_pooling(app: &App, call: &Call) -> Result<Asked, ApiError> {
    let mut body = call.fields(app)?;
    let model = &RequestModel::take(app, &mut body)?;
    let of = model.network.config().classifier().map(|classifier| classifier.of);
    let task = body.text("task");
    match task.as_deref() {
        None | Some("token_classify") => {
            if let Some(labelled) = labelled::read(model, call, &mut body, "input")? {
                return Ok(Asked::Entities(labelled));
            }
        }
        Some(task) => {
            for name in ["labels", "threshold", "nested"] {
                if body.has(name) {
                    let message = format!("`{name}` and the task `{task}` exclude each other");
                    return Err(ApiError::conflict(name, message));
                }
            }
        }
    }
    let long = truncation::read(&mut body, false);
    let raw = !body.flag("use_activation").unwrap_or(true);
    let kind = match (task.as_deref(), of) {
        (Some("embed"), _) => TaskKind::Embed,
        (Some("token_embed" | "encode"), _) | (None, None) => TaskKind::EmbedTokens,
        (Some("classify" | "score") | None, Some(Labelled::Text(_))) => TaskKind::Classify,
        (Some("token_classify") | None, Some(Labelled::Tokens)) => TaskKind::ExtractTokens,
        (Some(task), _) => {
            let lacks = encoding::lacks(model, &format!("do the `task` `{task}`: it has no head for it"));
            return Err(ApiError { param: Some("task".to_owned()), ..lacks });
        }
    };
    let input = chat_input::read(app, call, model, &mut body, long)?;
    let (paths, texts) = encoding::texts(model, input)?;
    let options = TextOptions { preface: encoding::preface(model, None)?, truncation: long };
    Ok(match kind {
        TaskKind::Embed => Asked::Embed(encoding::plan(model, call, &paths, |parts| {
            let shape = VectorShape::whole(parts.config);
            Embed::plan(parts, texts, &options, (model.pooling, shape))
        })?),
        TaskKind::EmbedTokens => Asked::TokenEmbed(encoding::plan(model, call, &paths, |parts| {
            EmbedTokens::plan(parts, texts, &options)
        })?),
        kind => {
            let planned =
                encoding::plan(model, call, &paths, |parts| Classify::plan(parts, kind, texts, (long, raw)))?;
            if kind == TaskKind::Classify { Asked::Scores(planned) } else { Asked::TokenScores(planned) }
        }
    })
}

pub(crate) async fn pooling(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, asked) = prompt::prepare(&app, call, read_pooling).await?;
    let id = format!("pool-{}", call.entry.id());
    let model = match &asked {
        Asked::Embed(planned) => &planned.model,
        Asked::TokenEmbed(planned) => &planned.model,
        Asked::Scores(planned) | Asked::TokenScores(planned) => &planned.model,
        Asked::Entities(labelled) => labelled.model(),
    };
    let name = model.answer_name();
    let mut pieces = StreamedJson::new();
    let (all, usage): (Vec<Value>, Usage) = match asked {
        Asked::Entities(labelled) => labelled.entities(app, call).await?,
        Asked::Embed(planned) => {
            let (vectors, usage) = planned.run(app, call).await?;
            (vectors.into_iter().map(|vector| pieces.numbers(vector)).collect(), usage)
        }
        Asked::Scores(planned) => {
            let (all, usage) = planned.run(app, call).await?;
            (all.into_iter().map(|rows| pieces.numbers(rows.values)).collect(), usage)
        }
        Asked::TokenEmbed(planned) => {
            let (all, usage) = planned.run(app, call).await?;
            (all.into_iter().map(|rows| pieces.rows(rows.values, rows.width)).collect(), usage)
        }
        Asked::TokenScores(planned) => {
            let (all, usage) = planned.run(app, call).await?;
            (all.into_iter().map(|rows| pieces.rows(rows.values, rows.width)).collect(), usage)
        }
    };
    let shown = |(i, data)| json!({ "index": i, "object": "pooling", "data": data });
    let data: Value = all.into_iter().enumerate().map(shown).collect();
    Ok(answer(pieces, &id, &name, &data, usage))
}

fn body(app: &App, fields: Value, required: &[&str]) -> Value {
    let common = json!({ "model": app.model_schema(), "use_activation": { "type": "boolean" } });
    let fields = with(with(common, fields), truncation::schema());
    json!({ "type": "object", "additionalProperties": false, "required": required, "properties": fields })
}

fn answered(item: &Value) -> Value {
    json!({
        "type": "object", "required": ["id", "object", "created", "model", "data", "usage"],
        "properties": { "data": { "type": "array", "items": item } }
    })
}

pub(crate) fn describe_score(app: &App) -> Value {
    let text = json!({ "type": "string" });
    let texts = json!({ "anyOf": [
        text, { "type": "array", "minItems": 1, "maxItems": app.limits.embedding_inputs, "items": text }
    ] });
    let fields: Value = FIRST.iter().chain(SECOND).map(|name| ((*name).to_owned(), texts.clone())).collect();
    let item = json!({
        "type": "object", "required": ["index", "object", "score"], "properties": { "score": { "type": "number" } }
    });
    operation(
        "score",
        "Similarity or relevance scores of pairs of texts",
        Some(&body(app, fields, &[])),
        &answered(&item),
    )
}

pub(crate) fn describe_classify(app: &App) -> Value {
    let item = json!({
        "type": "object", "required": ["index", "label", "probs", "num_classes"],
        "properties": { "decision": decisions::answer_schema() }
    });
    let body = chat_input::schema(app, body(app, decisions::schema(), &[]));
    operation("classify", "Classify texts", Some(&body), &answered(&item))
}

pub(crate) fn describe_pooling(app: &App) -> Value {
    let fields = json!({
        "task": { "enum": ["embed", "token_embed", "encode", "classify", "score", "token_classify"] }
    });
    let fields = with(fields, labelled::schema());
    let item = json!({ "type": "object", "required": ["index", "object", "data"] });
    let summary = "Hidden states of tokens, pooled vectors, scores of labels, or entities with given labels";
    let body = chat_input::schema(app, body(app, fields, &[]));
    operation("pooling", summary, Some(&body), &answered(&item))
}
