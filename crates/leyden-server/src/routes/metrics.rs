//! `/metrics`: the metrics, for Prometheus.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::metrics::{Series, page};
use crate::operation::operation;
use crate::replies::plain;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn answer(app: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    let served = app.models.served();
    let engines = served.iter().flat_map(|m| {
        let several = m.replicas.metrics().count() > 1;
        let series = move |(i, metrics)| Series { model: &m.name, engine: several.then_some(i), metrics };
        m.replicas.metrics().map(Arc::as_ref).enumerate().map(series)
    });
    let page = page(&engines.collect::<Vec<_>>(), &app.http, app.models.counts(), app.log().dropped());
    Ok(plain(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page))
}

pub(super) fn describe(_: &App) -> Value {
    let mut it = operation("metrics", "Metrics in the text format of Prometheus", None, &json!({}));
    it["responses"]["200"]["content"] = json!({ "text/plain": { "schema": { "type": "string" } } });
    it
}
