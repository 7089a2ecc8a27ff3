//! Conversion of a request's texts and messages to the tokens of a prompt.

use crate::app::App;
use crate::call::Call;
use crate::error::ApiError;
use crate::fields;
use crate::rendering::Rendering;
use crate::served::Served;
use leyden_tasks::{TextInput, check_tokens, encode_within};
use leyden_text::{
    Bounds, ChatTemplate, ErrorKind, Message, RenderOptions, Rendered, Tokenizer, described,
    encode_prompt_within, encode_rendered_within, encode_whole_within, generic_tools,
};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs a computation on a thread where it does not block other connections.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(ApiError::internal("the request could not be prepared")))
}

/// Maximum size of a body that is prepared without queueing behind longer ones: it takes some milliseconds, whatever
/// its content.
const SHORT_BYTES: usize = 64 << 10;

/// Signals the thread that prepares a request to stop when the request is dropped.
struct GivesUp(Arc<AtomicBool>);

impl Drop for GivesUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads a request on [another thread](self::run_blocking) when its key has a permit, and returns the call with the
/// result. Dropping the future, as on disconnection, stops the work.
pub(crate) async fn prepare<T: Send + 'static>(
    app: &Arc<App>,
    call: Call,
    read: fn(&App, &Call) -> Result<T, ApiError>,
) -> Result<(Call, T), ApiError> {
    let semaphore = if call.body_bytes() > SHORT_BYTES { &app.long_requests } else { &app.short_requests };
    let permit = semaphore.acquire(call.caller.fairness(), call.deadline(app).into()).await?;
    let app = Arc::clone(app);
    let _gives_up = GivesUp(call.given_up());
    run_blocking(move || {
        // The permit lasts until the thread is free, even if the client has disconnected.
        let _permit = permit;
        let ready = read(&app, &call)?;
        Ok((call, ready))
    })
    .await
}

/// Limits for encoding a text.
#[derive(Clone, Copy)]
pub(crate) struct EncodingLimits<'a> {
    /// Maximum number of tokens, if the text must fit the model's context.
    most: Option<usize>,
    call: &'a Call,
}

impl EncodingLimits<'_> {
    /// Returns the limit of the model's context and KV cache.
    pub(crate) fn of_model<'a>(model: &Served, call: &'a Call) -> EncodingLimits<'a> {
        EncodingLimits { most: Some(longest(model)), call }
    }

    /// Returns the limits for texts that need not fit the context: that of a request body alone.
    pub(crate) fn of_body(call: &Call) -> EncodingLimits<'_> {
        EncodingLimits { most: None, call }
    }

    /// Returns the tokens of a text. A text that cannot fit is refused before it is encoded.
    pub(crate) fn encode(
        &self,
        model: &Served,
        param: &str,
        text: &str,
        encode: impl FnOnce(&dyn Tokenizer, &str, &Bounds<'_>) -> Result<Vec<u32>, leyden_text::Error>,
    ) -> Result<Vec<u32>, ApiError> {
        let gone = || self.call.is_given_up();
        encode_within(model.tokenizer.as_ref(), text, self.most, &gone, encode)
            .map_err(|kind| ApiError::of_task(kind, param))
    }
}

/// A conversation as rendered by the chat template.
pub(crate) struct RenderedPrompt {
    pub(crate) text: String,
    pub(crate) tokens: Vec<u32>,
    /// Opening marker of the reasoning, if the answer continues a message in the middle of its reasoning.
    opened: Option<String>,
}

impl RenderedPrompt {
    /// Returns the end of the text that determines the form of the answer.
    pub(crate) fn end(&self) -> &str {
        self.opened.as_deref().unwrap_or(&self.text)
    }
}

/// Renders a conversation with the chat template.
pub(crate) fn of_messages(
    model: &Served,
    limits: EncodingLimits<'_>,
    messages: &[Message],
    rendering: &Rendering,
) -> Result<RenderedPrompt, ApiError> {
    let tools = rendering.tools.as_ref();
    let written = model.generic_tools.then(|| generic_tools::written(messages, tools, model.shows_calls));
    let (messages, tools) = match &written {
        Some(written) => (written.as_slice(), None),
        None => (messages, tools),
    };
    let mut prompt = match &model.template {
        Some(template) => render(template, messages, tools, rendering).or_else(|error| {
            // Some templates require alternating roles, or have no system role.
            let merged = alternating(messages);
            if let Some(merged) = &merged
                && let Ok(rendered) = render(template, merged, tools, rendering)
            {
                return Ok(rendered);
            }
            let written = written.as_deref().map(|written| merged.as_deref().unwrap_or(written));
            let merged = written.and_then(generic_tools::without_system).ok_or(error)?;
            render(template, &merged, None, rendering)
        })?,
        None => leyden_text::join_messages(messages),
    };
    if model.special_in_content {
        prompt = prompt.with_special_in_content();
    }
    let tokens = limits.encode(model, "messages", prompt.text(), |tokenizer, _, bounds| {
        encode_rendered_within(tokenizer, &prompt, bounds)
    })?;
    // The end of the prompt shows if the answer begins within the reasoning, except if the answer continues a message.
    let opened = match (messages.last(), model.format.reasoning()) {
        (Some(last), Some((open, close))) if rendering.continue_final_message => {
            let at = last.content.rfind(open);
            at.filter(|at| !last.content[*at..].contains(close)).map(|_| open.to_owned())
        }
        _ => None,
    };
    Ok(RenderedPrompt { text: prompt.into_text(), tokens, opened })
}

/// Returns the messages with consecutive ones of the same role joined, and with system messages after the first turn as
/// user messages. `None` if nothing changes.
fn alternating(messages: &[Message]) -> Option<Vec<Message>> {
    let mut all: Vec<Message> = Vec::with_capacity(messages.len());
    let mut renamed = false;
    for message in messages {
        let mut message = message.clone();
        if message.role == "system" && all.iter().any(|earlier| earlier.role != "system") {
            "user".clone_into(&mut message.role);
            renamed = true;
        }
        let joins = |last: &&mut Message| {
            last.role == message.role
                && message.role != "tool"
                && last.extra.is_empty()
                && message.extra.is_empty()
        };
        match all.last_mut().filter(joins) {
            Some(last) => last.content = format!("{}\n\n{}", last.content, message.content),
            None => all.push(message),
        }
    }
    (renamed || all.len() < messages.len()).then_some(all)
}

/// Renames reasoning to GPT-OSS's name for it. Its template rejects a message with a call, reasoning and content,
/// though the model writes such messages; then the reasoning is kept, as in llama.cpp.
fn with_thinking(messages: &[Message]) -> Vec<Message> {
    let renamed = |message: &Message| {
        let mut message = message.clone();
        if let Some(reasoning) = message.extra.get("reasoning_content").cloned() {
            message.extra.insert("thinking".to_owned(), reasoning);
            if message.extra.contains_key("tool_calls") {
                message.content.clear();
            }
        }
        message
    };
    messages.iter().map(renamed).collect()
}

fn render(
    template: &ChatTemplate,
    messages: &[Message],
    tools: Option<&Value>,
    rendering: &Rendering,
) -> Result<Rendered, ApiError> {
    let mut options = RenderOptions {
        add_generation_prompt: rendering.add_generation_prompt,
        continue_final_message: rendering.continue_final_message,
        tools: tools.map(described),
        extra: rendering.variables.clone(),
        read_arguments: true,
        ..RenderOptions::default()
    };
    let thinking = template.mentions("message.thinking");
    let messages = if thinking { &with_thinking(messages) } else { messages };
    let first = template.render(messages, &options);
    let failed = matches!(&first, Err(e) if matches!(e.kind(), ErrorKind::TemplateRender { .. }));
    if failed && messages.iter().any(|message| message.extra.contains_key("tool_calls")) {
        // Some templates require arguments as JSON text, as in the API.
        options.read_arguments = false;
        if let Ok(rendered) = template.render(messages, &options) {
            return Ok(rendered);
        }
    }
    first.map_err(|e| match e.kind() {
        // An error that the template raises is about the messages.
        ErrorKind::TemplateRaised(what) => {
            ApiError::field("messages", format!("the chat template refuses: {what}"))
        }
        ErrorKind::NothingToContinue(_) => ApiError::conflict("continue_final_message", e.kind().to_string()),
        ErrorKind::Thread(_) => ApiError::internal("the request could not be prepared"),
        kind => {
            let message = format!("the model's chat template cannot render these messages: {kind}");
            ApiError::field("messages", message)
        }
    })
}

/// Returns the tokens of a text, with the model's token for the beginning.
pub(crate) fn of_text(
    model: &Served,
    limits: EncodingLimits<'_>,
    param: &str,
    text: &str,
) -> Result<Vec<u32>, ApiError> {
    limits.encode(model, param, text, encode_prompt_within)
}

/// Returns the tokens of a complete text, with the model's tokens for the beginning and the end.
pub(crate) fn of_whole_text(
    model: &Served,
    limits: EncodingLimits<'_>,
    param: &str,
    text: &str,
) -> Result<Vec<u32>, ApiError> {
    limits.encode(model, param, text, encode_whole_within)
}

/// Returns one or more texts, each with its path in the request. A value is a string, a list of token ids, or a list of
/// either.
pub(crate) fn items(
    model: &Served,
    name: &str,
    value: Value,
) -> Result<Vec<(String, TextInput<'static>)>, ApiError> {
    let item = |path: String, item: Value| {
        let text = match item {
            Value::String(text) => TextInput::from(text),
            other => TextInput::Tokens(tokens(model, &path, &other)?),
        };
        Ok((path, text))
    };
    match value {
        Value::Array(items) if items.first().is_some_and(|item| !item.is_number()) => {
            let items = items.into_iter().enumerate();
            items.map(|(i, value)| item(format!("{name}[{i}]"), value)).collect()
        }
        other => Ok(vec![item(name.to_owned(), other)?]),
    }
}

/// Returns the token ids of a list.
pub(crate) fn tokens(model: &Served, path: &str, value: &Value) -> Result<Vec<u32>, ApiError> {
    let most = model.tokenizer.vocab_size().min(model.vocabulary);
    let most = i64::try_from(most).unwrap_or(i64::MAX) - 1;
    let read = |(i, id): (usize, &Value)| fields::integer(&format!("{path}[{i}]"), id, 0..=most);
    let ids = value.as_array().into_iter().flatten().enumerate();
    ids.map(|it| read(it).map(|n| u32::try_from(n).unwrap_or(u32::MAX))).collect()
}

/// Returns the maximum number of tokens of a prompt.
pub(crate) fn longest(model: &Served) -> usize {
    model.context.min(model.kv_tokens)
}

/// Checks that a prompt fits. Returns the maximum number of tokens that can follow it.
pub(crate) fn room(model: &Served, param: &str, tokens: usize) -> Result<usize, ApiError> {
    let most = longest(model);
    check_tokens(tokens, most).map_err(|kind| ApiError::of_task(kind, param))?;
    // The last token of an answer is never stored in the KV cache.
    Ok(most - tokens + 1)
}
