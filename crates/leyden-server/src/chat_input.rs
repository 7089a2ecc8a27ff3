//! Texts of a request for embeddings, labels or states: `input`, or vLLM's `messages`. The latter are one conversation
//! or a list of conversations, each of which becomes one text.

use crate::app::App;
use crate::call::Call;
use crate::encoding::{self, Input, Inputs};
use crate::error::ApiError;
use crate::fields::Fields;
use crate::messages;
use crate::operation::several_schema;
use crate::prompt;
use crate::rendering;
use crate::schema::with;
use crate::served::Served;
use crate::truncation;
use leyden_tasks::Truncation;
use serde_json::{Value, json};

/// Names of the rendering fields that vLLM has at these endpoints.
const RENDERING: &[&str] = &["chat_template_kwargs", "add_generation_prompt", "continue_final_message"];

/// Takes `input`, or `messages` with the fields for their rendering.
///
/// A conversation is rendered with the model's chat template; without a template its text is the contents of the
/// messages, one per line.
///
/// # Errors
/// 400: neither or both are present, or the template fails to render the messages.
pub(crate) fn read(
    app: &App,
    call: &Call,
    model: &Served,
    body: &mut Fields,
    long: Truncation,
) -> Result<Inputs, ApiError> {
    match (body.has("input"), body.has("messages")) {
        (true, false) => return Ok(encoding::input(body, "input")),
        (false, true) => {}
        (false, false) => {
            let error = ApiError::field("input", "one of `input` and `messages` is required");
            return Err(ApiError { code: "missing_required_parameter", ..error });
        }
        (true, true) => {
            return Err(ApiError::conflict("messages", "`input` and `messages` exclude each other"));
        }
    }
    let given = body.list("messages").unwrap_or_default();
    let many = given.first().is_some_and(Value::is_array);
    let conversations: Vec<(String, Vec<Value>)> = match many {
        true => {
            given.into_iter().enumerate().map(|(i, one)| (format!("messages[{i}]"), listed(one))).collect()
        }
        false => vec![("messages".to_owned(), given)],
    };
    if !body.has("add_generation_prompt") {
        body.put("add_generation_prompt", false);
    }
    let rendering = rendering::read(body, &app.limits)?;
    let limits = truncation::encoding_limits(long, model, call);
    let text = |(path, given): (String, Vec<Value>)| -> Result<(String, Input), ApiError> {
        let messages = messages::read(given).map_err(|error| placed(error, &path))?;
        if model.template.is_none() {
            let contents: Vec<&str> = messages.iter().map(|message| message.content.as_str()).collect();
            return Ok((path, contents.join("\n").into()));
        }
        let conversed = prompt::of_messages(model, limits, &messages, &rendering);
        let tokens = conversed.map_err(|error| placed(error, &path))?.tokens;
        Ok((path, Input::Tokens(tokens)))
    };
    conversations.into_iter().map(text).collect()
}

fn listed(value: Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

/// Adds the index of a conversation in a list to an error about it.
fn placed(mut error: ApiError, path: &str) -> ApiError {
    let rename = |text: &str| text.replacen("messages", path, 1);
    error.param = error.param.as_deref().map(rename);
    error.message = rename(&error.message);
    error
}

/// Adds the schemas of these fields to those of a body, and requires one of `input` and `messages`.
pub(crate) fn schema(app: &App, mut body: Value) -> Value {
    let mut fields = rendering::schema(&app.limits);
    if let Value::Object(fields) = &mut fields {
        fields.retain(|name, _| RENDERING.contains(&name.as_str()));
    }
    fields["add_generation_prompt"] = json!({
        "type": "boolean", "default": false, "description": "Whether the text of `messages` ends with the header of an assistant's message"
    });
    let (one, most) = (messages::schema(&app.limits), app.limits.embedding_inputs);
    let many = json!({ "type": "array", "minItems": 1, "maxItems": most, "items": one });
    let more = json!({ "input": several_schema(app, most), "messages": { "anyOf": [one, many] } });
    body["properties"] = with(body["properties"].take(), with(more, fields));
    let has =
        |name: &str, kinds: Value| json!({ "required": [name], "properties": { name: { "type": kinds } } });
    body["oneOf"] = json!([has("input", json!(["string", "array"])), has("messages", json!("array"))]);
    body
}
