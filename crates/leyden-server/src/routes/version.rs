//! `/version`: name and version of the program.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::operation::operation;
use crate::replies::document;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn answer(_: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    Ok(document(StatusCode::OK, &json!({ "version": env!("CARGO_PKG_VERSION") })))
}

pub(super) fn describe(_: &App) -> Value {
    let schema = json!({
        "type": "object", "required": ["version"], "properties": { "version": { "type": "string" } }
    });
    operation("version", "Version of the server", None, &schema)
}
