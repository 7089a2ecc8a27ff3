//! `/health` and `/health/live`: readiness and liveness.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::operation::operation;
use crate::replies::document;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns 200 if all models can answer and the server is not shutting down.
pub(super) async fn ready(app: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    let status = if app.is_retiring() {
        "closing"
    } else if app.is_able() {
        "ready"
    } else {
        "failed"
    };
    let code = if status == "ready" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(document(code, &json!({ "status": status })))
}

/// Always returns 200.
pub(super) async fn live(_: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    Ok(document(StatusCode::OK, &json!({ "status": "live" })))
}

pub(super) fn describe_ready(_: &App) -> Value {
    let mut it = operation("ready", "Readiness", None, &health());
    it["responses"]["503"] = json!({
        "description": "The server is shutting down, or a model has failed",
        "content": { "application/json": { "schema": health() } }
    });
    it
}

pub(super) fn describe_live(_: &App) -> Value {
    operation("live", "Liveness", None, &health())
}

fn health() -> Value {
    let status = json!({ "type": "string", "enum": ["ready", "live", "closing", "failed"] });
    json!({ "type": "object", "required": ["status"], "properties": { "status": status } })
}
