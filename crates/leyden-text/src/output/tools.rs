//! The tools of a request, as far as reading calls needs them.

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
        let tool = self.tools.iter().find(|(known, _)| known == name);
        let kind = tool.and_then(|(_, properties)| properties.get(parameter)?.get("type"));
        let is_text = kind.and_then(Json::as_str) == Some("string");
        if is_text {
            return Json::from(text);
        }
        serde_json::from_str(text.trim()).unwrap_or_else(|_| Json::from(text))
    }
}
