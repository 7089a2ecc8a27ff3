//! Fields of a request about the rendering of its messages.

use crate::error::ApiError;
use crate::fields::Fields;
use crate::limits::Limits;
use serde_json::{Map, Value, json};

/// Inputs of a chat template beside the messages.
#[derive(Debug)]
pub(crate) struct Rendering {
    /// Descriptions of tools, as the client sent them.
    pub(crate) tools: Option<Value>,
    /// Further template variables.
    pub(crate) variables: Map<String, Value>,
    /// True if the prompt ends with the beginning of an answer.
    pub(crate) add_generation_prompt: bool,
    /// True if the answer continues the last message.
    pub(crate) continue_final_message: bool,
}

/// Names that templates define or call, and names that have a field of their own; clients cannot set these variables.
const RESERVED: &[&str] = &[
    "messages",
    "tools",
    "documents",
    "add_generation_prompt",
    "continue_final_message",
    "bos_token",
    "eos_token",
    "chat_template",
    "tokenize",
    "loop",
    "range",
    "dict",
    "namespace",
    "raise_exception",
    "strftime_now",
];

/// Maximum number of template variables.
const MAX_VARIABLES: usize = 64;

/// Takes the fields about rendering, without tools.
pub(crate) fn read(body: &mut Fields, limits: &Limits) -> Result<Rendering, ApiError> {
    let mut variables = Map::new();
    let nested = body.object("reasoning").and_then(|mut reasoning| reasoning.text("effort"));
    if let Some(effort) = body.text("reasoning_effort").or(nested) {
        thinks(&mut variables, (effort != "none").into());
        variables.insert("reasoning_effort".to_owned(), effort.into());
    }
    // Ollama's field for reasoning: a flag or an effort.
    match body.take("think") {
        Some(Value::String(effort)) => {
            thinks(&mut variables, true.into());
            variables.insert("reasoning_effort".to_owned(), effort.into());
        }
        Some(flag) => thinks(&mut variables, flag),
        None => {}
    }
    if let Some(documents) = body.take("documents") {
        variables.insert("documents".to_owned(), documents);
    }
    if let Some(value) = body.take("chat_template_kwargs") {
        variables.extend(kwargs(value, limits)?);
    }
    let continue_final_message = body.flag("continue_final_message").unwrap_or(false);
    let add_generation_prompt = body.flag("add_generation_prompt");
    if continue_final_message && add_generation_prompt == Some(true) {
        let message = "`continue_final_message` and `add_generation_prompt` cannot both be true";
        return Err(ApiError::conflict("continue_final_message", message));
    }
    let add_generation_prompt = add_generation_prompt.unwrap_or(!continue_final_message);
    Ok(Rendering { tools: None, variables, add_generation_prompt, continue_final_message })
}

/// Sets the variables that turn reasoning on or off in templates: `enable_thinking` of Qwen and others, `thinking` of
/// DeepSeek and Granite.
fn thinks(variables: &mut Map<String, Value>, flag: Value) {
    variables.insert("thinking".to_owned(), flag.clone());
    variables.insert("enable_thinking".to_owned(), flag);
}

fn kwargs(value: Value, limits: &Limits) -> Result<Map<String, Value>, ApiError> {
    const FIELD: &str = "chat_template_kwargs";
    let bytes = value.to_string().len();
    if bytes > limits.schema_bytes {
        let message = format!("`{FIELD}` has {bytes} bytes; the maximum is {}", limits.schema_bytes);
        return Err(ApiError::field(FIELD, message));
    }
    Ok(Fields::from(value).rest())
}

/// Returns the fields in the OpenAPI document.
pub(crate) fn schema(limits: &Limits) -> Value {
    let effort = json!({ "type": "string", "maxLength": limits.name_chars });
    // A text such as "false" would be truthy in a template.
    let flags = json!({
        "enable_thinking": { "type": "boolean" }, "thinking": { "type": "boolean" }, "reasoning_effort": effort
    });
    json!({
        "reasoning_effort": effort,
        "reasoning": {
            "type": "object", "additionalProperties": false, "properties": { "effort": effort },
            "description": "OpenAI's object for `effort`; `reasoning_effort` has precedence"
        },
        "think": {
            "anyOf": [{ "type": "boolean" }, { "enum": ["low", "medium", "high"] }],
            "description": "Ollama's field for reasoning: sets `enable_thinking` and `reasoning_effort` of the chat template"
        },
        "chat_template_kwargs": {
            "type": "object", "properties": flags, "maxProperties": MAX_VARIABLES,
            "propertyNames": { "not": { "enum": RESERVED } },
            "description": format!("Variables of the chat template; at most {} bytes of JSON", limits.schema_bytes)
        },
        "documents": { "type": "array", "maxItems": limits.content_parts, "items": { "type": "object" } },
        "add_generation_prompt": {
            "type": "boolean",
            "description": "Whether the prompt ends with the header of an assistant's message; by default true unless `continue_final_message` is"
        },
        "continue_final_message": {
            "type": "boolean", "default": false,
            "description": "Whether the answer continues the last message; cannot be combined with `add_generation_prompt`"
        }
    })
}
