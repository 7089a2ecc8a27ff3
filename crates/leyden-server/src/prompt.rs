//! From what a client sent to the tokens of a prompt.

use crate::app::{App, Call, Served};
use crate::error::ApiError;
use crate::fields::{self, Fields, wrong};
use crate::limits::Limits;
use leyden_text::{ErrorKind, Message, RenderOptions, encode_prompt, encode_whole};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Runs something that computes for a while where it does not hold up other connections.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(ApiError::internal("the request could not be prepared")))
}

/// Reads a request [aside](self::aside); it comes back with what was read.
pub(crate) async fn prepare<T: Send + 'static>(
    app: &Arc<App>,
    call: Call,
    read: fn(&App, &Call) -> Result<T, ApiError>,
) -> Result<(Call, T), ApiError> {
    let app = Arc::clone(app);
    aside(move || {
        let ready = read(&app, &call)?;
        Ok((call, ready))
    })
    .await
}

/// What a chat template is given beside the messages.
#[derive(Debug, Default)]
pub(crate) struct Chat {
    /// Descriptions of tools.
    pub(crate) tools: Option<Value>,
    /// Further variables.
    pub(crate) variables: Map<String, Value>,
}

/// The roles that a message may have, and what templates call them.
const ROLES: &[(&str, &str)] = &[
    ("system", "system"),
    // Templates know the older name.
    ("developer", "system"),
    ("user", "user"),
    ("assistant", "assistant"),
    ("tool", "tool"),
];

/// The messages of a conversation.
pub(crate) fn messages(values: Vec<Value>, limits: &Limits) -> Result<Vec<Message>, ApiError> {
    let read = |(i, value)| message(&format!("messages[{i}]"), value, limits);
    values.into_iter().enumerate().map(read).collect()
}

fn message(path: &str, value: Value, limits: &Limits) -> Result<Message, ApiError> {
    let mut fields = Fields::at(path, value)?;
    let role = fields.required("role")?;
    let role = fields::text(&fields.path("role"), role, limits.name_chars)?;
    let Some((_, role)) = ROLES.iter().find(|(name, _)| *name == role) else {
        let known: Vec<&str> = ROLES.iter().map(|r| r.0).collect();
        let message = format!("`{path}.role` is not one of {}", known.join(", "));
        return Err(ApiError::field(fields.path("role"), message));
    };
    let mut extra = Map::new();
    if let Some(name) = fields.text("name", limits.name_chars)? {
        extra.insert("name".to_owned(), name.into());
    }
    let calls = fields.list("tool_calls", 1, limits.tools)?;
    let has_calls = calls.is_some();
    if let Some(calls) = calls {
        if *role != "assistant" {
            return Err(ApiError::field(
                fields.path("tool_calls"),
                "only an assistant's message has tool calls",
            ));
        }
        let base = fields.path("tool_calls");
        let read = |(i, call)| tool_call(&format!("{base}[{i}]"), call, limits);
        let calls: Vec<Value> = calls.into_iter().enumerate().map(read).collect::<Result<_, _>>()?;
        extra.insert("tool_calls".to_owned(), calls.into());
    }
    if *role == "tool" {
        let id = fields.required("tool_call_id")?;
        let id = fields::text(&fields.path("tool_call_id"), id, limits.name_chars)?;
        extra.insert("tool_call_id".to_owned(), id.into());
    }
    if let Some(text) = fields.text("reasoning_content", limits.body_bytes)? {
        extra.insert("reasoning_content".to_owned(), text.into());
    }
    let content = match fields.take("content") {
        None if *role == "assistant" && has_calls => String::new(),
        None => return Err(fields.required("content").err().unwrap_or_else(|| ApiError::body("no content"))),
        Some(value) => content(&fields.path("content"), value, limits)?,
    };
    // Clients send back assistants' messages as they got them.
    fields.harmless(&["annotations"]);
    fields.finish()?;
    Ok(Message { role: (*role).to_owned(), content, extra })
}

/// A text, or a list of parts that are texts.
fn content(path: &str, value: Value, limits: &Limits) -> Result<String, ApiError> {
    let parts = match value {
        Value::String(text) => return Ok(text),
        Value::Array(parts) => parts,
        other => return Err(wrong(path, "a text or a list of parts", &other)),
    };
    if parts.len() > limits.content_parts {
        let message = format!("`{path}` has {} parts; {} are the most", parts.len(), limits.content_parts);
        return Err(ApiError::field(path, message));
    }
    let mut text = String::new();
    for (i, part) in parts.into_iter().enumerate() {
        let mut fields = Fields::at(&format!("{path}[{i}]"), part)?;
        let kind = fields.required("type")?;
        if kind != "text" {
            let at = fields.path("type");
            return Err(ApiError::unsupported(
                &at,
                format!("`{at}`: only parts of type `text` are supported"),
            ));
        }
        let piece = fields.required("text")?;
        text += &fields::text(&fields.path("text"), piece, limits.body_bytes)?;
        fields.finish()?;
    }
    Ok(text)
}

/// A call as templates read it: its arguments as an object, not as a text with one.
fn tool_call(path: &str, value: Value, limits: &Limits) -> Result<Value, ApiError> {
    let mut fields = Fields::at(path, value)?;
    let id = fields.text("id", limits.name_chars)?;
    if let Some(kind) = fields.take("type")
        && kind != "function"
    {
        return Err(ApiError::unsupported(
            fields.path("type"),
            "only calls of type `function` are supported",
        ));
    }
    fields.harmless(&["index"]);
    let function = fields.required("function")?;
    let mut function = Fields::at(&fields.path("function"), function)?;
    let name = function.required("name")?;
    let name = fields::text(&function.path("name"), name, limits.name_chars)?;
    let arguments = match function.take("arguments") {
        None => Value::Object(Map::new()),
        Some(Value::String(text)) => {
            let at = function.path("arguments");
            let parsed = crate::json::parse(text.as_bytes(), limits.json_depth, limits.json_values);
            parsed.map_err(|_| ApiError::field(&at, format!("`{at}` is not JSON")))?
        }
        Some(value @ Value::Object(_)) => value,
        Some(other) => return Err(wrong(&function.path("arguments"), "a text with JSON", &other)),
    };
    function.finish()?;
    fields.finish()?;
    let mut call =
        serde_json::json!({ "type": "function", "function": { "name": name, "arguments": arguments } });
    if let Some(id) = id {
        call["id"] = id.into();
    }
    Ok(call)
}

/// The text of a conversation whose next message is the assistant's, and its tokens.
pub(crate) fn of_messages(
    model: &Served,
    messages: &[Message],
    chat: &Chat,
) -> Result<(String, Vec<u32>), ApiError> {
    let text = match &model.template {
        Some(template) => {
            let options = RenderOptions {
                add_generation_prompt: true,
                tools: chat.tools.clone(),
                extra: chat.variables.clone(),
                ..RenderOptions::default()
            };
            template.render(messages, &options).map_err(|e| match e.kind() {
                // What a template says to its user is about the messages.
                ErrorKind::TemplateRaised(what) => {
                    ApiError::field("messages", format!("the chat template refuses: {what}"))
                }
                ErrorKind::Thread(_) => ApiError::internal("the request could not be prepared"),
                _ => ApiError::field("messages", "the model's chat template cannot write these messages"),
            })?
        }
        None => leyden_text::join_messages(messages),
    };
    let tokens = of_text(model, "messages", &text)?;
    Ok((text, tokens))
}

/// The tokens of a text, with the token that the model expects at the beginning.
pub(crate) fn of_text(model: &Served, param: &str, text: &str) -> Result<Vec<u32>, ApiError> {
    encode_prompt(model.tokenizer.as_ref(), text)
        .map_err(|_| ApiError::field(param, format!("`{param}` cannot be written in the model's vocabulary")))
}

/// The tokens of a text that nothing follows, with those that the model expects at the beginning and at the end.
pub(crate) fn of_whole_text(model: &Served, param: &str, text: &str) -> Result<Vec<u32>, ApiError> {
    encode_whole(model.tokenizer.as_ref(), text)
        .map_err(|_| ApiError::field(param, format!("`{param}` cannot be written in the model's vocabulary")))
}

/// How the tokens of a text are found: [`of_text`] or [`of_whole_text`].
type Encode = fn(&Served, &str, &str) -> Result<Vec<u32>, ApiError>;

/// One text or more, each as text or as tokens, with the place of each in the request: a text, a list of token ids, or
/// a list of up to `most` of either.
pub(crate) fn several(
    model: &Served,
    name: &str,
    value: Value,
    most: usize,
    encode: Encode,
) -> Result<Vec<(String, Vec<u32>)>, ApiError> {
    match value {
        Value::String(text) => Ok(vec![(name.to_owned(), encode(model, name, &text)?)]),
        value @ Value::Array(_) if value[0].is_number() => {
            Ok(vec![(name.to_owned(), tokens(model, name, &value)?)])
        }
        Value::Array(items) if (1..=most).contains(&items.len()) => {
            let read = |(i, item): (usize, Value)| {
                let path = format!("{name}[{i}]");
                let tokens = match item {
                    Value::String(text) => encode(model, &path, &text)?,
                    Value::Array(_) => tokens(model, &path, &item)?,
                    other => return Err(wrong(&path, "a text or a list of token ids", &other)),
                };
                Ok((path, tokens))
            };
            items.into_iter().enumerate().map(read).collect()
        }
        Value::Array(items) => {
            let message = format!("`{name}` has {} items, not 1 to {most}", items.len());
            Err(ApiError::field(name, message))
        }
        other => Err(wrong(name, "a text, a list of texts, or token ids", &other)),
    }
}

/// A list of token ids.
pub(crate) fn tokens(model: &Served, path: &str, value: &Value) -> Result<Vec<u32>, ApiError> {
    let Value::Array(ids) = value else { return Err(wrong(path, "a list of token ids", value)) };
    let most = model.tokenizer.vocab_size().min(model.vocabulary);
    let most = i64::try_from(most).unwrap_or(i64::MAX) - 1;
    let read = |(i, id): (usize, &Value)| fields::integer(&format!("{path}[{i}]"), id, 0..=most);
    let ids = ids.iter().enumerate().map(|it| read(it).map(|n| u32::try_from(n).unwrap_or(u32::MAX)));
    ids.collect()
}

/// Whether a prompt fits, and how many tokens can follow it.
pub(crate) fn room(model: &Served, param: &str, tokens: usize) -> Result<usize, ApiError> {
    if tokens == 0 {
        return Err(ApiError::field(param, "the prompt is empty, and the model has no token to begin with"));
    }
    let most = model.context.min(model.kv_tokens);
    if tokens > most {
        return Err(ApiError::context_length(param, tokens, most));
    }
    // The last token of an answer is never stored.
    Ok(most - tokens + 1)
}
