//! Ollama's `/api/copy`, `/api/create` and `/api/delete`: changes of the models, if the server's options allow them.
//!
//! The server itself changes no files of models: its options have the function that does ([`crate::Changer`]).

use super::ollama;
use crate::abilities::RequiredAbility;
use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::defaults::{self, Defaults};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::model_entry::{ModelEntry, without_tag};
use crate::on_demand::{Change, Changed, Changer};
use crate::operation::operation;
use crate::prompt;
use crate::replies::{document, plain};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// Fields of `/api/create` that are refused, and the alternatives.
const REFUSED: &[(&str, &str)] = &[
    ("files", "use `leyden import FILE NAME` for a file on the server's machine"),
    ("adapters", "use the server's option --lora, or `lora` in the file of --config"),
    ("template", "Go templates are not supported; the model's own chat template is used"),
    ("quantize", "use `leyden quantize`"),
    ("modelfile", "use `from` for FROM, `system` for SYSTEM and `parameters` for PARAMETER"),
];

pub(crate) async fn copy(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let mut body = call.fields(&app)?;
    let change = changer(&app)?;
    let (from, name) = (text(&mut body, "source")?, text(&mut body, "destination")?);
    let from = changeable(&app, &from, &name).await?;
    let changed = make_change(move || change(Change::Copy { from: &from, name: &name })).await?;
    apply(&app, changed)?;
    Ok(document(StatusCode::OK, &json!({})))
}

pub(crate) async fn create(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let mut body = call.fields(&app)?;
    let change = changer(&app)?;
    for (field, instead) in REFUSED {
        if body.take(field).is_some_and(|value| !is_empty(&value)) {
            return Err(ApiError::unsupported(*field, format!("`{field}` is not supported: {instead}")));
        }
    }
    let mut left_out = Vec::new();
    if body.take("license").is_some_and(|value| !is_empty(&value)) {
        left_out.push("license".to_owned());
    }
    let name = named(&mut body)?;
    let from = text(&mut body, "from")?;
    let parameters = Value::Object(body.object("parameters").unwrap_or_default().rest());
    let messages = body.list("messages").unwrap_or_default();
    let (defaults, ignored) = Defaults::read(body.text("system"), &messages, &parameters)
        .map_err(|what| ApiError::field("parameters", what))?;
    left_out.extend(ignored.iter().map(|name| format!("parameters.{name}")));
    call.leave_out(&app, &left_out)?;
    let from = changeable(&app, &from, &name).await?;
    let changed =
        make_change(move || change(Change::Create { from: &from, name: &name, defaults: &defaults })).await?;
    apply(&app, changed)?;
    let done = json!({ "status": "success" });
    Ok(match body.flag("stream").unwrap_or(true) {
        true => plain(StatusCode::OK, "application/x-ndjson", format!("{done}\n")),
        false => document(StatusCode::OK, &done),
    })
}

pub(crate) async fn delete(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let mut body = call.fields(&app)?;
    let change = changer(&app)?;
    let asked = named(&mut body)?;
    let entry = app.models.look_for(Some(&asked), RequiredAbility::Any).await?;
    refuse_fixed(&entry, &asked)?;
    let name = entry.name.clone();
    let changed = make_change(move || change(Change::Delete { name: &name })).await?;
    apply(&app, changed)?;
    Ok(document(StatusCode::OK, &json!({})))
}

/// Returns the function that makes changes.
///
/// # Errors
/// 403: the server's options do not allow it.
fn changer(app: &App) -> Result<Changer, ApiError> {
    app.change.clone().ok_or_else(|| {
        let message = "clients of this server cannot change models: start it with --allow-manage, or use leyden cp, create and rm";
        ApiError::new(StatusCode::FORBIDDEN, "change_not_allowed", message)
    })
}

/// Returns the server's name of the model `from`, whose copy gets the name `name`.
///
/// # Errors
/// 404: there is no such model. 409: a model has the name `name` that cannot be replaced.
async fn changeable(app: &App, from: &str, name: &str) -> Result<String, ApiError> {
    let from = app.models.look_for(Some(from), RequiredAbility::Any).await?;
    let plain = without_tag(name).unwrap_or(name);
    let taken =
        app.models.all().into_iter().find(|entry| entry.names().any(|n| n.eq_ignore_ascii_case(plain)));
    if let Some(taken) = taken {
        refuse_fixed(&taken, plain)?;
    }
    Ok(from.name.clone())
}

/// Refuses to change a model that is not loaded on demand, or a model that is not addressed by its own name.
fn refuse_fixed(entry: &ModelEntry, asked: &str) -> Result<(), ApiError> {
    let plain = without_tag(asked).unwrap_or(asked);
    let why = if !entry.is_on_demand() {
        "is a model of the server's command line, which clients cannot change"
    } else if entry.is_adapter(plain) {
        "is the name of an adapter"
    } else if entry.names().skip(1).any(|name| name == plain) {
        "is an alias, which only the server's options can change"
    } else {
        return Ok(());
    };
    Err(ApiError::new(StatusCode::CONFLICT, "model_not_changeable", format!("`{plain}` {why}")))
}

fn text(body: &mut Fields, name: &str) -> Result<String, ApiError> {
    body.text(name).ok_or_else(|| ApiError {
        code: "missing_required_parameter",
        ..ApiError::field(name, format!("`{name}` is missing"))
    })
}

/// Takes the model's name from the newer field or the older one.
fn named(body: &mut Fields) -> Result<String, ApiError> {
    match body.text("name") {
        Some(name) if !body.has("model") => Ok(name),
        _ => text(body, "model"),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Makes a change on a thread where it does not block other connections, because it reads and writes files.
async fn make_change(
    work: impl FnOnce() -> Result<Changed, crate::ChangeError> + Send + 'static,
) -> Result<Changed, ApiError> {
    prompt::run_blocking(move || {
        work().map_err(|error| match error.is_usage {
            true => ApiError::new(StatusCode::BAD_REQUEST, "change_refused", error.message),
            false => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "change_failed", error.message),
        })
    })
    .await
}

fn apply(app: &App, changed: Changed) -> Result<(), ApiError> {
    app.models
        .apply(changed)
        .map_err(|error| ApiError::new(StatusCode::CONFLICT, "change_failed", error.to_string()))
}

fn described(name: &str, summary: &str, body: &Value) -> Value {
    let mut it = operation(name, summary, Some(body), &json!({ "type": "object" }));
    let refused = |what: &str| json!({ "description": what, "content": { "application/json": { "schema": ollama::error_schema() } } });
    it["responses"]["403"] = refused("The server was not started with --allow-manage");
    it["responses"]["409"] = refused("The model cannot be changed by clients");
    it
}

fn name(app: &App) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": app.limits.name_chars })
}

pub(crate) fn describe_copy(app: &App) -> Value {
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["source", "destination"],
        "properties": { "source": name(app), "destination": name(app) }
    });
    described("ollamaCopy", "Ollama: copy a model", &body)
}

pub(crate) fn describe_create(app: &App) -> Value {
    let mut properties = json!({
        "model": name(app), "name": name(app), "from": name(app), "system": { "type": "string" },
        "parameters": defaults::parameters_schema(), "messages": defaults::messages_schema(),
        "stream": { "type": "boolean" }, "license": {}
    });
    REFUSED.iter().for_each(|(field, _)| properties[*field] = json!({}));
    let body = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    let mut it = described("ollamaCreate", "Ollama: create a model with defaults", &body);
    it["responses"]["200"]["content"]["application/x-ndjson"] = json!({ "schema": { "type": "string" } });
    it
}

pub(crate) fn describe_delete(app: &App) -> Value {
    let body = json!({
        "type": "object", "additionalProperties": false, "properties": { "model": name(app), "name": name(app) }
    });
    described("ollamaDelete", "Ollama: delete a model", &body)
}
