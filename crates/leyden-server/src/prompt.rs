//! From what a client sent to the tokens of a prompt.

use crate::app::App;
use crate::call::Call;
use crate::error::ApiError;
use crate::fields;
use crate::generic_tools;
use crate::rendering::{Rendering, described};
use crate::served::Served;
use leyden_text::{
    Bounds, ChatTemplate, ErrorKind, Message, RenderOptions, Rendered, Tokenizer, encode_prompt_within,
    encode_rendered_within, encode_whole_within,
};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs something that computes for a while where it does not hold up other connections.
pub(crate) async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(ApiError::internal("the request could not be prepared")))
}

/// The longest body that is prepared without waiting for longer ones: some milliseconds, whatever it says.
const SHORT_BYTES: usize = 64 << 10;

/// Tells the thread that prepares a request when nobody waits for it any more.
struct GivesUp(Arc<AtomicBool>);

impl Drop for GivesUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads a request [aside](self::aside) when it is its key's turn; it comes back with what was read. Dropped, as when
/// the client goes, it ends the work.
pub(crate) async fn prepare<T: Send + 'static>(
    app: &Arc<App>,
    call: Call,
    read: fn(&App, &Call) -> Result<T, ApiError>,
) -> Result<(Call, T), ApiError> {
    let turns = if call.body_bytes() > SHORT_BYTES { &app.long } else { &app.short };
    let turn = turns.take(call.caller.fairness(), call.deadline(app).into()).await?;
    let app = Arc::clone(app);
    let _gives_up = GivesUp(call.given_up());
    aside(move || {
        // Whoever asked may have gone; the turn is over when the thread is free again.
        let _turn = turn;
        let ready = read(&app, &call)?;
        Ok((call, ready))
    })
    .await
}

/// How far a text may be followed that is written in tokens.
#[derive(Clone, Copy)]
pub(crate) struct Extent<'a> {
    /// The most tokens, where the model has to take them.
    most: Option<usize>,
    call: &'a Call,
}

impl Extent<'_> {
    /// As long as the model and its cache can take.
    pub(crate) fn of_model<'a>(model: &Served, call: &'a Call) -> Extent<'a> {
        Extent { most: Some(longest(model)), call }
    }

    /// As long as a body can be.
    pub(crate) fn of_body(call: &Call) -> Extent<'_> {
        Extent { most: None, call }
    }

    /// The tokens of a text. What certainly does not fit is refused before it is looked at.
    pub(crate) fn encode(
        &self,
        model: &Served,
        param: &str,
        text: &str,
        encode: impl FnOnce(&dyn Tokenizer, &str, &Bounds<'_>) -> Result<Vec<u32>, leyden_text::Error>,
    ) -> Result<Vec<u32>, ApiError> {
        let tokenizer = model.tokenizer.as_ref();
        let mut bounds = Bounds::NONE;
        if let Some(most) = self.most {
            let least = tokenizer.least_tokens(text);
            if least > most {
                return Err(ApiError::context_length_at_least(param, least, most));
            }
            bounds = Bounds::tokens(most);
        }
        let gone = || self.call.is_given_up();
        encode(tokenizer, text, &bounds.until(&gone)).map_err(|error| match error.kind() {
            ErrorKind::TooManyTokens(most) => {
                ApiError::context_length_at_least(param, most.saturating_add(1), *most)
            }
            // Nobody reads this.
            ErrorKind::Stopped => ApiError::internal("the request was given up"),
            kind @ (ErrorKind::TemplateRaised(_)
            | ErrorKind::TemplateRender { .. }
            | ErrorKind::TemplateLimit { .. }) => {
                let message = format!("the model's chat template cannot write `{param}`: {kind}");
                ApiError::field(param, message)
            }
            _ => unwritable(param),
        })
    }
}

/// A conversation as the model reads it.
pub(crate) struct Conversed {
    pub(crate) text: String,
    pub(crate) tokens: Vec<u32>,
    /// What begins the model's reasoning, if that is open in the middle of a message which the answer goes on with.
    opened: Option<String>,
}

impl Conversed {
    /// The text as far as the form of the answer depends on it.
    pub(crate) fn end(&self) -> &str {
        self.opened.as_deref().unwrap_or(&self.text)
    }
}

/// Renders a conversation.
pub(crate) fn of_messages(
    model: &Served,
    extent: Extent<'_>,
    messages: &[Message],
    rendering: &Rendering,
) -> Result<Conversed, ApiError> {
    let tools = rendering.tools.as_ref();
    let written = model.generic_tools.then(|| generic_tools::written(messages, tools, model.shows_calls));
    let (messages, tools) = match &written {
        Some(written) => (written.as_slice(), None),
        None => (messages, tools),
    };
    let mut prompt = match &model.template {
        Some(template) => render(template, messages, tools, rendering).or_else(|error| {
            // Templates may want turns to alternate, and may know no system.
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
    let tokens = extent.encode(model, "messages", prompt.text(), |tokenizer, _, bounds| {
        encode_rendered_within(tokenizer, &prompt, bounds)
    })?;
    // Whether the answer begins within the model's reasoning is seen at the end of the prompt, unless that is the middle
    // of a message.
    let opened = match (messages.last(), model.format.reasoning()) {
        (Some(last), Some((open, close))) if rendering.continue_final_message => {
            let at = last.content.rfind(open);
            at.filter(|at| !last.content[*at..].contains(close)).map(|_| open.to_owned())
        }
        _ => None,
    };
    Ok(Conversed { text: prompt.into_text(), tokens, opened })
}

/// The messages, with several of one role in a row joined, and with a system's message behind the first turn as a user's.
/// `None` if nothing changes.
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

/// The messages with reasoning under the name that GPT-OSS's template has for it. It refuses a message with a call that
/// has both reasoning and content, though the model writes such; the reasoning then counts, as in llama.cpp.
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
        // Some templates want arguments as the text that they are in the API.
        options.read_arguments = false;
        if let Ok(rendered) = template.render(messages, &options) {
            return Ok(rendered);
        }
    }
    first.map_err(|e| match e.kind() {
        // What a template says to its user is about the messages.
        ErrorKind::TemplateRaised(what) => {
            ApiError::field("messages", format!("the chat template refuses: {what}"))
        }
        ErrorKind::NothingToContinue(_) => ApiError::conflict("continue_final_message", e.kind().to_string()),
        ErrorKind::Thread(_) => ApiError::internal("the request could not be prepared"),
        kind => {
            let message = format!("the model's chat template cannot write these messages: {kind}");
            ApiError::field("messages", message)
        }
    })
}

/// The tokens of a text, with the token that the model expects at the beginning.
pub(crate) fn of_text(
    model: &Served,
    extent: Extent<'_>,
    param: &str,
    text: &str,
) -> Result<Vec<u32>, ApiError> {
    extent.encode(model, param, text, encode_prompt_within)
}

fn unwritable(param: &str) -> ApiError {
    ApiError::field(param, format!("`{param}` cannot be written in the model's vocabulary"))
}

/// The tokens of a text that nothing follows, with those that the model expects at the beginning and at the end.
pub(crate) fn of_whole_text(
    model: &Served,
    extent: Extent<'_>,
    param: &str,
    text: &str,
) -> Result<Vec<u32>, ApiError> {
    extent.encode(model, param, text, encode_whole_within)
}

/// How the tokens of a text are found: [`of_text`] or [`of_whole_text`].
pub(crate) type Encode<'a> = &'a dyn Fn(&Served, Extent<'_>, &str, &str) -> Result<Vec<u32>, ApiError>;

/// One text or more, each as text or as tokens, with the place of each in the request: a text, a list of token ids, or
/// a list of either.
pub(crate) fn several(
    model: &Served,
    extent: Extent<'_>,
    name: &str,
    value: Value,
    encode: Encode<'_>,
) -> Result<Vec<(String, Vec<u32>)>, ApiError> {
    match value {
        Value::Array(items) if items.first().is_some_and(|item| !item.is_number()) => {
            let read = |(i, item): (usize, Value)| {
                let path = format!("{name}[{i}]");
                let tokens = match item {
                    Value::String(text) => encode(model, extent, &path, &text)?,
                    other => tokens(model, &path, &other)?,
                };
                Ok((path, tokens))
            };
            items.into_iter().enumerate().map(read).collect()
        }
        Value::String(text) => Ok(vec![(name.to_owned(), encode(model, extent, name, &text)?)]),
        other => Ok(vec![(name.to_owned(), tokens(model, name, &other)?)]),
    }
}

/// A list of token ids.
pub(crate) fn tokens(model: &Served, path: &str, value: &Value) -> Result<Vec<u32>, ApiError> {
    let most = model.tokenizer.vocab_size().min(model.vocabulary);
    let most = i64::try_from(most).unwrap_or(i64::MAX) - 1;
    let read = |(i, id): (usize, &Value)| fields::integer(&format!("{path}[{i}]"), id, 0..=most);
    let ids = value.as_array().into_iter().flatten().enumerate();
    ids.map(|it| read(it).map(|n| u32::try_from(n).unwrap_or(u32::MAX))).collect()
}

/// The most tokens that a prompt may have.
pub(crate) fn longest(model: &Served) -> usize {
    model.context.min(model.kv_tokens)
}

/// Whether a prompt fits, and how many tokens can follow it.
pub(crate) fn room(model: &Served, param: &str, tokens: usize) -> Result<usize, ApiError> {
    if tokens == 0 {
        return Err(ApiError::field(param, "the prompt is empty, and the model has no token to begin with"));
    }
    let most = longest(model);
    if tokens > most {
        return Err(ApiError::context_length(param, tokens, most));
    }
    // The last token of an answer is never stored.
    Ok(most - tokens + 1)
}
