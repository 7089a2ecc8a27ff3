//! The answer to a request, whole or as a stream, and the number of tokens of its prompt.

use super::events::{Events, MAX_KEPT_BYTES};
use super::items::Output;
use super::request::{Ready, ResponseRequest, read, read_request, renamed};
use crate::app::App;
use crate::body::Reply;
use crate::call::Call;
use crate::chat_output::Answer;
use crate::error::ApiError;
use crate::inference::{self, FinishedChoice, RunningInference};
use crate::mailbox::End;
use crate::prompt;
use crate::replies::document;
use crate::request_model::RequestModel;
use crate::streamed_json::StreamedJson;
use hyper::{Response, StatusCode};
use leyden_text::output::OutputEvent;
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns a number with the fewest digits that identify it as an `f32`.
fn as_written(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// Bytes of a token with its log probability, or of an alternative, in the text of a document.
const SHOWN_BYTES: usize = 128;

pub(crate) async fn answer(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (call, ready) = prompt::prepare(&app, call, read).await?;
    let Ready { inference, asked: ResponseRequest { mut head, items, names, store, .. } } = ready;
    let owner = call.caller.id.clone();
    let alternatives = inference.extras.logprobs;
    // The text of a stored document is kept in memory; everything else is written in pieces.
    if let Some(alternatives) = alternatives.filter(|_| store) {
        let most = inference.common.max_tokens.unwrap_or(usize::MAX);
        let tokens =
            inference.wanted.iter().map(|wanted| wanted.room.min(most)).fold(0, usize::saturating_add);
        let bytes = tokens.saturating_mul(alternatives + 1).saturating_mul(SHOWN_BYTES);
        call.shows(bytes.min(MAX_KEPT_BYTES));
    }
    let begun = inference::begin(Arc::clone(&app), call, inference).await?;
    let id = begun.running.id();
    head["id"] = format!("resp_{id}").into();
    head["model"] = begun.common.model.answer_name().into();
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
    let mut events = Events { app, owner, store, items, head, output, end: End::Stop, chat_output: None };
    if begun.common.stream {
        let RunningInference { running, mut chat_outputs, .. } = begun;
        events.chat_output = Some(chat_outputs.swap_remove(0));
        return Ok(running.stream(events));
    }
    let (mut said, usage) = begun.whole().await?;
    let FinishedChoice { answer, end, logprobs, .. } = said.swap_remove(0);
    events.output.tokens(logprobs);
    // The whole answer has the items of the stream, without its events.
    parts(answer).into_iter().for_each(|part| events.output.push(part));
    events.finish(end, usage);
    let mut pieces = StreamedJson::new();
    let shown = events.document(&mut pieces);
    Ok(pieces.document(&shown))
}

/// Converts a whole answer to output events.
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

pub(crate) async fn count(app: Arc<App>, call: Call) -> Result<Response<Reply>, ApiError> {
    let (_, tokens) = prompt::prepare(&app, call, counted).await?;
    Ok(document(StatusCode::OK, &json!({ "object": "response.input_tokens", "input_tokens": tokens })))
}

/// Returns the number of tokens of the prompt of a request.
fn counted(app: &App, call: &Call) -> Result<usize, ApiError> {
    let mut chat = read_request(app, call)?.chat;
    let model = RequestModel::take(app, &mut chat)?;
    let limits = prompt::EncodingLimits::of_body(call);
    let conversation = inference::conversation(app, call, &model, limits, &mut chat);
    Ok(conversation.map_err(renamed)?.0.tokens.len())
}
