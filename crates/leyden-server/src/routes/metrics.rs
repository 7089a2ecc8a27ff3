//! `/metrics`: the counters, for Prometheus.

use crate::app::{App, Call, plain};
use crate::body::Reply;
use crate::error::ApiError;
use crate::metrics::page;
use crate::openapi::operation;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn answer(app: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    let models: Vec<_> = app.models.iter().map(|m| (m.name.as_str(), m.worker.metrics.as_ref())).collect();
    let page = page(&models, &app.http, app.log().dropped());
    Ok(plain(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page))
}

pub(super) fn describe(_: &App) -> Value {
    let mut it = operation("metrics", "Counters in the text format of Prometheus", None, &json!({}));
    it["responses"]["200"]["content"] = json!({ "text/plain": { "schema": { "type": "string" } } });
    it
}
