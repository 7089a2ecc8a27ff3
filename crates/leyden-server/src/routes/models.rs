//! `/v1/models`: the served models.

use crate::abilities::RequiredAbility;
use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::model_entry::ModelEntry;
use crate::operation::operation;
use crate::replies::document;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn list(app: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    app.models.refresh().await;
    let named =
        |entry: &Arc<ModelEntry>| entry.names().map(|name| shown(&app, entry, name)).collect::<Vec<_>>();
    let data: Vec<Value> = app.models.all().iter().flat_map(named).collect();
    Ok(document(StatusCode::OK, &json!({ "object": "list", "data": data })))
}

pub(super) async fn one(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let entry = app.models.look_for(Some(&call.variable), RequiredAbility::Any).await?;
    Ok(document(StatusCode::OK, &shown(&app, &entry, &call.variable)))
}

/// Returns a model under one of its names.
fn shown(app: &App, entry: &ModelEntry, name: &str) -> Value {
    json!({
        "id": name,
        "object": "model",
        "created": app.started,
        "owned_by": "leyden",
        "root": entry.name,
        "parent": entry.is_adapter(name).then_some(&entry.name),
        "max_model_len": entry.context(),
        "status": { "value": if entry.service().is_some() { "loaded" } else { "unloaded" } },
    })
}

pub(super) fn describe_list(_: &App) -> Value {
    let schema = json!({
        "type": "object",
        "required": ["object", "data"],
        "properties": { "object": { "const": "list" }, "data": { "type": "array", "items": model() } }
    });
    operation("listModels", "The models", None, &schema)
}

pub(super) fn describe_one(app: &App) -> Value {
    let mut it = operation("getModel", "One model", None, &model());
    it["parameters"] =
        json!([{ "name": "model", "in": "path", "required": true, "schema": app.model_schema() }]);
    it
}

fn model() -> Value {
    json!({
        "type": "object",
        "required": ["id", "object", "created", "owned_by", "root", "max_model_len"],
        "properties": {
            "id": { "type": "string" },
            "object": { "const": "model" },
            "created": { "type": "integer" },
            "owned_by": { "type": "string" },
            "root": { "type": "string", "description": "Name of the model; `id` may be an alias" },
            "parent": { "type": ["string", "null"], "description": "For the name of an adapter: its model" },
            "status": {
                "type": "object", "required": ["value"], "properties": { "value": { "enum": ["loaded", "unloaded"] } },
                "description": "Whether the model is in memory; otherwise it is loaded when a request names it"
            },
            "max_model_len": { "type": "integer", "description": "Context: maximum number of tokens in prompt and answer" }
        }
    })
}
