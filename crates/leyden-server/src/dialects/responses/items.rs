//! The items of an answer, and the events of its stream.
//!
//! Tokens with their log probabilities are kept as computed until the text of an event or of a document is written,
//! piece by piece: the JSON tree of a token with twenty alternatives takes some twenty kilobytes.

use super::echoed_fields::extend;
use crate::logprobs;
use crate::mailbox::TokenLogprob;
use crate::served::Served;
use crate::streamed_json::{StreamedJson, Writer};
use crate::tool_kinds::{Declared, ToolNames};
use leyden_text::output::OutputEvent;
use leyden_text::{Bounds, Special};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;

/// The items of an answer, and the events of its stream.
pub(super) struct Output {
    id: String,
    /// Items without tokens.
    pub(super) items: Vec<Value>,
    /// The tokens of each item.
    tokens: Vec<Arc<[TokenLogprob]>>,
    model: Arc<Served>,
    /// Number of alternatives per token; `None` without log probabilities.
    alternatives: Option<usize>,
    /// The tools of the request that are no plain functions.
    names: Arc<ToolNames>,
    /// Tokens of the message that are in no event yet, and those of the open item in all.
    fresh: Vec<TokenLogprob>,
    told: Vec<TokenLogprob>,
    /// Kind and text of the last item, if it is open.
    open: Option<(Kind, String)>,
    /// Events that are not written yet; `None` without streaming.
    events: Option<VecDeque<Event>>,
    /// Number of events so far.
    sequence: u64,
}

/// A server-sent event that is being written.
struct Event {
    name: &'static str,
    begun: bool,
    data: Writer,
}

/// A kind of item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
    Call,
    /// A call of a free-text tool.
    Custom,
}

impl Kind {
    /// Returns the names of the events for its text: for a delta, and for the whole text.
    fn events(self) -> [&'static str; 2] {
        match self {
            Kind::Reasoning => ["response.reasoning_text.delta", "response.reasoning_text.done"],
            Kind::Message => ["response.output_text.delta", "response.output_text.done"],
            Kind::Call => ["response.function_call_arguments.delta", "response.function_call_arguments.done"],
            Kind::Custom => ["response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"],
        }
    }

    /// Returns the field with the whole text of a call.
    fn call_field(self) -> Option<&'static str> {
        match self {
            Kind::Call => Some("arguments"),
            Kind::Custom => Some("input"),
            Kind::Reasoning | Kind::Message => None,
        }
    }

    /// Returns the part of an item with its text.
    fn part(self, text: &str, logprobs: &Value) -> Value {
        match self {
            Kind::Reasoning => json!({ "type": "reasoning_text", "text": text }),
            _ => json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": logprobs }),
        }
    }
}

impl Output {
    /// Creates the output of an answer; with `stream` it produces events.
    pub(super) fn new(
        id: String,
        model: Arc<Served>,
        alternatives: Option<usize>,
        names: Arc<ToolNames>,
        stream: bool,
    ) -> Output {
        Output {
            id,
            items: Vec::new(),
            tokens: Vec::new(),
            model,
            alternatives,
            names,
            fresh: Vec::new(),
            told: Vec::new(),
            open: None,
            events: stream.then(VecDeque::new),
            sequence: 0,
        }
    }

    /// Adds tokens of the message, before their text.
    pub(super) fn tokens(&mut self, tokens: Vec<TokenLogprob>) {
        if self.alternatives.is_some() {
            self.fresh.extend(tokens);
        }
    }

    /// Returns the number of tokens of the reasoning.
    pub(super) fn reasoning_tokens(&self) -> usize {
        let thoughts = self.items.iter().filter(|item| item["type"] == "reasoning");
        let texts = thoughts.filter_map(|item| item["content"][0]["text"].as_str());
        let tokens = |text| self.model.tokenizer.encode_within(text, Special::AsText, &Bounds::NONE);
        texts.map(|text| tokens(text).map_or(0, |ids| ids.len())).sum()
    }

    /// Adds a list of tokens to a document.
    fn list(&self, pieces: &mut StreamedJson, tokens: &Arc<[TokenLogprob]>) -> Value {
        match tokens.is_empty() {
            true => json!([]),
            false => {
                logprobs::shared(pieces, &self.model, self.alternatives.unwrap_or(0), Arc::clone(tokens))
            }
        }
    }

    /// Returns an item with its tokens.
    fn item(&self, at: usize, pieces: &mut StreamedJson) -> Value {
        let mut item = self.items[at].clone();
        if !self.tokens[at].is_empty() {
            item["content"][0]["logprobs"] = self.list(pieces, &self.tokens[at]);
        }
        item
    }

    /// Returns all items with their tokens.
    pub(super) fn all(&self, pieces: &mut StreamedJson) -> Value {
        (0..self.items.len()).map(|at| self.item(at, pieces)).collect()
    }

    /// Writes more of the events. Returns `false` when all are written.
    pub(super) fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(events) = &mut self.events else { return false };
        let Some(event) = events.front_mut() else { return false };
        if !std::mem::replace(&mut event.begun, true) {
            out.extend_from_slice(format!("event: {}\ndata: ", event.name).as_bytes());
        }
        if !event.data.more(out) {
            out.extend_from_slice(b"\n\n");
            events.pop_front();
        }
        !events.is_empty()
    }

    /// Adds an event; `pieces` are its large parts.
    pub(super) fn send(&mut self, name: &'static str, more: Value, pieces: StreamedJson) {
        let Some(events) = &mut self.events else { return };
        let mut value = json!({ "type": name, "sequence_number": self.sequence });
        extend(&mut value, more);
        events.push_back(Event { name, begun: false, data: pieces.writer(&value) });
        self.sequence += 1;
    }

    /// Adds an event about the open item.
    fn tell_item(&mut self, name: &'static str, more: Value, pieces: StreamedJson) {
        let at = self.items.len().saturating_sub(1);
        let mut value = json!({ "output_index": at, "item_id": self.items[at]["id"] });
        extend(&mut value, more);
        self.send(name, value, pieces);
    }

    /// Adds an output event of the model.
    pub(super) fn push(&mut self, part: OutputEvent) {
        match part {
            OutputEvent::Content(text) => self.say(Kind::Message, &text),
            OutputEvent::Reasoning(text) => self.say(Kind::Reasoning, &text),
            OutputEvent::ToolCallStart { id, name, .. } => {
                self.close("completed");
                let declared = self.names.get(&name).cloned();
                let Declared { namespace, name, is_free_text } =
                    declared.unwrap_or(Declared { name, ..Declared::default() });
                let (kind, start, mut item) = match is_free_text {
                    true => (Kind::Custom, "ctc", json!({ "type": "custom_tool_call", "input": "" })),
                    false => (Kind::Call, "fc", json!({ "type": "function_call", "arguments": "" })),
                };
                (item["call_id"], item["name"]) = (id.into(), name.into());
                if let Some(namespace) = namespace {
                    item["namespace"] = namespace.into();
                }
                self.begin(kind, start, item);
            }
            OutputEvent::ToolCallArguments { fragment, .. } => self.more(&fragment),
            OutputEvent::ToolCallEnd { .. } | OutputEvent::ToolCallUnfinished { .. } => {}
        }
    }

    fn say(&mut self, kind: Kind, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            self.close("completed");
            let (start, item) = match kind {
                Kind::Reasoning => ("rs", json!({ "type": "reasoning", "summary": [], "content": [] })),
                _ => ("msg", json!({ "type": "message", "role": "assistant", "content": [] })),
            };
            self.begin(kind, start, item);
            let part = kind.part("", &json!([]));
            let added = json!({ "content_index": 0, "part": part });
            self.tell_item("response.content_part.added", added, StreamedJson::new());
        }
        self.more(text);
    }

    fn begin(&mut self, kind: Kind, start: &str, mut item: Value) {
        let at = self.items.len();
        (item["id"], item["status"]) = (format!("{start}_{}_{at}", self.id).into(), "in_progress".into());
        self.items.push(item.clone());
        self.tokens.push(Arc::default());
        self.open = Some((kind, String::new()));
        let added = json!({ "output_index": at, "item": item });
        self.send("response.output_item.added", added, StreamedJson::new());
    }

    fn more(&mut self, text: &str) {
        let Some((kind, whole)) = &mut self.open else { return };
        whole.push_str(text);
        let [name, _] = kind.events();
        let mut more = json!({ "delta": text });
        let mut pieces = StreamedJson::new();
        match kind {
            Kind::Message => {
                let fresh = std::mem::take(&mut self.fresh);
                let shown = if self.events.is_some() { fresh.as_slice().into() } else { Arc::default() };
                self.told.extend(fresh);
                (more["content_index"], more["logprobs"]) = (0.into(), self.list(&mut pieces, &shown));
            }
            Kind::Reasoning => more["content_index"] = 0.into(),
            Kind::Call | Kind::Custom => {}
        }
        self.tell_item(name, more, pieces);
    }

    /// Ends the open item.
    pub(super) fn close(&mut self, status: &str) {
        let Some((kind, text)) = self.open.take() else { return };
        let at = self.items.len() - 1;
        let [_, name] = kind.events();
        if let Some(field) = kind.call_field() {
            let named = self.items[at]["name"].clone();
            self.items[at][field] = text.as_str().into();
            let mut done = json!({ field: text });
            if kind == Kind::Call {
                done["name"] = named;
            }
            self.tell_item(name, done, StreamedJson::new());
        } else {
            if kind == Kind::Message {
                let mut told = std::mem::take(&mut self.told);
                told.append(&mut self.fresh);
                self.tokens[at] = told.into();
            }
            let tokens = Arc::clone(&self.tokens[at]);
            let (mut done, mut pieces) = (json!({ "content_index": 0, "text": text }), StreamedJson::new());
            if kind == Kind::Message {
                done["logprobs"] = self.list(&mut pieces, &tokens);
            }
            self.tell_item(name, done, pieces);
            let mut pieces = StreamedJson::new();
            let part = kind.part(&text, &self.list(&mut pieces, &tokens));
            self.tell_item("response.content_part.done", json!({ "content_index": 0, "part": part }), pieces);
            self.items[at]["content"] = json!([kind.part(&text, &json!([]))]);
        }
        self.items[at]["status"] = status.into();
        let mut pieces = StreamedJson::new();
        let done = json!({ "output_index": at, "item": self.item(at, &mut pieces) });
        self.send("response.output_item.done", done, pieces);
    }
}
