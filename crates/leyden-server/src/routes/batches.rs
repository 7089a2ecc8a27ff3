//! OpenAI: `/v1/batches`, requests that are computed when there is time for them.

use super::files::{DISABLED, LIFETIMES, batches, with_failures};
use crate::app::App;
use crate::batches::{BATCH_ENDPOINTS, NewBatch, Record, unknown};
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::operation::operation;
use crate::paging::{self, Page};
use crate::replies::document;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// Usual and maximum number of batches of a list.
const LISTED: usize = 20;
const MAX_LISTED: usize = 100;
/// Completion windows, and their seconds.
const WINDOWS: [(&str, u64); 6] =
    [("24h", 86_400), ("1h", 3600), ("12h", 43_200), ("48h", 172_800), ("7d", 604_800), ("30d", 2_592_000)];

pub(super) async fn create(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let batches = batches(&app)?;
    let mut fields = call.fields(&app)?;
    let text = |name: &str, value: Option<String>| {
        let missing = || ApiError::field(name, format!("`{name}` is missing"));
        value.ok_or_else(|| ApiError { code: "missing_required_parameter", ..missing() })
    };
    let completion_window = text("completion_window", fields.text("completion_window"))?;
    let window =
        WINDOWS.iter().find(|(name, _)| *name == completion_window).map_or(86_400, |(_, seconds)| *seconds);
    let lifetime = fields.object("output_expires_after").and_then(|mut after| after.integer("seconds"));
    let new = NewBatch {
        owner: call.caller.id,
        endpoint: text("endpoint", fields.text("endpoint"))?,
        input_file_id: text("input_file_id", fields.text("input_file_id"))?,
        completion_window,
        window,
        metadata: fields.object("metadata").map(crate::fields::Fields::rest),
        output_lifetime: lifetime.and_then(|seconds| u64::try_from(seconds).ok()),
    };
    Ok(document(StatusCode::OK, &batches.create(new)?.shown()))
}

pub(super) async fn list(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let page = Page::read(&call.query, LISTED, MAX_LISTED)?;
    let all = batches(&app)?.list(&call.caller.id);
    Ok(document(StatusCode::OK, &page.of(all.iter().map(Record::shown).collect())?))
}

pub(super) async fn retrieve(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let record = batches(&app)?.get(&call.caller.id, &call.variable).ok_or_else(unknown)?;
    Ok(document(StatusCode::OK, &record.shown()))
}

pub(super) async fn cancel(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let record = batches(&app)?.cancel(&call.caller.id, &call.variable)?;
    Ok(document(StatusCode::OK, &record.shown()))
}

fn batch_schema() -> Value {
    let time = json!({ "type": ["integer", "null"] });
    let file = json!({ "type": ["string", "null"] });
    json!({
        "type": "object",
        "required": ["id", "object", "endpoint", "input_file_id", "completion_window", "status", "created_at", "request_counts"],
        "properties": {
            "id": { "type": "string" }, "object": { "const": "batch" }, "endpoint": { "enum": BATCH_ENDPOINTS },
            "errors": { "type": ["object", "null"] }, "input_file_id": { "type": "string" },
            "completion_window": { "type": "string" },
            "status": { "enum": [
                "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
            ] },
            "output_file_id": file, "error_file_id": file, "created_at": { "type": "integer" },
            "in_progress_at": time, "expires_at": { "type": "integer" }, "finalizing_at": time, "completed_at": time,
            "failed_at": time, "expired_at": time, "cancelling_at": time, "cancelled_at": time,
            "request_counts": {
                "type": "object", "required": ["total", "completed", "failed"],
                "properties": {
                    "total": { "type": "integer" }, "completed": { "type": "integer" }, "failed": { "type": "integer" }
                }
            },
            "metadata": { "type": ["object", "null"] }
        }
    })
}

pub(super) fn describe_create(app: &App) -> Value {
    let windows: Vec<&str> = WINDOWS.iter().map(|(name, _)| *name).collect();
    let body = json!({
        "type": "object", "additionalProperties": false, "required": ["input_file_id", "endpoint", "completion_window"],
        "properties": {
            "input_file_id": { "type": "string", "maxLength": app.limits.name_chars },
            "endpoint": { "enum": BATCH_ENDPOINTS },
            "completion_window": { "enum": windows, "description": "Time after which requests without an answer are given up" },
            "metadata": {
                "type": "object", "maxProperties": 16, "propertyNames": { "maxLength": 64 },
                "additionalProperties": { "type": "string", "maxLength": 512 }
            },
            "output_expires_after": {
                "type": "object", "additionalProperties": false, "required": ["anchor", "seconds"],
                "properties": {
                    "anchor": { "const": "created_at" },
                    "seconds": { "type": "integer", "minimum": LIFETIMES.start(), "maximum": LIFETIMES.end() }
                }
            }
        }
    });
    operation("createBatch", "OpenAI: compute the requests of a file", Some(&body), &batch_schema())
}

pub(super) fn describe_list(_: &App) -> Value {
    let mut it =
        operation("listBatches", "OpenAI: the batches of this key", None, &paging::schema(&batch_schema()));
    it["parameters"] = paging::described(LISTED, MAX_LISTED);
    with_failures(it, &[DISABLED])
}

/// Returns the description of an operation on a batch.
fn of_batch(name: &str, summary: &str) -> Value {
    let mut it = operation(name, summary, None, &batch_schema());
    it["parameters"] =
        json!([{ "name": "batch_id", "in": "path", "required": true, "schema": { "type": "string" } }]);
    it
}

pub(super) fn describe_retrieve(_: &App) -> Value {
    of_batch("getBatch", "OpenAI: one batch")
}

pub(super) fn describe_cancel(_: &App) -> Value {
    with_failures(of_batch("cancelBatch", "OpenAI: cancel a batch"), &[("409", "The batch has ended")])
}
