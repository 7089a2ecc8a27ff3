//! vLLM's endpoints for pooling models: `/score`, `/classify`, `/pooling`.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::chat_input;
use crate::embedding;
use crate::encoding::{self, Before, Long, LongDocument, PairOf, Placed, Ranking, with};
use crate::error::ApiError;
use crate::labelled::{self, LabelRequest};
use crate::operation::operation;
use crate::prompt;
use crate::served::Served;
use crate::streamed_json::StreamedJson;
use crate::timestamp::unix_time;
use crate::usage::Usage;
use hyper::Response;
use leyden_models::Labelled;
use leyden_models::heads::{LabelLogits, TextVector, TokenVectors};
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
    Pairs(Ranking),
    /// Texts whose vectors are compared by cosine: all first texts, then all second ones; and the number of first ones.
    Vectors(encoding::Wanted, usize),
}

fn read_score(app: &App, call: &Call) -> Result<(Arc<Served>, Scored, bool), ApiError> {
    let mut body = call.fields(app)?;
    let model = &app.model(body.text("model").as_deref())?;
    let long = Long::read(&mut body, false);
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
    if encoding::ranks(model).is_ok() {
        let query = |i: usize| &first[if first.len() == 1 { 0 } else { i }];
        let pair = |(i, document)| PairOf { query: query(i), document };
        let pairs: Vec<PairOf<'_>> = second.iter().enumerate().map(pair).collect();
        let ranking = encoding::pairs(model, call, &pairs, LongDocument::AsText(long))?;
        return Ok((Arc::clone(model), Scored::Pairs(ranking), raw));
    }
    let count = first.len();
    let texts = first.into_iter().chain(second).map(|(path, text)| (path, text.into())).collect();
    let before = Before::usual(model);
    let head = TextVector { pooling: model.pooling }.into();
    let wanted = encoding::texts(model, call, texts, long, &before, &head)?;
    Ok((Arc::clone(model), Scored::Vectors(wanted, count), raw))
}

pub(crate) async fn score(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, (model, scored, raw)) = prompt::prepare(&app, call, read_score).await?;
    let (id, name) = (format!("score-{}", call.entry.id()), call.name_of(&model));
    let (scores, usage): (Vec<f64>, Usage) = match scored {
        Scored::Pairs(ranking) => {
            let (scores, usage) = ranking.relevance(app, call, raw).await?;
            (scores.into_iter().map(f64::from).collect(), usage)
        }
        Scored::Vectors(wanted, count) => {
            let (vectors, usage) = wanted.values(app, call).await?;
            let vectors: Vec<Vec<f32>> =
                vectors.into_iter().map(|v| embedding::compared(&model, v)).collect();
            let similarity = model.network.config().vectors.similarity;
            let (first, second) = vectors.split_at(count.min(vectors.len()));
            let of = |(i, vector): (usize, &Vec<f32>)| {
                similarity.of(&first[if count == 1 { 0 } else { i }], vector)
            };
            (second.iter().enumerate().map(of).collect(), usage)
        }
    };
    let data = scores.iter().enumerate();
    let data = data.map(|(i, score)| json!({ "index": i, "object": "score", "score": score }));
    Ok(answer(StreamedJson::new(), &id, &name, &data.collect(), usage))
}

fn read_classify(app: &App, call: &Call) -> Result<(encoding::Wanted, bool), ApiError> {
    let mut body = call.fields(app)?;
    let model = &app.model(body.text("model").as_deref())?;
    let (_, pooling) = encoding::classifier(model)?;
    let long = Long::read(&mut body, false);
    let raw = !body.flag("use_activation").unwrap_or(true);
    let input = chat_input::read(app, call, model, &mut body, long)?;
    let head = LabelLogits { of: Labelled::Text(pooling) }.into();
    Ok((encoding::texts(model, call, input, long, &Before::nothing(), &head)?, raw))
}

pub(crate) async fn classify(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, (wanted, raw)) = prompt::prepare(&app, call, read_classify).await?;
    let (id, model) = (format!("classify-{}", call.entry.id()), Arc::clone(&wanted.model));
    let name = call.name_of(&model);
    let (scores, usage) = wanted.scores(app, call, raw).await?;
    let (classifier, _) = encoding::classifier(&model)?;
    let mut pieces = StreamedJson::new();
    let shown = |(i, scores): (usize, Vec<f32>)| {
        let best = (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b]).then(b.cmp(a)));
        let label = best.and_then(|best| classifier.labels.get(best));
        let count = scores.len();
        json!({ "index": i, "label": label, "probs": pieces.numbers(scores), "num_classes": count })
    };
    let data: Value = scores.into_iter().enumerate().map(shown).collect();
    Ok(answer(pieces, &id, &name, &data, usage))
}

/// Output of `/pooling`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pooled {
    Embed,
    TokenEmbed,
    Scores,
    TokenScores,
}

/// A request to `/pooling`.
enum Asked {
    Numbers(encoding::Wanted, Pooled, bool),
    Entities(LabelRequest),
}

fn read_pooling(app: &App, call: &Call) -> Result<Asked, ApiError> {
    let mut body = call.fields(app)?;
    let model = &app.model(body.text("model").as_deref())?;
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
    let pooled = match (task.as_deref(), of) {
        (Some("embed"), _) => Pooled::Embed,
        (Some("token_embed" | "encode"), _) | (None, None) => Pooled::TokenEmbed,
        (Some("classify" | "score") | None, Some(Labelled::Text(_))) => Pooled::Scores,
        (Some("token_classify") | None, Some(Labelled::Tokens)) => Pooled::TokenScores,
        (Some(task), _) => {
            let lacks = encoding::lacks(model, &format!("do the `task` `{task}`: it has no head for it"));
            return Err(ApiError { param: Some("task".to_owned()), ..lacks });
        }
    };
    let head = match (pooled, of) {
        (Pooled::Embed, _) => TextVector { pooling: model.pooling }.into(),
        (Pooled::Scores | Pooled::TokenScores, Some(of)) => LabelLogits { of }.into(),
        _ => TokenVectors.into(),
    };
    let long = Long::read(&mut body, false);
    let raw = !body.flag("use_activation").unwrap_or(true);
    let input = chat_input::read(app, call, model, &mut body, long)?;
    let before = match pooled {
        Pooled::Embed | Pooled::TokenEmbed => Before::usual(model),
        Pooled::Scores | Pooled::TokenScores => Before::nothing(),
    };
    let wanted = encoding::texts(model, call, input, long, &before, &head)?;
    Ok(Asked::Numbers(wanted, pooled, raw))
}

pub(crate) async fn pooling(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, asked) = prompt::prepare(&app, call, read_pooling).await?;
    let id = format!("pool-{}", call.entry.id());
    let (wanted, pooled, raw) = match asked {
        Asked::Numbers(wanted, pooled, raw) => (wanted, pooled, raw),
        Asked::Entities(labelled) => {
            let model = Arc::clone(labelled.model());
            let name = call.name_of(&model);
            let (all, usage) = labelled.entities(app, call).await?;
            let shown = |(i, found)| json!({ "index": i, "object": "pooling", "data": found });
            let data: Value = all.into_iter().enumerate().map(shown).collect();
            return Ok(answer(StreamedJson::new(), &id, &name, &data, usage));
        }
    };
    let model = Arc::clone(&wanted.model);
    let name = call.name_of(&model);
    let labels = model.network.config().classifier().map_or(1, |classifier| classifier.labels.len());
    let (all, usage) = match pooled {
        Pooled::Embed | Pooled::TokenEmbed => wanted.values(app, call).await?,
        Pooled::Scores | Pooled::TokenScores => wanted.scores(app, call, raw).await?,
    };
    let rows = match pooled {
        Pooled::Embed | Pooled::Scores => None,
        Pooled::TokenEmbed => Some(model.network.config().token_width()),
        Pooled::TokenScores => Some(labels),
    };
    let mut pieces = StreamedJson::new();
    let shown = |(i, numbers): (usize, Vec<f32>)| {
        let data = match rows {
            None => pieces.numbers(numbers),
            Some(width) => pieces.rows(numbers, width),
        };
        json!({ "index": i, "object": "pooling", "data": data })
    };
    let data: Value = all.into_iter().enumerate().map(shown).collect();
    Ok(answer(pieces, &id, &name, &data, usage))
}

fn body(app: &App, fields: Value, required: &[&str]) -> Value {
    let common = json!({ "model": app.model_schema(), "use_activation": { "type": "boolean" } });
    let fields = with(with(common, fields), Long::schema());
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
    let item = json!({ "type": "object", "required": ["index", "label", "probs", "num_classes"] });
    let body = chat_input::schema(app, body(app, json!({}), &[]));
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
