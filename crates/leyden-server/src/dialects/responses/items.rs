//! The items of an answer, and the events that tell of them.

use super::extend;
use crate::app::Served;
use crate::dialect::event;
use crate::logprobs;
use crate::mailbox::TokenLogprob;
use crate::tool_kinds::{Declared, ToolNames};
use leyden_text::output::OutputEvent;
use leyden_text::{Bounds, Special};
use serde_json::{Value, json};
use std::sync::Arc;

/// The items of an answer, and the events that tell of them.
pub(super) struct Output {
    id: String,
    pub(super) items: Vec<Value>,
    model: Arc<Served>,
    /// How many alternatives are wanted with each token, if probabilities are.
    alternatives: Option<usize>,
    /// The tools of the request that are no plain functions.
    names: Arc<ToolNames>,
    /// Tokens of the message, shown, of which no event told yet, and those of the open item in all.
    fresh: Vec<Value>,
    told: Vec<Value>,
    /// The text of the last item, which is open where this is `Some`.
    open: Option<(Kind, String)>,
    /// How many events there were.
    sequence: u64,
}

/// A kind of item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Reasoning,
    Message,
    Call,
    /// A call of a tool of free text.
    Custom,
}

impl Kind {
    /// What the events are called that tell of its text: more of it, and the whole.
    fn events(self) -> [&'static str; 2] {
        match self {
            Kind::Reasoning => ["response.reasoning_text.delta", "response.reasoning_text.done"],
            Kind::Message => ["response.output_text.delta", "response.output_text.done"],
            Kind::Call => ["response.function_call_arguments.delta", "response.function_call_arguments.done"],
            Kind::Custom => ["response.custom_tool_call_input.delta", "response.custom_tool_call_input.done"],
        }
    }

    /// The field with the whole text, of a call.
    fn call_field(self) -> Option<&'static str> {
        match self {
            Kind::Call => Some("arguments"),
            Kind::Custom => Some("input"),
            Kind::Reasoning | Kind::Message => None,
        }
    }

    /// The part of an item that has its text.
    fn part(self, text: &str, logprobs: &[Value]) -> Value {
        match self {
            Kind::Reasoning => json!({ "type": "reasoning_text", "text": text }),
            _ => json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": logprobs }),
        }
    }
}

impl Output {
    pub(super) fn new(
        id: String,
        model: Arc<Served>,
        alternatives: Option<usize>,
        names: Arc<ToolNames>,
    ) -> Output {
        let (items, fresh, told) = (Vec::new(), Vec::new(), Vec::new());
        Output { id, items, model, alternatives, names, fresh, told, open: None, sequence: 0 }
    }

    /// Takes tokens of the message, before their text.
    pub(super) fn tokens(&mut self, tokens: &[TokenLogprob]) {
        if let Some(alternatives) = self.alternatives {
            self.fresh.extend(logprobs::content(&self.model, alternatives, tokens));
        }
    }

    /// The number of tokens of the text of the thoughts.
    pub(super) fn reasoning_tokens(&self) -> usize {
        let thoughts = self.items.iter().filter(|item| item["type"] == "reasoning");
        let texts = thoughts.filter_map(|item| item["content"][0]["text"].as_str());
        let tokens = |text| self.model.tokenizer.encode_within(text, Special::AsText, &Bounds::NONE);
        texts.map(|text| tokens(text).map_or(0, |ids| ids.len())).sum()
    }

    /// Tells of something.
    pub(super) fn tell(&mut self, name: &str, more: Value, out: &mut Vec<u8>) {
        let mut value = json!({ "type": name, "sequence_number": self.sequence });
        extend(&mut value, more);
        event(name, &value, out);
        self.sequence += 1;
    }

    /// Tells of the item that is open.
    fn tell_item(&mut self, name: &str, more: Value, out: &mut Vec<u8>) {
        let at = self.items.len().saturating_sub(1);
        let mut value = json!({ "output_index": at, "item_id": self.items[at]["id"] });
        extend(&mut value, more);
        self.tell(name, value, out);
    }

    /// Takes more of the answer.
    pub(super) fn hear(&mut self, part: OutputEvent, out: &mut Vec<u8>) {
        match part {
            OutputEvent::Content(text) => self.say(Kind::Message, &text, out),
            OutputEvent::Reasoning(text) => self.say(Kind::Reasoning, &text, out),
            OutputEvent::ToolCallStart { id, name, .. } => {
                self.close("completed", out);
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
                self.begin(kind, start, item, out);
            }
            OutputEvent::ToolCallArguments { fragment, .. } => self.more(&fragment, out),
            OutputEvent::ToolCallEnd { .. } | OutputEvent::ToolCallUnfinished { .. } => {}
        }
    }

    fn say(&mut self, kind: Kind, text: &str, out: &mut Vec<u8>) {
        if text.is_empty() {
            return;
        }
        if self.open.as_ref().is_none_or(|(open, _)| *open != kind) {
            self.close("completed", out);
            let (start, item) = match kind {
                Kind::Reasoning => ("rs", json!({ "type": "reasoning", "summary": [], "content": [] })),
                _ => ("msg", json!({ "type": "message", "role": "assistant", "content": [] })),
            };
            self.begin(kind, start, item, out);
            let part = kind.part("", &[]);
            self.tell_item("response.content_part.added", json!({ "content_index": 0, "part": part }), out);
        }
        self.more(text, out);
    }

    fn begin(&mut self, kind: Kind, start: &str, mut item: Value, out: &mut Vec<u8>) {
        let at = self.items.len();
        (item["id"], item["status"]) = (format!("{start}_{}_{at}", self.id).into(), "in_progress".into());
        self.items.push(item.clone());
        self.open = Some((kind, String::new()));
        self.tell("response.output_item.added", json!({ "output_index": at, "item": item }), out);
    }

    fn more(&mut self, text: &str, out: &mut Vec<u8>) {
        let Some((kind, whole)) = &mut self.open else { return };
        whole.push_str(text);
        let [name, _] = kind.events();
        let mut more = json!({ "delta": text });
        match kind {
            Kind::Message => {
                (more["content_index"], more["logprobs"]) = (0.into(), self.fresh.clone().into());
                self.told.append(&mut self.fresh);
            }
            Kind::Reasoning => more["content_index"] = 0.into(),
            Kind::Call | Kind::Custom => {}
        }
        self.tell_item(name, more, out);
    }

    /// Ends the item that is open.
    pub(super) fn close(&mut self, status: &str, out: &mut Vec<u8>) {
        let Some((kind, text)) = self.open.take() else { return };
        let [_, name] = kind.events();
        if let Some(field) = kind.call_field() {
            let at = self.items.len() - 1;
            let named = self.items[at]["name"].clone();
            self.items[at][field] = text.as_str().into();
            let mut done = json!({ field: text });
            if kind == Kind::Call {
                done["name"] = named;
            }
            self.tell_item(name, done, out);
        } else {
            let mut more = json!({ "content_index": 0, "text": text });
            let mut told = Vec::new();
            if kind == Kind::Message {
                told = std::mem::take(&mut self.told);
                told.append(&mut self.fresh);
                more["logprobs"] = told.as_slice().into();
            }
            self.tell_item(name, more, out);
            let part = kind.part(&text, &told);
            let done = json!({ "content_index": 0, "part": part });
            self.tell_item("response.content_part.done", done, out);
            if let Some(last) = self.items.last_mut() {
                last["content"] = json!([part]);
            }
        }
        let Some(last) = self.items.last_mut() else { return };
        last["status"] = status.into();
        let item = last.clone();
        self.tell(
            "response.output_item.done",
            json!({ "output_index": self.items.len() - 1, "item": item }),
            out,
        );
    }
}
