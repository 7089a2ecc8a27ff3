//! Tools that a model may call: the fields that say so.

use crate::app::Served;
use crate::error::ApiError;
use crate::fields::{self, Fields, wrong};
use crate::grammars::{Rule, Shape};
use crate::limits::Limits;
use crate::older;
use crate::request::{Binding, Form};
use leyden_text::output::{CallSyntax, CallWatch};
use serde_json::{Value, json};

/// Which calls an answer may or must have.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Choice {
    /// The model decides.
    Auto,
    /// At least one, of any tool.
    Required,
    /// One of this tool.
    Named(String),
}

/// The tools of a request that may be called.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    /// As the client sent them, for the template.
    pub(crate) list: Value,
    /// Those of them that may be called.
    allowed: Value,
    choice: Choice,
    parallel: bool,
}

/// Takes `tools`, `tool_choice` and `parallel_tool_calls`. `None` if none may be called.
pub(crate) fn read(body: &mut Fields, model: &Served, limits: &Limits) -> Result<Option<Tools>, ApiError> {
    let list = body.list("tools", 0, limits.tools)?.unwrap_or_default();
    let choice = body.take("tool_choice");
    let parallel = body.flag("parallel_tool_calls")?.unwrap_or(true);
    let mut names = Vec::new();
    for (i, tool) in list.iter().enumerate() {
        names.push(check(&format!("tools[{i}]"), tool, limits)?);
    }
    let list = Value::Array(list);
    let bytes = list.to_string().len();
    if bytes > limits.tools_bytes {
        let message = format!("`tools` has {bytes} bytes; {} are the most", limits.tools_bytes);
        return Err(ApiError::field("tools", message));
    }
    let (choice, only) = match choice.map(|value| tool_choice(value, &names, limits)).transpose()? {
        Some(None) => return Ok(None),
        Some(Some(choice)) => choice,
        None => (Choice::Auto, None),
    };
    if names.is_empty() {
        return match choice {
            Choice::Auto => Ok(None),
            _ => Err(ApiError::conflict(
                "tool_choice",
                "`tool_choice` asks for a call, but there are no `tools`",
            )),
        };
    }
    if model.format.calls().is_none() && !model.format.is_harmony() {
        let message = "the model's chat template does not say how tools are called";
        return Err(ApiError::unsupported("tools", message));
    }
    let allowed = match only {
        None => list.clone(),
        Some(only) => {
            let is_allowed = |tool: &&Value| only.iter().any(|name| tool["function"]["name"] == **name);
            list.as_array().into_iter().flatten().filter(is_allowed).cloned().collect()
        }
    };
    Ok(Some(Tools { list, allowed, choice, parallel }))
}

impl Tools {
    /// Whether the answer is calls and nothing else.
    pub(crate) fn requires_call(&self) -> bool {
        self.choice != Choice::Auto
    }

    /// What an answer to this prompt looks like.
    pub(crate) fn form(&self, model: &Served, prompt: &str) -> Form {
        let syntax = model.format.calls();
        let only = match &self.choice {
            Choice::Auto => return self.opened(syntax, model, prompt),
            Choice::Required => None,
            Choice::Named(name) => Some(name.as_str()),
        };
        let parallel = self.parallel && only.is_none();
        let source = format!("tools {only:?} {parallel} {}", self.allowed);
        let binding = match syntax {
            Some(_) => Binding::Whole { gate: reasoning_end(model, prompt) },
            None => Binding::Harmony,
        };
        let (syntax, tools, only) =
            (syntax.cloned().map(Box::new), self.allowed.clone(), only.map(str::to_owned));
        Form { shape: Shape::new("tools", source, Rule::Tools { syntax, tools, only, parallel }), binding }
    }

    /// What an answer looks like that calls tools or else has this form. Where a call is asked for there is no choice.
    pub(crate) fn form_or(&self, content: Shape, model: &Served, prompt: &str) -> Result<Form, ApiError> {
        if !content.is_json() {
            let message = "`grammar` and `tools` exclude each other; `response_format` may stand beside them";
            return Err(ApiError::conflict(content.param(), message));
        }
        if self.choice != Choice::Auto {
            return Ok(self.form(model, prompt));
        }
        let syntax = model.format.calls();
        let source = format!("tools {} {} or {}", self.parallel, self.allowed, content.source());
        let binding = match syntax {
            Some(_) => Binding::Whole { gate: reasoning_end(model, prompt) },
            None => Binding::Harmony,
        };
        let rule = Rule::ToolsOr {
            syntax: syntax.cloned().map(Box::new),
            tools: self.allowed.clone(),
            parallel: self.parallel,
            content: Box::new(content),
        };
        Ok(Form { shape: Shape::new("tools", source, rule), binding })
    }

    /// An answer in which the model may call tools: what it writes behind the opening of a call follows their schemas.
    fn opened(&self, syntax: Option<&CallSyntax>, model: &Served, prompt: &str) -> Form {
        let source = format!("opened tools {} {}", self.parallel, self.allowed);
        let rule = Rule::Opened {
            syntax: syntax.cloned().map(Box::new),
            tools: self.allowed.clone(),
            parallel: self.parallel,
        };
        let name = |tool: &Value| tool["function"]["name"].as_str().map(str::to_owned);
        let names: Vec<String> = self.allowed.as_array().into_iter().flatten().filter_map(name).collect();
        let watch = CallWatch::new(&model.format, prompt, &names);
        // Calls without an end of their own run into what follows, and so only one can be told from it.
        let endless = syntax.is_none_or(|s| {
            let opens_anywhere = s.start.is_empty() && !s.section.0.is_empty();
            opens_anywhere && s.section.1.is_empty()
        });
        let binding = Binding::Calls { watch, once: endless || !self.parallel };
        Form { shape: Shape::new("tools", source, rule), binding }
    }
}

/// What ends the reasoning that the prompt has opened, if it has.
pub(crate) fn reasoning_end(model: &Served, prompt: &str) -> Option<String> {
    let (_, end) = model.format.reasoning()?;
    model.format.begins_reasoning(prompt).then(|| end.to_owned())
}

/// Checks a tool; its name.
fn check(path: &str, tool: &Value, limits: &Limits) -> Result<String, ApiError> {
    let mut fields = Fields::at(path, tool.clone())?;
    let kind = fields.required("type")?;
    if kind != "function" {
        return Err(ApiError::unsupported(
            fields.path("type"),
            "only tools of type `function` are supported",
        ));
    }
    let function = fields.required("function")?;
    let mut function = Fields::at(&fields.path("function"), function)?;
    let name = function.required("name")?;
    let at = function.path("name");
    let name = fields::text(&at, name, 64)?;
    let good = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || !name.chars().all(good) {
        return Err(ApiError::field(&at, format!("`{at}` is not made of letters, digits, `_`, `-` and `.`")));
    }
    function.text("description", limits.schema_bytes)?;
    // Where the model decides whether to call it, a schema that cannot be enforced is refused only if it is `strict`.
    function.flag("strict")?;
    if let Some(parameters) = function.take("parameters")
        && !parameters.is_object()
    {
        return Err(wrong(&function.path("parameters"), "an object", &parameters));
    }
    function.finish()?;
    fields.finish()?;
    Ok(name)
}

/// A choice, and the names of the tools that it leaves if it does not leave all; `None` for no calls.
type Chosen = Option<(Choice, Option<Vec<String>>)>;

fn tool_choice(value: Value, names: &[String], limits: &Limits) -> Result<Chosen, ApiError> {
    let mut named = match value {
        Value::String(word) => {
            return match word.as_str() {
                "none" => Ok(None),
                "auto" => Ok(Some((Choice::Auto, None))),
                "required" => Ok(Some((Choice::Required, None))),
                _ => {
                    let message =
                        "`tool_choice` is not one of none, auto, required or an object that names a function";
                    Err(ApiError::field("tool_choice", message))
                }
            };
        }
        other => Fields::at("tool_choice", other)?,
    };
    let kind = named.required("type")?;
    if kind == "allowed_tools" {
        return allowed_tools(named, names, limits).map(Some);
    }
    if kind != "function" {
        let path = "tool_choice.type";
        let message = format!("`{path}` other than `function` and `allowed_tools` is not supported");
        return Err(ApiError::unsupported(path, message));
    }
    let name = named_function(named, names, limits)?;
    Ok(Some((Choice::Named(name), None)))
}

/// The name in an object whose type has been read; it must be that of a tool.
fn named_function(mut named: Fields, names: &[String], limits: &Limits) -> Result<String, ApiError> {
    let function = named.required("function")?;
    let mut function = Fields::at(&named.path("function"), function)?;
    let name = function.required("name")?;
    let path = function.path("name");
    let name = fields::text(&path, name, limits.name_chars)?;
    function.finish()?;
    named.finish()?;
    if !names.contains(&name) {
        return Err(ApiError::conflict(&path, format!("`{path}` is not among the `tools`")));
    }
    Ok(name)
}

/// Some of the tools: the template shows all, and so a cached prompt stays the same, but only these may be called.
fn allowed_tools(
    mut named: Fields,
    names: &[String],
    limits: &Limits,
) -> Result<(Choice, Option<Vec<String>>), ApiError> {
    // The documentation has the fields in an object of their own, some clients beside the type.
    let mut fields = match named.take("allowed_tools") {
        Some(inner) => {
            named.finish()?;
            Fields::at("tool_choice.allowed_tools", inner)?
        }
        None => named,
    };
    let mode = fields.required("mode")?;
    let choice = match mode.as_str() {
        Some("auto") => Choice::Auto,
        Some("required") => Choice::Required,
        _ => {
            let path = fields.path("mode");
            return Err(ApiError::field(&path, format!("`{path}` is not one of auto, required")));
        }
    };
    let path = fields.path("tools");
    let list = fields.list("tools", 1, limits.tools)?;
    let list =
        list.ok_or_else(|| fields.required("tools").err().unwrap_or_else(|| ApiError::body("no tools")))?;
    fields.finish()?;
    let read = |(i, tool)| {
        let mut tool = Fields::at(&format!("{path}[{i}]"), tool)?;
        if tool.required("type")? != "function" {
            let at = tool.path("type");
            return Err(ApiError::unsupported(&at, format!("`{at}` other than `function` is not supported")));
        }
        named_function(tool, names, limits)
    };
    let only = list.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok((choice, Some(only)))
}

/// The fields in the OpenAPI document.
pub(crate) fn schema(limits: &Limits) -> Value {
    let name = json!({ "type": "string", "pattern": "^[a-zA-Z0-9_.-]{1,64}$" });
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
    let named = json!({
        "type": "object", "additionalProperties": false, "required": ["type", "function"],
        "properties": { "type": { "const": "function" }, "function": {
            "type": "object", "additionalProperties": false, "required": ["name"], "properties": { "name": name }
        } }
    });
    let allowed = json!({
        "type": "object", "additionalProperties": false, "required": ["type", "allowed_tools"],
        "properties": { "type": { "const": "allowed_tools" }, "allowed_tools": {
            "type": "object", "additionalProperties": false, "required": ["mode", "tools"], "properties": {
                "mode": { "enum": ["auto", "required"] },
                "tools": { "type": "array", "minItems": 1, "maxItems": limits.tools, "items": named }
            }
        } }
    });
    let mut all = json!({
        "tools": { "type": "array", "maxItems": limits.tools, "items": tool },
        "tool_choice": { "anyOf": [{ "enum": ["none", "auto", "required"] }, named, allowed] },
        "parallel_tool_calls": { "type": "boolean" }
    });
    if let (Value::Object(all), Value::Object(more)) =
        (&mut all, older::schema(limits.tools, &function, &name))
    {
        all.extend(more);
    }
    all
}
