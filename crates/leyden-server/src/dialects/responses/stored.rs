//! Endpoints of stored answers: retrieve, delete, and list their input items.

use super::input::{self, unknown};
use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::paging::Page;
use crate::replies::{document, plain};
use hyper::{Response, StatusCode};
use serde_json::json;
use std::sync::Arc;

/// Default number of items in a list, and the maximum.
pub(super) const PAGE_ITEMS: usize = 20;
pub(super) const MAX_PAGE_ITEMS: usize = 100;

pub(crate) async fn retrieve(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let kept = app.answers.document(&call.caller.id, &call.variable).ok_or_else(|| unknown("response_id"))?;
    Ok(plain(StatusCode::OK, "application/json", kept))
}

pub(crate) async fn delete(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    if !app.answers.remove(&call.caller.id, &call.variable) {
        return Err(unknown("response_id"));
    }
    let shown = json!({ "id": call.variable, "object": "response", "deleted": true });
    Ok(document(StatusCode::OK, &shown))
}

/// Refuses to cancel an answer: OpenAI's API only cancels answers that run in the background.
pub(crate) async fn cancel(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    app.answers.document(&call.caller.id, &call.variable).ok_or_else(|| unknown("response_id"))?;
    let message = "only an answer that is made in the background can be cancelled, and this server makes none: \
                   whoever closes the connection ends the answer";
    Err(ApiError::field("response_id", message))
}

pub(crate) async fn input_items(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let page = Page::read(&call.query, PAGE_ITEMS, MAX_PAGE_ITEMS)?;
    let kept = app.answers.items(&call.caller.id, &call.variable);
    let (items, _) = kept.ok_or_else(|| unknown("response_id"))?;
    Ok(document(StatusCode::OK, &page.of(items.into_iter().map(input::shown).collect())?))
}
