//! The tools of a request, as far as reading calls needs them.

use serde::de::IgnoredAny;
use serde_json::{Map, Value as Json};

/// Names and parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct Tools {
    tools: Vec<(String, Map<String, Json>)>,
}

impl Tools {
    /// From a list of descriptions, each `{"type": "function", "function": {…}}` or what stands in `function`. What
    /// cannot be read is left out.
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

    /// A value that stands as plain text in a call: text where the parameter's type says so, otherwise the JSON that it
    /// is, otherwise text.
    pub(super) fn value(&self, name: &str, parameter: &str, text: &str) -> Json {
        if self.is_text(name, parameter) {
            return Json::from(text);
        }
        serde_json::from_str(text.trim()).unwrap_or_else(|_| Json::from(text))
    }

    /// As [`value`](Self::value) for one that the end of the answer cut off, as JSON without its end: itself where it
    /// begins as JSON does, otherwise a text without its last quotation mark.
    pub(super) fn unfinished_value(&self, name: &str, parameter: &str, text: &str) -> String {
        let is_json = !self.is_text(name, parameter) && is_begun(text);
        if is_json { text.trim().to_owned() } else { unclosed_string(text) }
    }

    fn is_text(&self, name: &str, parameter: &str) -> bool {
        let tool = self.tools.iter().find(|(known, _)| known == name);
        let kind = tool.and_then(|(_, properties)| properties.get(parameter)?.get("type"));
        kind.and_then(Json::as_str) == Some("string")
    }
}

/// Whether a text is JSON, or what follows could make it so.
pub(super) fn is_begun(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text.trim()).map_or_else(|error| error.is_eof(), |_| true)
}

/// A JSON string without its last quotation mark.
pub(super) fn unclosed_string(text: &str) -> String {
    let mut string = Json::from(text).to_string();
    string.pop();
    string
}
