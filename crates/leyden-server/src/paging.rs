//! Pages of lists, as OpenAI's endpoints return them.

use crate::error::ApiError;
use serde_json::{Value, json};

/// The page of a list that is requested.
pub(crate) struct Page {
    limit: usize,
    ascending: bool,
    after: Option<String>,
}

impl Page {
    /// Reads the query part of an address. `usual` is the number of items without `limit`, `most` its maximum.
    ///
    /// # Errors
    /// 400: a value is not allowed.
    pub(crate) fn read(query: &str, usual: usize, most: usize) -> Result<Page, ApiError> {
        let mut page = Page { limit: usual, ascending: false, after: None };
        for (name, value) in parameters(query) {
            match name {
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=most).contains(limit));
                    page.limit = limit.ok_or_else(|| {
                        ApiError::field("limit", format!("`limit` is not between 1 and {most}"))
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

    /// Returns the page of these items, the oldest of which is the first.
    ///
    /// # Errors
    /// 400: `after` is not the id of an item.
    pub(crate) fn of(self, mut items: Vec<Value>) -> Result<Value, ApiError> {
        let Page { limit, ascending, after } = self;
        if !ascending {
            items.reverse();
        }
        if let Some(after) = after {
            let Some(at) = items.iter().position(|item| item["id"] == after.as_str()) else {
                let error = ApiError::field("after", "`after` is not the id of an item of this list");
                return Err(ApiError { code: "unknown_item", ..error });
            };
            items.drain(..=at);
        }
        let has_more = items.len() > limit;
        items.truncate(limit);
        let id = |item: Option<&Value>| item.map_or(Value::Null, |item| item["id"].clone());
        let (first, last) = (id(items.first()), id(items.last()));
        Ok(
            json!({ "object": "list", "data": items, "first_id": first, "last_id": last, "has_more": has_more }),
        )
    }
}

/// Returns the names and values of the query part of an address.
pub(crate) fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    query.split('&').filter_map(|pair| pair.split_once('='))
}

/// Returns the descriptions of a page's parameters in the OpenAPI document.
pub(crate) fn described(usual: usize, most: usize) -> Value {
    json!([
        { "name": "limit", "in": "query", "schema": { "type": "integer", "minimum": 1, "maximum": most, "default": usual } },
        { "name": "order", "in": "query", "schema": { "enum": ["asc", "desc"], "default": "desc" } },
        { "name": "after", "in": "query", "schema": { "type": "string" } }
    ])
}

/// Returns the schema of a page of items.
pub(crate) fn schema(item: &Value) -> Value {
    json!({
        "type": "object", "required": ["object", "data", "first_id", "last_id", "has_more"],
        "properties": {
            "object": { "const": "list" }, "data": { "type": "array", "items": item },
            "first_id": { "type": ["string", "null"] }, "last_id": { "type": ["string", "null"] },
            "has_more": { "type": "boolean" }
        }
    })
}
