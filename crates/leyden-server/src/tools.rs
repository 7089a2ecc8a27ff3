//! The request fields `tools`, `tool_choice` and `parallel_tool_calls`.

use crate::app::App;
use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::grammars::{Rule, Shape};
use crate::legacy_functions;
use crate::limits::Limits;
use crate::request::{Binding, Form};
use crate::schema::WORD;
use crate::served::Served;
use crate::tool_kinds::{self, ToolNames};
use leyden_constrain::{CallCheck, JsonForm, ToolRules};
use leyden_text::output::{BareCalls, CallSyntax, CallWatch};
use serde_json::{Value, json};
use std::sync::Arc;

/// Calls that an answer may or must have.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// Any number of calls: the model decides.
    Auto,
    /// At least one call, of any tool.
    Required,
    /// A call of this tool.
    Named(String),
}

/// The tools of a request that may be called.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    /// Tools as the client sent them, for the template; tools of free text as functions.
    pub(crate) list: Value,
    /// Tools that may be called.
    allowed: Value,
    choice: Choice,
    /// `parallel_tool_calls` of the request, if present.
    parallel: Option<bool>,
    /// JSON formatting of arguments.
    form: JsonForm,
    /// The tools that are no plain functions.
    pub(crate) names: Arc<ToolNames>,
}

/// Takes `tools`, `tool_choice` and `parallel_tool_calls`. `None` if no tool may be called.
pub(crate) fn read(app: &App, call: &Call, body: &mut Fields) -> Result<Option<Tools>, ApiError> {
    let (list, kinds, left_out) = tool_kinds::functions(body.list("tools").unwrap_or_default());
    call.leave_out(app, &left_out)?;
    of_functions(list, kinds, body, &app.limits)
}

/// Takes `tool_choice` and `parallel_tool_calls` for these functions; `kinds` has the names of those that are no plain
/// functions.
pub(crate) fn of_functions(
    list: Vec<Value>,
    kinds: ToolNames,
    body: &mut Fields,
    limits: &Limits,
) -> Result<Option<Tools>, ApiError> {
    let choice = body.take("tool_choice");
    let parallel = body.flag("parallel_tool_calls");
    let name = |tool: &Value| tool["function"]["name"].as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = list.iter().map(name).collect();
    let list = Value::Array(list);
    let bytes = list.to_string().len();
    if bytes > limits.tools_bytes {
        let message = format!("`tools` has {bytes} bytes; the maximum is {}", limits.tools_bytes);
        return Err(ApiError::field("tools", message));
    }
    let (choice, only) = match choice.map(|value| tool_choice(value, &names)).transpose()? {
        Some(None) => return Ok(None),
        Some(Some(choice)) => choice,
        None => (Choice::Auto, None),
    };
    if names.is_empty() {
        return match choice {
            Choice::Auto => Ok(None),
            _ => Err(ApiError::conflict(
                "tool_choice",
                "`tool_choice` requires a call, but there are no `tools`",
            )),
        };
    }
    let allowed = match only {
        None => list.clone(),
        Some(only) => {
            let is_allowed = |tool: &&Value| only.iter().any(|name| tool["function"]["name"] == **name);
            list.as_array().into_iter().flatten().filter(is_allowed).cloned().collect()
        }
    };
    let form = JsonForm::default();
    Ok(Some(Tools { list, allowed, choice, parallel, form, names: Arc::new(kinds) }))
}

impl Tools {
    /// Sets the JSON formatting of arguments.
    pub(crate) fn in_form(self, form: JsonForm) -> Tools {
        Tools { form, ..self }
    }

    /// Returns true if the answer must consist of calls.
    pub(crate) fn requires_call(&self) -> bool {
        self.choice != Choice::Auto
    }

    /// Returns the rules for calls. A required call is a single one unless the request allows several, because a model
    /// that is forced to call does not stop calling. If the model decides, the number is free, as by OpenAI's default.
    fn rules(&self) -> ToolRules {
        let parallel = self.parallel.unwrap_or(self.choice == Choice::Auto);
        ToolRules { parallel, form: self.form, ..ToolRules::default() }
    }

    /// Returns the rules for an answer that lacks the markers of calls; `None` if a grammar produces the markers, or if
    /// the schemas are refused anyway.
    pub(crate) fn bare_calls(&self) -> Option<BareCalls> {
        let check = CallCheck::new(&self.allowed).ok().filter(|_| !self.requires_call())?;
        Some(BareCalls::new(move |name, arguments| check.fits(name, arguments), self.rules().parallel))
    }

    /// Returns the grammar of an answer to this prompt.
    pub(crate) fn form(&self, model: &Served, prompt: &str) -> Form {
        let syntax = model.format.calls();
        let only = match &self.choice {
            Choice::Auto => return self.opened(syntax, model, prompt),
            Choice::Required => None,
            Choice::Named(name) => Some(name.as_str()),
        };
        let rules = self.rules();
        let rules = ToolRules { parallel: rules.parallel && only.is_none(), ..rules };
        let source = format!("tools {only:?} {rules:?} {}", self.allowed);
        let binding = match syntax {
            Some(_) => Binding::Whole { gate: reasoning_end(model, prompt) },
            None => Binding::Harmony,
        };
        let (syntax, tools, only) =
            (syntax.cloned().map(Box::new), self.allowed.clone(), only.map(str::to_owned));
        Form { shape: Shape::new("tools", source, Rule::Tools { syntax, tools, only, rules }), binding }
    }

    /// Returns the grammar of an answer that either calls tools or has the shape `content`. A required call excludes
    /// `content`.
    pub(crate) fn form_or(&self, content: Shape, model: &Served, prompt: &str) -> Result<Form, ApiError> {
        if !content.is_json() {
            let message = "`grammar` and `tools` exclude each other; use `response_format` with `tools`";
            return Err(ApiError::conflict(content.param(), message));
        }
        if self.choice != Choice::Auto {
            return Ok(self.form(model, prompt));
        }
        let syntax = model.format.calls();
        let rules = self.rules();
        let source = format!("tools {rules:?} {} or {}", self.allowed, content.source());
        let binding = match syntax {
            Some(_) => Binding::Whole { gate: reasoning_end(model, prompt) },
            None => Binding::Harmony,
        };
        let rule = Rule::ToolsOr {
            syntax: syntax.cloned().map(Box::new),
            tools: self.allowed.clone(),
            rules,
            content: Box::new(content),
        };
        Ok(Form { shape: Shape::new("tools", source, rule), binding })
    }

    /// Returns the grammar of an answer in which the model may call tools: the text after the opening marker of a call
    /// follows their schemas.
    fn opened(&self, syntax: Option<&CallSyntax>, model: &Served, prompt: &str) -> Form {
        let rules = self.rules();
        let source = format!("opened tools {rules:?} {}", self.allowed);
        let rule = Rule::Opened { syntax: syntax.cloned().map(Box::new), tools: self.allowed.clone(), rules };
        let name = |tool: &Value| tool["function"]["name"].as_str().map(str::to_owned);
        let names: Vec<String> = self.allowed.as_array().into_iter().flatten().filter_map(name).collect();
        let watch = CallWatch::new(&model.format, prompt, &names);
        // Calls without an end marker run into the text after them, so only one can be parsed.
        let endless = syntax.is_none_or(|s| {
            let opens_anywhere = s.start.is_empty() && !s.section.0.is_empty();
            opens_anywhere && s.section.1.is_empty()
        });
        let binding = Binding::Calls { watch, once: endless || !rules.parallel };
        Form { shape: Shape::new("tools", source, rule), binding }
    }
}

/// Returns the end marker of the reasoning that the prompt has opened, if any.
pub(crate) fn reasoning_end(model: &Served, prompt: &str) -> Option<String> {
    let (_, end) = model.format.reasoning()?;
    model.format.begins_reasoning(prompt).then(|| end.to_owned())
}

/// A choice, and the names of the allowed tools if not all are; `None` for no calls.
type Chosen = Option<(Choice, Option<Vec<String>>)>;

fn tool_choice(value: Value, names: &[String]) -> Result<Chosen, ApiError> {
    let mut named = match value {
        Value::String(word) => {
            return Ok(match word.as_str() {
                "none" => None,
                "required" => Some((Choice::Required, None)),
                _ => Some((Choice::Auto, None)),
            });
        }
        other => Fields::from(other),
    };
    if named.text("type").as_deref() == Some("allowed_tools") {
        return allowed_tools(named, names).map(Some);
    }
    let name = named_function("tool_choice", named, names)?;
    Ok(Some((Choice::Named(name), None)))
}

/// Returns the name of a function or a tool of free text, which must be among the tools.
fn named_function(path: &str, mut named: Fields, names: &[String]) -> Result<String, ApiError> {
    let kind = if named.has("custom") { "custom" } else { "function" };
    let name = named.object(kind).and_then(|mut tool| tool.text("name")).unwrap_or_default();
    let path = format!("{path}.{kind}.name");
    if !names.contains(&name) {
        return Err(ApiError::conflict(&path, format!("`{path}` is not among the `tools`")));
    }
    Ok(name)
}

/// Reads a choice of allowed tools: the template renders all tools, so that a cached prompt stays valid, but only these
/// may be called.
fn allowed_tools(mut named: Fields, names: &[String]) -> Result<(Choice, Option<Vec<String>>), ApiError> {
    // The API's documentation nests the fields in an object; some clients have them next to the type.
    let (path, mut fields) = match named.object("allowed_tools") {
        Some(inner) => ("tool_choice.allowed_tools", inner),
        None => ("tool_choice", named),
    };
    let missing = |name: &str| ApiError {
        code: "missing_required_parameter",
        ..ApiError::field(format!("{path}.{name}"), format!("`{path}.{name}` is missing"))
    };
    let mode = fields.text("mode").ok_or_else(|| missing("mode"))?;
    let choice = if mode == "required" { Choice::Required } else { Choice::Auto };
    let list = fields.list("tools").ok_or_else(|| missing("tools"))?;
    let read = |(i, tool)| named_function(&format!("{path}.tools[{i}]"), Fields::from(tool), names);
    let only = list.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok((choice, Some(only)))
}

/// Returns the fields in the OpenAPI document.
pub(crate) fn schema(limits: &Limits) -> Value {
    let name = json!({ "type": "string", "maxLength": 64, "pattern": WORD });
    let function = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name"],
        "properties": {
            "name": name, "description": { "type": "string", "maxLength": limits.schema_bytes },
            "strict": { "type": "boolean" },
            "parameters": { "type": "object", "description": "A JSON schema" }
        }
    });
    let tool = json!({
        "type": "object", "additionalProperties": false, "required": ["type", "function"],
        "properties": { "type": { "const": "function" }, "function": function }
    });
    let custom = json!({
        "type": "object", "additionalProperties": false, "required": ["type", "custom"],
        "properties": { "type": { "const": "custom" }, "custom": {
            "type": "object", "additionalProperties": false, "required": ["name"],
            "properties": {
                "name": name, "description": { "type": "string", "maxLength": limits.schema_bytes },
                "format": tool_kinds::format_schema(limits.schema_bytes, true)
            }
        } }
    });
    let kinds = ["function", "custom"];
    let tool = json!({ "anyOf": [tool, custom, tool_kinds::other_than(&kinds)] });
    let [named, named_custom] = kinds.map(|kind| {
        json!({
            "type": "object", "additionalProperties": false, "required": ["type", kind],
            "properties": { "type": { "const": kind }, kind: {
                "type": "object", "additionalProperties": false, "required": ["name"], "properties": { "name": name }
            } }
        })
    });
    let some = json!({
        "mode": { "enum": ["auto", "required"] },
        "tools": { "type": "array", "minItems": 1, "maxItems": limits.tools,
            "items": { "anyOf": [named, named_custom] } }
    });
    let mut allowed = json!({
        "type": { "const": "allowed_tools" },
        "allowed_tools": {
            "type": "object", "additionalProperties": false, "required": ["mode", "tools"], "properties": some
        }
    });
    // Some clients have them next to the type.
    if let (Value::Object(all), Value::Object(some)) = (&mut allowed, some) {
        all.extend(some);
    }
    let allowed = json!({
        "type": "object", "additionalProperties": false, "required": ["type"], "properties": allowed,
        "allOf": [{ "anyOf": [
            { "required": ["allowed_tools"], "properties": { "allowed_tools": { "type": "object" } } },
            { "required": ["mode", "tools"],
              "properties": { "mode": { "type": "string" }, "tools": { "type": "array" } } }
        ] }]
    });
    let mut all = json!({
        "tools": { "type": "array", "maxItems": limits.tools, "items": tool },
        "tool_choice": { "anyOf": [{ "enum": ["none", "auto", "required"] }, named, named_custom, allowed] },
        "parallel_tool_calls": {
            "type": "boolean",
            "description": "Whether there may be several calls; by default only with `tool_choice` `auto`"
        }
    });
    if let (Value::Object(all), Value::Object(more)) =
        (&mut all, legacy_functions::schema(limits.tools, &function, &name))
    {
        all.extend(more);
    }
    all
}
