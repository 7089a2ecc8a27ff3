//! What a model says in a chat, told apart: content, reasoning, calls of tools.

use leyden_text::output::{OutputEvent, OutputParser};
use serde_json::{Value, json};

/// A choice of a chat.
#[derive(Debug)]
pub(crate) struct Speech {
    parser: OutputParser,
    /// Ids of calls begin with this.
    id: String,
    calls: usize,
}

impl Speech {
    pub(crate) fn new(parser: OutputParser, request: &str, choice: usize) -> Speech {
        Speech { parser, id: format!("call_{request}_{choice}"), calls: 0 }
    }

    /// Whether tools were called.
    pub(crate) fn calls(&self) -> bool {
        self.calls > 0
    }

    /// Takes more of the text; what it adds to the message, in OpenAI's form of pieces.
    pub(crate) fn push(&mut self, text: &str) -> Vec<Value> {
        let events = self.parser.push(text);
        self.deltas(events)
    }

    /// Ends the text.
    pub(crate) fn finish(&mut self) -> Vec<Value> {
        let events = self.parser.finish();
        self.deltas(events)
    }

    fn deltas(&mut self, events: Vec<OutputEvent>) -> Vec<Value> {
        let call = |call: Value| Some(json!({ "tool_calls": [call] }));
        let delta = |event| match event {
            OutputEvent::Content(text) => Some(json!({ "content": text })),
            OutputEvent::Reasoning(text) => Some(json!({ "reasoning_content": text })),
            OutputEvent::ToolCallStart { index, id, name } => {
                self.calls += 1;
                let id = id.unwrap_or_else(|| format!("{}_{index}", self.id));
                let function = json!({ "name": name, "arguments": "" });
                call(json!({ "index": index, "id": id, "type": "function", "function": function }))
            }
            OutputEvent::ToolCallArguments { index, fragment } => {
                call(json!({ "index": index, "function": { "arguments": fragment } }))
            }
            OutputEvent::ToolCallEnd { .. } | OutputEvent::ToolCallUnfinished { .. } => None,
        };
        events.into_iter().filter_map(delta).collect()
    }

    /// The whole message of a text.
    pub(crate) fn message(&mut self, text: &str) -> Value {
        let mut content = None::<String>;
        let mut reasoning = None::<String>;
        let mut calls: Vec<Value> = Vec::new();
        let mut deltas = self.push(text);
        deltas.extend(self.finish());
        for delta in deltas {
            if let Some(text) = delta["content"].as_str() {
                content.get_or_insert_default().push_str(text);
            }
            if let Some(text) = delta["reasoning_content"].as_str() {
                reasoning.get_or_insert_default().push_str(text);
            }
            let Some(call) = delta["tool_calls"].get(0) else { continue };
            if call["id"].is_string() {
                calls.push(json!({ "id": call["id"], "type": "function", "function": call["function"] }));
            } else if let Some(Value::String(whole)) =
                calls.last_mut().map(|c| &mut c["function"]["arguments"])
            {
                whole.push_str(call["function"]["arguments"].as_str().unwrap_or_default());
            }
        }
        if calls.is_empty() {
            content.get_or_insert_default();
        }
        let mut message = json!({ "role": "assistant", "content": content, "refusal": null });
        if let Some(reasoning) = reasoning {
            message["reasoning_content"] = reasoning.into();
        }
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        message
    }
}
