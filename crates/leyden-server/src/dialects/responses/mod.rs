//! OpenAI's Responses: `/v1/responses`, whose answers are lists of items, and which are kept so that the next request can
//! name the one before.

mod compact;
mod events;
mod input;
mod items;
mod kept;
mod schema;
mod tools;

pub(crate) use self::compact::compact;
use self::events::Events;
use self::items::Output;
pub(crate) use self::kept::{cancel, delete, input_items, retrieve};
pub(crate) use self::schema::{
    describe_answer, describe_cancel, describe_compact, describe_count, describe_delete,
    describe_input_items, describe_retrieve,
};
use self::tools::Tools;
use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::error::ApiError;
use crate::fields::Fields;
use crate::inference::{self, Begun, Inference, Said};
use crate::mailbox::End;
use crate::messages::text_of;
use crate::moment::unix_time;
use crate::pieces::Pieces;
use crate::prompt;
use crate::replies::document;
use crate::speech::Answer;
use crate::tool_kinds::ToolNames;
use hyper::{Response, StatusCode};
use leyden_text::output::OutputEvent;
use serde_json::{Value, json};
use std::sync::Arc;

/// What of a request is repeated in its answer, with what stands there if it does not say.
fn repeated() -> Value {
    json!({
        "frequency_penalty": 0.0, "instructions": null, "max_output_tokens": null, "max_tool_calls": null,
        "metadata": {}, "parallel_tool_calls": true, "presence_penalty": 0.0, "previous_response_id": null,
        "prompt_cache_key": null, "prompt_cache_retention": null, "reasoning": { "effort": null, "summary": null },
        "safety_identifier": null, "service_tier": "default", "store": true, "temperature": 1.0,
        "text": { "format": { "type": "text" } }, "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0,
        "truncation": "disabled",
    })
}

/// A field, and its value in an answer where the request lacks it.
type Filled = (&'static str, fn() -> Value);

/// The fields of `text.format` with a JSON schema, and their values in an answer where the request lacks them.
const FORMAT: &[Filled] =
    &[("name", || "answer".into()), ("description", || "".into()), ("strict", || true.into())];

/// An object of a request as its answer repeats it, with all fields if it is of this type.
fn with_defaults(mut object: Value, kind: &str, defaults: &[Filled]) -> Value {
    if object["type"] == kind {
        for (name, default) in defaults {
            if object.get(*name).is_none() {
                object[*name] = default();
            }
        }
    }
    object
}

/// A number with as few digits as tell it from other numbers of its type.
fn as_written(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// The most bytes of an answer that is kept.
const MOST_KEPT: usize = super::memory::BYTES;
/// Bytes of a token with its probability, or of an alternative, in the text of a document.
const SHOWN_BYTES: usize = 128;

/// A request that can be served.
struct Ready {
    inference: Inference,
    asked: Asked,
}

/// The fields of a request.
struct Asked {
    /// The fields of the chat that answers it.
    chat: Fields,
    /// The beginning of its answer.
    head: Value,
    /// The items of the conversation that it goes on with, without instructions.
    items: Vec<Value>,
    names: Arc<ToolNames>,
    store: bool,
}

pub(crate) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, ready) = prompt::prepare(&app, call, read).await?;
    let Ready { inference, asked: Asked { mut head, items, names, store, .. } } = ready;
    let owner = call.caller.id.clone();
    let alternatives = inference.extras.logprobs;
    // The text of the document is kept; all else is written piece by piece.
    if let Some(alternatives) = alternatives.filter(|_| store) {
        let most = inference.common.max_tokens.unwrap_or(usize::MAX);
        let tokens =
            inference.wanted.iter().map(|wanted| wanted.room.min(most)).fold(0, usize::saturating_add);
        let bytes = tokens.saturating_mul(alternatives + 1).saturating_mul(SHOWN_BYTES);
        call.shows(bytes.min(MOST_KEPT));
    }
    let begun = inference::begin(Arc::clone(&app), call, inference).await?;
    let id = begun.running.id();
    head["id"] = format!("resp_{id}").into();
    head["model"] = begun.running.name_of(&begun.common.model).into();
    let params = &begun.common.sampling.params;
    for (name, value) in [
        ("temperature", params.temperature),
        ("top_p", params.top_p),
        ("presence_penalty", params.penalties.presence),
        ("frequency_penalty", params.penalties.frequency),
    ] {
        head[name] = as_written(value);
    }
    let output = Output::new(id, Arc::clone(&begun.common.model), alternatives, names, begun.common.stream);
    let mut events = Events { app, owner, store, items, head, output, end: End::Stop, speech: None };
    if begun.common.stream {
        let Begun { running, mut speeches, .. } = begun;
        events.speech = Some(speeches.swap_remove(0));
        return Ok(running.stream(events));
    }
    let (mut said, usage) = begun.whole().await?;
    let Said { answer, end, logprobs, .. } = said.swap_remove(0);
    events.output.tokens(logprobs);
    // The same items, without their events.
    parts(answer).into_iter().for_each(|part| events.output.hear(part));
    events.finish(end, usage);
    let mut pieces = Pieces::new();
    let shown = events.document(&mut pieces);
    Ok(pieces.document(&shown))
}

/// The parts of a whole answer.
fn parts(answer: Answer) -> Vec<OutputEvent> {
    let mut parts = Vec::new();
    parts.extend(Some(OutputEvent::Reasoning(answer.reasoning)));
    parts.extend(Some(OutputEvent::Content(answer.content)));
    for (index, call) in answer.calls.into_iter().enumerate() {
        parts.push(OutputEvent::ToolCallStart { index, id: Some(call.id), name: call.name });
        parts.push(OutputEvent::ToolCallArguments { index, fragment: call.arguments });
    }
    parts
}

fn read(app: &App, call: &Call) -> Result<Ready, ApiError> {
    let mut asked = ask(app, call)?;
    let mut inference = inference::chat(app, call, &mut asked.chat).map_err(renamed)?;
    inference.names = Arc::clone(&asked.names);
    Ok(Ready { inference, asked })
}

/// Takes the fields of a request.
fn ask(app: &App, call: &Call) -> Result<Asked, ApiError> {
    let mut body = call.fields(app)?;
    let mut head = json!({
        "id": "", "object": "response", "created_at": unix_time(), "completed_at": null, "status": "in_progress",
        "background": false, "error": null, "incomplete_details": null, "model": "", "output": [], "usage": null,
    });
    extend(&mut head, repeated());
    let store = body.flag("store").unwrap_or(true);
    head["store"] = store.into();
    let mut chat = Fields::default();
    for name in ["temperature", "top_p", "parallel_tool_calls"] {
        if let Some(value) = body.take(name) {
            head[name] = value.clone();
            chat.put(name, value);
        }
    }
    for name in [
        "max_tool_calls",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "user",
    ] {
        if let Some(value) = body.take(name) {
            head[name] = value;
        }
    }
    let sampling =
        ["model", "stream", "seed", "top_k", "min_p", "stop", "frequency_penalty", "presence_penalty"];
    body.hand(&mut chat, &sampling);
    let alternatives = body.size("top_logprobs").unwrap_or(0);
    head["top_logprobs"] = alternatives.into();
    let included = body.list("include").unwrap_or_default();
    if alternatives > 0 || included.iter().any(|what| what == "message.output_text.logprobs") {
        chat.put("logprobs", true);
        chat.put("top_logprobs", alternatives);
    }
    if let Some(most) = body.take("max_output_tokens") {
        head["max_output_tokens"] = most.clone();
        chat.put("max_tokens", most);
    }
    if let Some(effort) = body.object("reasoning").and_then(|mut reasoning| reasoning.text("effort")) {
        head["reasoning"]["effort"] = effort.as_str().into();
        chat.put("reasoning_effort", effort);
    }
    if let Some(format) = body.object("text").and_then(|mut text| text.take("format")) {
        head["text"]["format"] = with_defaults(format.clone(), "json_schema", FORMAT);
        chat.put("response_format", response_format(Fields::from(format)));
    }
    let mut left_out = unheeded(&mut body);
    let given = body.list("tools").unwrap_or_default();
    head["tools"] = given.iter().cloned().map(tools::shown).collect();
    let mut tools = Tools::read(given);
    if let Some(choice) = body.take("tool_choice") {
        head["tool_choice"] = choice.clone();
        chat.put("tool_choice", tools.choice(choice)?);
    }
    left_out.append(&mut tools.left_out);
    chat.put("tools", tools.functions);
    let (mut items, mut all) = (Vec::new(), Vec::new());
    if let Some(id) = body.text("previous_response_id") {
        let kept = app.answers.items(&call.caller.id, &id);
        let (before, output) = kept.ok_or_else(|| ApiError {
            code: "previous_response_not_found",
            ..unknown("previous_response_id")
        })?;
        items = before;
        items.extend(output);
        items.iter().for_each(|item| drop(input::add(Fields::from(item.clone()), &mut all)));
        head["previous_response_id"] = id.into();
    }
    left_out.extend(input::read(app, call, body.take("input"), &mut items, &mut all)?);
    call.leave_out(app, &left_out)?;
    if let Some(instructions) = body.text("instructions") {
        head["instructions"] = instructions.as_str().into();
        instruct(&instructions, &mut all);
    }
    if all.is_empty() {
        return Err(ApiError::field("input", "`input` is empty"));
    }
    chat.put("messages", all);
    Ok(Asked { chat, head, items, names: Arc::new(tools.names), store })
}

/// Takes `truncation` and `stream_options`. Returns the places of values that change nothing here.
fn unheeded(body: &mut Fields) -> Vec<String> {
    let mut places = Vec::new();
    if body.text("truncation").as_deref() == Some("auto") {
        places.push("truncation:auto".to_owned());
    }
    let padded = body.object("stream_options").and_then(|mut options| options.flag("include_obfuscation"));
    if padded == Some(true) {
        places.push("stream_options.include_obfuscation".to_owned());
    }
    places
}

pub(crate) async fn count(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (_, tokens) = prompt::prepare(&app, call, counted).await?;
    Ok(document(StatusCode::OK, &json!({ "object": "response.input_tokens", "input_tokens": tokens })))
}

/// The tokens of the prompt that a request makes.
fn counted(app: &App, call: &Call) -> Result<usize, ApiError> {
    let mut chat = ask(app, call)?.chat;
    let model = app.model(chat.text("model").as_deref())?;
    let extent = prompt::Extent::of_body(call);
    let conversation = inference::conversation(app, call, &model, extent, &mut chat);
    Ok(conversation.map_err(renamed)?.0.tokens.len())
}

fn unknown(param: &str) -> ApiError {
    let message = "there is no such response, or it is not kept any more";
    let error = ApiError::new(StatusCode::NOT_FOUND, "response_not_found", message);
    ApiError { param: Some(param.to_owned()), ..error }
}

/// An error about a field of a chat under the name that the client knows.
fn renamed(mut error: ApiError) -> ApiError {
    let rename = |text: &str| {
        let text = text
            .replace("response_format.json_schema", "text.format")
            .replace("response_format", "text.format");
        let text = text.replace(".function.", ".").replace("max_tokens", "max_output_tokens");
        if text.starts_with("messages") { text.replacen("messages", "input", 1) } else { text }
    };
    error.param = error.param.as_deref().map(rename);
    error.message = rename(&error.message);
    error
}

/// Puts what the model is told before the conversation, which may begin with more of it.
fn instruct(text: &str, messages: &mut Vec<Value>) {
    match messages.first_mut().filter(|first| first["role"] == "system" || first["role"] == "developer") {
        Some(first) => first["content"] = format!("{text}\n\n{}", text_of(first["content"].take())).into(),
        None => messages.insert(0, json!({ "role": "system", "content": text })),
    }
}

/// A form of the answer as a chat has it.
fn response_format(mut format: Fields) -> Value {
    let kind = format.text("type").unwrap_or_default();
    if kind != "json_schema" {
        return json!({ "type": kind });
    }
    json!({ "type": kind, "json_schema": { "schema": format.take("schema"), "strict": format.flag("strict") } })
}

fn extend(all: &mut Value, more: Value) {
    if let (Value::Object(all), Value::Object(more)) = (all, more) {
        all.extend(more);
    }
}
