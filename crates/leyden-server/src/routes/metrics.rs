//! `/metrics`: the metrics, for Prometheus.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::metrics::{Series, ServerFigures, page, process_part};
use crate::operation::operation;
use crate::process::resident_bytes;
use crate::replies::plain;
use crate::tls::Tls;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn answer(app: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    let entries = app.models.all();
    let metrics: Vec<_> =
        entries.iter().filter_map(|entry| Some((entry, entry.service()?.metrics()))).collect();
    let engines = metrics.iter().flat_map(|(entry, metrics)| {
        let (model, adapters) = (&entry.name, &entry.adapters[..]);
        let several = metrics.len() > 1;
        let engine = move |i: usize| several.then_some(i);
        metrics.iter().enumerate().map(move |(i, metrics)| Series {
            model,
            adapters,
            engine: engine(i),
            metrics,
        })
    });
    let figures = ServerFigures {
        comings: app.models.counts(),
        lines_dropped: app.log().dropped(),
        audit: app.audit.as_ref().map(|log| log.figures()).unwrap_or_default(),
        tls: app.tls.as_ref().map(Tls::figures),
        spans: app.traces.as_ref().map(|traces| [traces.exporter.exported(), traces.exporter.dropped()]),
    };
    let page = page(&engines.collect::<Vec<_>>(), &app.http, &figures);
    let page = page + &process_part(resident_bytes());
    Ok(plain(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page))
}

pub(super) fn describe(_: &App) -> Value {
    let mut it = operation("metrics", "Metrics in the text format of Prometheus", None, &json!({}));
    it["responses"]["200"]["content"] = json!({ "text/plain": { "schema": { "type": "string" } } });
    it
}
