//! Tools of a request, with the facts that parsing of calls needs.

use serde::de::IgnoredAny;
use serde_json::{Map, Value as Json};
use std::sync::Arc;

/// Names of tools with their parameters' schemas.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    tools: Arc<[(String, Map<String, Json>)]>,
}

impl Tools {
    /// Reads a list of descriptions, each `{"type": "function", "function": {…}}` or the inner object alone.
    /// Invalid entries are skipped.
    pub(super) fn new(tools: Option<&Json>) -> Tools {
        let described = tools.and_then(Json::as_array).into_iter().flatten().filter_map(|tool| {
            let function = tool.get("function").unwrap_or(tool);
            let name = function.get("name")?.as_str()?.to_owned();
            let properties =
                function.get("parameters").and_then(|p| p.get("properties")).and_then(Json::as_object);
            Some((name, properties.cloned().unwrap_or_default()))
        });
        Tools { tools: described.collect() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.tools.iter().any(|(known, _)| known == name)
    }

    /// Returns whether a parameter is a string, whose value is taken literally.
    pub(super) fn is_text(&self, name: &str, parameter: &str) -> bool {
        self.schema(name, parameter).is_some_and(|schema| schema.get("type") == Some(&Json::from("string")))
    }

    /// Parses a value that is written as plain text in a call: JSON, if the parameter's schema allows the value's
    /// type, otherwise a string.
    pub(super) fn value(&self, name: &str, parameter: &str, text: &str) -> Json {
        let Ok(value) = serde_json::from_str::<Json>(text.trim()) else { return Json::from(text) };
        let mut kinds = Vec::new();
        let known =
            self.schema(name, parameter).is_some_and(|schema| kinds_of(schema, MAX_DEPTH, &mut kinds));
        let is_one = kinds.iter().any(|kind| is_of_kind(&value, kind));
        // A number where the schema allows only a string or null is a string.
        if known && !is_one && kinds.contains(&"string") { Json::from(text) } else { value }
    }

    fn schema(&self, name: &str, parameter: &str) -> Option<&Json> {
        self.tools.iter().find(|(known, _)| known == name)?.1.get(parameter)
    }
}

/// Maximum depth of nested alternatives in a schema that are followed.
const MAX_DEPTH: usize = 8;

/// Collects the types that a schema allows, those of its alternatives included. Returns whether the list is
/// complete.
fn kinds_of<'a>(schema: &'a Json, depth: usize, kinds: &mut Vec<&'a str>) -> bool {
    let before = kinds.len();
    match schema.get("type") {
        Some(Json::String(kind)) => kinds.push(kind),
        Some(Json::Array(all)) => kinds.extend(all.iter().filter_map(Json::as_str)),
        _ => {
            let lists = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(key)?.as_array());
            let Some(list) = lists.filter(|_| depth > 0) else { return false };
            return list.iter().all(|one| kinds_of(one, depth - 1, kinds)) && kinds.len() > before;
        }
    }
    kinds.len() > before
}

fn is_of_kind(value: &Json, kind: &str) -> bool {
    match value {
        Json::Null => kind == "null",
        Json::Bool(_) => kind == "boolean",
        Json::Number(n) => {
            kind == "number" || kind == "integer" && n.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        Json::String(_) => kind == "string",
        Json::Array(_) => kind == "array",
        Json::Object(_) => kind == "object",
    }
}

/// Returns the JSON of a value that the end of the answer truncated, as [`Tools::value`] would without its end: the
/// text itself if it begins as JSON does, otherwise a string without its closing quotation mark.
pub(super) fn unfinished_value(text: &str) -> String {
    let is_begun =
        serde_json::from_str::<IgnoredAny>(text.trim()).map_or_else(|error| error.is_eof(), |_| true);
    if is_begun { text.trim().to_owned() } else { unclosed_string(text) }
}

/// Returns whether a text is a JSON object.
pub(super) fn is_object(text: &str) -> bool {
    serde_json::from_str::<Json>(text).is_ok_and(|value| value.is_object())
}

/// Returns a JSON string without its closing quotation mark.
pub(super) fn unclosed_string(text: &str) -> String {
    let mut string = Json::from(text).to_string();
    string.pop();
    string
}

/// Returns a JSON string without its quotation marks.
pub(super) fn without_quotes(text: &str) -> String {
    let mut string = unclosed_string(text);
    string.remove(0);
    string
}
