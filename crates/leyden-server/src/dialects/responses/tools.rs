//! Conversion of a request's tools, of all kinds that OpenAI has, to functions of a chat, and of `tool_choice`.

use super::echoed_fields::{Filled, with_defaults};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::tool_kinds::{Declared, ToolNames, chosen_name, full_name, of_free_text};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Fields of a function, and their values in an answer if the request lacks them.
const FUNCTION: &[Filled] =
    &[("description", || Value::Null), ("parameters", || Value::Null), ("strict", || true.into())];

/// Returns a tool as the answer repeats it.
pub(super) fn shown(tool: Value) -> Value {
    with_defaults(tool, "function", FUNCTION)
}

/// The tools of a request.
#[derive(Debug, Default)]
pub(super) struct Tools {
    /// Tools in the form of a chat.
    pub(super) functions: Vec<Value>,
    pub(super) names: ToolNames,
    /// Paths and kinds of tools that are left out.
    pub(super) left_out: Vec<String>,
    /// Names of all functions, as the model gets them.
    known: HashSet<String>,
}

impl Tools {
    /// Reads the field `tools`. A tool of a namespace or of free text is left out, too, if another one has its name.
    pub(super) fn read(given: Vec<Value>) -> Tools {
        let mut tools = Tools::default();
        for (i, tool) in given.into_iter().enumerate() {
            let place = format!("tools[{i}]");
            let mut tool = Fields::from(tool);
            if tool.peek("type") != Some("namespace") {
                tools.add(&place, None, tool);
                continue;
            }
            let namespace = tool.text("name").unwrap_or_default();
            let mut description = tool.text("description");
            for (j, inner) in tool.list("tools").unwrap_or_default().into_iter().enumerate() {
                let mut inner = Fields::from(inner);
                // The description is given to the model once, with the first tool.
                if let Some(text) = description.take() {
                    let own = inner.text("description").unwrap_or_default();
                    inner.put("description", format!("{text}\n\n{own}").trim_end());
                }
                tools.add(&format!("{place}.tools[{j}]"), Some(&namespace), inner);
            }
        }
        tools
    }

    fn add(&mut self, place: &str, namespace: Option<&str>, mut tool: Fields) {
        let kind = tool.text("type").unwrap_or_default();
        let is_free_text = kind == "custom";
        if !is_free_text && kind != "function" {
            self.left_out.push(format!("{place}:{kind}"));
            return;
        }
        let name = tool.text("name").unwrap_or_default();
        let full = full_name(namespace, &name);
        let is_plain = namespace.is_none() && !is_free_text;
        if !self.known.insert(full.clone()) && (!is_plain || self.names.contains_key(&full)) {
            self.left_out.push(format!("{place}:{kind}"));
            return;
        }
        let function = if is_free_text {
            let format = tool.take("format");
            of_free_text(&full, tool.text("description").as_deref(), format.as_ref())
        } else {
            let mut function = Fields::default();
            function.put("name", full.as_str());
            tool.hand(&mut function, &["description", "parameters", "strict"]);
            function.rest().into()
        };
        self.functions.push(json!({ "type": "function", "function": function }));
        if !is_plain {
            self.names.insert(full, Declared { namespace: namespace.map(str::to_owned), name, is_free_text });
        }
    }

    /// Converts the field `tool_choice` to that of a chat.
    ///
    /// # Errors
    /// 400: a call is required, and all allowed tools are left out.
    pub(super) fn choice(&mut self, choice: Value) -> Result<Value, ApiError> {
        let mut choice = match choice {
            Value::Object(_) => Fields::from(choice),
            word => return Ok(word),
        };
        let Some(allowed) = choice.list("tools") else { return Ok(self.named(choice)) };
        let mut tools = Vec::new();
        for (i, tool) in allowed.into_iter().enumerate() {
            let tool = Fields::from(tool);
            match tool.peek("type") {
                Some("function" | "custom") => tools.push(self.named(tool)),
                kind => self.left_out.push(format!("tool_choice.tools[{i}]:{}", kind.unwrap_or_default())),
            }
        }
        let mode = choice.text("mode").unwrap_or_default();
        if tools.is_empty() {
            return match mode.as_str() {
                "required" => {
                    let message =
                        "`tool_choice` allows only tools of types that this server does not support";
                    Err(ApiError::conflict("tool_choice", message))
                }
                _ => Ok("none".into()),
            };
        }
        Ok(json!({ "type": "allowed_tools", "allowed_tools": { "mode": mode, "tools": tools } }))
    }

    /// Converts the choice of one tool.
    fn named(&self, mut tool: Fields) -> Value {
        let name = tool.text("name").unwrap_or_default();
        json!({ "type": "function", "function": { "name": chosen_name(&self.names, &name) } })
    }
}
