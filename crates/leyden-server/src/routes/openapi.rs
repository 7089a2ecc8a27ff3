//! `/openapi.json`: the OpenAPI document of this API.

use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::operation::operation;
use crate::replies::document;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn answer(app: Arc<App>, _: Call) -> Result<Response<Reply>, ApiError> {
    Ok(document(StatusCode::OK, &app.document()))
}

pub(super) fn describe(_: &App) -> Value {
    operation("openapi", "This document", None, &json!({ "type": "object" }))
}
