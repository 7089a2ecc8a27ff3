//! The Open Inference Protocol (KServe's V2): health and metadata for Kubernetes and its gateways.

use crate::abilities::RequiredAbility;
use crate::app::App;
use crate::auth;
use crate::body::Reply;
use crate::call::Call;
use crate::dialect::Dialect;
use crate::error::ApiError;
use crate::operation::operation;
use crate::replies::document;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// The protocol's dialect.
pub(crate) static OPEN_INFERENCE: Dialect =
    Dialect { name: "OpenInferenceError", error, error_schema, any_content: false, key: auth::bearer };

fn error(error: &ApiError) -> Value {
    json!({ "error": error.message })
}

fn error_schema() -> Value {
    json!({ "type": "object", "required": ["error"], "properties": { "error": { "type": "string" } } })
}

pub(crate) async fn live(_: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    Ok(document(StatusCode::OK, &json!({ "live": true })))
}

pub(crate) async fn ready(app: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    let ready = !app.is_retiring() && app.is_able();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(document(status, &json!({ "ready": ready })))
}

pub(crate) async fn server(_: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    let shown = json!({ "name": "leyden", "version": env!("CARGO_PKG_VERSION"), "extensions": [] });
    Ok(document(StatusCode::OK, &shown))
}

/// Returns a model's metadata, or its readiness if the path ends with `/ready`.
pub(crate) async fn model(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    if let Some(name) = call.variable.strip_suffix("/ready") {
        let entry = app.models.find(Some(name))?;
        // A model that is loaded on demand is always ready.
        let ready = !app.is_retiring() && entry.service().is_none_or(|service| service.is_alive());
        let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        return Ok(document(status, &json!({ "name": name, "ready": ready })));
    }
    let entry = app.models.look_for(Some(&call.variable), RequiredAbility::Any).await?;
    let tensor =
        |name: &str, kind: &str, shape: &[i64]| json!({ "name": name, "datatype": kind, "shape": shape });
    let shown = json!({
        "name": entry.name, "versions": [], "platform": format!("leyden_{}", entry.info.format),
        "inputs": [tensor("text_input", "BYTES", &[1])], "outputs": [tensor("text_output", "BYTES", &[1])],
    });
    Ok(document(StatusCode::OK, &shown))
}

fn says(name: &str, what: &str, field: &str, kind: &str) -> Value {
    let schema = json!({ "type": "object", "required": [field], "properties": { field: { "type": kind } } });
    operation(name, what, None, &schema)
}

pub(crate) fn describe_live(_: &App) -> Value {
    says("oipLive", "Open Inference Protocol: liveness", "live", "boolean")
}

pub(crate) fn describe_ready(_: &App) -> Value {
    let mut it = says("oipReady", "Open Inference Protocol: readiness", "ready", "boolean");
    it["responses"]["503"] = it["responses"]["200"].clone();
    it
}

pub(crate) fn describe_server(_: &App) -> Value {
    says("oipServer", "Open Inference Protocol: metadata of the server", "name", "string")
}

pub(crate) fn describe_model(app: &App) -> Value {
    let what = "Open Inference Protocol: metadata of a model, or with `/ready` its readiness";
    let mut it = says("oipModel", what, "name", "string");
    it["responses"]["503"] = it["responses"]["200"].clone();
    it["parameters"] =
        json!([{ "name": "model", "in": "path", "required": true, "schema": app.model_schema() }]);
    it
}
