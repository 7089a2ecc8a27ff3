//! `/v1/models`: what is served.

use crate::app::{App, Call, Served, document};
use crate::body::Reply;
use crate::error::ApiError;
use crate::openapi::operation;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn list(app: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    let named = |m: &Arc<Served>| m.names().map(|name| shown(&app, m, name)).collect::<Vec<_>>();
    let data: Vec<Value> = app.models.iter().flat_map(named).collect();
    Ok(document(StatusCode::OK, &json!({ "object": "list", "data": data })))
}

pub(super) async fn one(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let model = app.model(Some(&call.variable))?;
    Ok(document(StatusCode::OK, &shown(&app, model, &call.variable)))
}

/// A model under one of its names.
fn shown(app: &App, model: &Served, name: &str) -> Value {
    json!({
        "id": name,
        "object": "model",
        "created": app.started,
        "owned_by": "leyden",
        "root": model.name,
        "max_model_len": model.context,
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
            "root": { "type": "string", "description": "The model's name, of which `id` may be an alias" },
            "max_model_len": { "type": "integer", "description": "Longest text in tokens, prompt and answer together" }
        }
    })
}
