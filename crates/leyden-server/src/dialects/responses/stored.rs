//! Endpoints of stored answers: retrieve, delete, and list their input items.

use super::input::{self, unknown};
use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::replies::{document, plain};
use hyper::{Response, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// Default number of items in a list, and the maximum.
const ITEMS: usize = 20;
const MAX_ITEMS: usize = 100;

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
    let Page { limit, ascending, after } = Page::read(&call.query)?;
    let kept = app.answers.items(&call.caller.id, &call.variable);
    let (items, _) = kept.ok_or_else(|| unknown("response_id"))?;
    let mut items: Vec<Value> = items.into_iter().map(input::shown).collect();
    if !ascending {
        items.reverse();
    }
    if let Some(after) = after {
        let Some(at) = items.iter().position(|item| item["id"] == after.as_str()) else {
            return Err(ApiError::field("after", "`after` is not the id of an item of this response"));
        };
        items.drain(..=at);
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let id = |item: Option<&Value>| item.map_or(Value::Null, |item| item["id"].clone());
    let (first, last) = (id(items.first()), id(items.last()));
    let shown =
        json!({ "object": "list", "data": items, "first_id": first, "last_id": last, "has_more": has_more });
    Ok(document(StatusCode::OK, &shown))
}

/// The page of a list that is requested.
struct Page {
    limit: usize,
    ascending: bool,
    after: Option<String>,
}

impl Page {
    /// Reads the query part of an address.
    ///
    /// # Errors
    /// 400: a value is not allowed.
    fn read(query: &str) -> Result<Page, ApiError> {
        let mut page = Page { limit: ITEMS, ascending: false, after: None };
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            match name {
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=MAX_ITEMS).contains(limit));
                    page.limit = limit.ok_or_else(|| {
                        ApiError::field("limit", format!("`limit` is not between 1 and {MAX_ITEMS}"))
                    })?;
                }
                "order" if ["asc", "desc"].contains(&value) => page.ascending = value == "asc",
                "order" => return Err(ApiError::field("order", "`order` is not one of asc, desc")),
                "after" => page.after = Some(value.to_owned()),
                _ => {}
            }
        }
        Ok(page)
    }
}
