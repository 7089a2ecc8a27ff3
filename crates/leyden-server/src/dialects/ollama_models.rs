//! Ollama's endpoints about models: `/api/tags`, `/api/ps`, `/api/show`, `/api/version`.

use crate::abilities::RequiredAbility;
use crate::about::About;
use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::model::ModelInfo;
use crate::model_entry::ModelEntry;
use crate::operation::operation;
use crate::prompt;
use crate::replies::document;
use crate::timestamp::rfc3339;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::SystemTime;

/// The version of Ollama whose API this is. Clients use it to detect features.
const VERSION: &str = "0.13.0";

/// Returns format, family, number of parameters and quantisation of a model, as Ollama shows them.
fn details(info: &ModelInfo) -> Value {
    let parameters = info.parameters as f64;
    let size = match info.parameters {
        0..1_000_000 => format!("{:.0}K", parameters / 1e3),
        1_000_000..1_000_000_000 => format!("{:.0}M", parameters / 1e6),
        _ => format!("{:.1}B", parameters / 1e9),
    };
    json!({
        "parent_model": "", "format": info.format, "family": info.architecture, "families": [info.architecture],
        "parameter_size": size, "quantization_level": info.weights,
    })
}

/// Returns a model under one of its names.
fn tag(entry: &ModelEntry, name: &str, digest: &str) -> Value {
    let info = &entry.info;
    json!({
        "name": name, "model": name, "modified_at": rfc3339(info.modified), "size": info.bytes,
        "digest": digest, "details": details(info),
    })
}

pub(crate) async fn tags(app: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    app.models.refresh().await;
    let mut models: Vec<Value> = Vec::new();
    for entry in app.models.all() {
        let digest = entry.info.digest.get().await;
        models.extend(entry.names().map(|name| tag(&entry, name, &digest)));
    }
    Ok(document(StatusCode::OK, &json!({ "models": models })))
}

pub(crate) async fn ps(app: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    let mut models: Vec<Value> = Vec::new();
    for entry in app.models.all() {
        let Some(resident) = app.models.resident(&entry) else { continue };
        let mut shown = tag(&entry, &entry.name, &entry.info.digest.get().await);
        let until = resident.stays.map(|stays| rfc3339(SystemTime::now() + stays));
        // A model without an idle timeout never expires.
        shown["expires_at"] = until.unwrap_or_else(|| "9999-12-31T23:59:59Z".to_owned()).into();
        let more = json!({
            "size": resident.service.used_bytes(), "reserved": resident.bytes, "size_vram": 0,
            "context_length": resident.service.context(), "running": resident.service.requests(),
            "service_level": resident.service.service_level(),
        });
        if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
            shown.extend(more);
        }
        models.push(shown);
    }
    Ok(document(StatusCode::OK, &json!({ "models": models })))
}

/// Describes a model without loading it.
async fn about(entry: &ModelEntry) -> Result<About, ApiError> {
    if let Some(model) = entry.served() {
        return prompt::run_blocking(move || Ok(model.about())).await;
    }
    let Some((model, _)) = &entry.on_demand else {
        return Err(ApiError::internal(format!("`{}` is not loaded", entry.name)));
    };
    let describe = Arc::clone(&model.describe);
    let failed = |why| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "model_unreadable", why);
    prompt::run_blocking(move || describe().map_err(failed)).await
}

pub(crate) async fn show(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let mut body = call.fields(&app)?;
    let name = body.text("model").or_else(|| body.text("name"));
    let entry = app.models.look_for(name.as_deref(), RequiredAbility::Any).await?;
    let (about, info) = (about(&entry).await?, &entry.info);
    let architecture = &info.architecture;
    let mut shown = json!({
        "modelfile": about.defaults.modelfile(&entry.name), "parameters": about.defaults.lines(),
        "template": about.template, "details": details(info), "capabilities": about.capabilities,
        "modified_at": rfc3339(info.modified),
        "model_info": {
            "general.architecture": architecture, "general.parameter_count": info.parameters,
            format!("{architecture}.context_length"): entry.context(),
            format!("{architecture}.embedding_length"): about.width,
            format!("{architecture}.vocab_size"): about.vocabulary,
        }
    });
    if let Some(system) = about.defaults.system() {
        shown["system"] = system.into();
    }
    if !about.defaults.messages().is_empty() {
        shown["messages"] = about.defaults.messages().into();
    }
    Ok(document(StatusCode::OK, &shown))
}

pub(crate) async fn version(_: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    Ok(document(StatusCode::OK, &json!({ "version": VERSION, "leyden": env!("CARGO_PKG_VERSION") })))
}

fn models(name: &str, summary: &str) -> Value {
    let model = json!({ "type": "object", "required": ["name", "model", "size", "details"] });
    let answer = json!({
        "type": "object", "required": ["models"], "properties": { "models": { "type": "array", "items": model } }
    });
    operation(name, summary, None, &answer)
}

pub(crate) fn describe_tags(_: &App) -> Value {
    models("ollamaTags", "Ollama: list models")
}

pub(crate) fn describe_ps(_: &App) -> Value {
    models("ollamaPs", "Ollama: list loaded models")
}

pub(crate) fn describe_show(app: &App) -> Value {
    let body = json!({
        "type": "object", "additionalProperties": false,
        "properties": {
            "model": app.model_schema(), "name": app.model_schema(), "verbose": {}, "system": {}, "template": {},
            "options": {}
        }
    });
    let answer =
        json!({ "type": "object", "required": ["template", "details", "model_info", "capabilities"] });
    operation("ollamaShow", "Ollama: show a model", Some(&body), &answer)
}

pub(crate) fn describe_version(_: &App) -> Value {
    let answer = json!({
        "type": "object", "required": ["version"], "properties": { "version": { "type": "string" } }
    });
    operation("ollamaVersion", "Ollama: the version whose API the server has", None, &answer)
}
