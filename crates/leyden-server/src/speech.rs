//! What a model says in a chat, in OpenAI's form: content, reasoning, calls of tools.

use leyden_text::output::OutputEvent;
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A choice of a chat.
#[derive(Debug)]
pub(crate) struct Speech {
    ids: Ids,
    /// Calls that have begun, and those of them that are whole.
    calls: usize,
    whole: usize,
}

/// How ids of calls are made, where the model writes none before a call.
#[derive(Debug)]
enum Ids {
    /// They begin with this.
    Long(String),
    /// They have nine letters and digits and follow from this. The formats whose calls have ids want such.
    Short(u64),
}

impl Ids {
    fn id(&self, call: usize) -> String {
        match self {
            Ids::Long(start) => format!("{start}_{call}"),
            Ids::Short(seed) => {
                let mut hash = DefaultHasher::new();
                (seed, call).hash(&mut hash);
                let mut rest = hash.finish();
                let mut letter = || {
                    let at = rest % 36;
                    rest /= 36;
                    char::from_digit(at as u32, 36).unwrap_or('0')
                };
                (0..9).map(|_| letter()).collect()
            }
        }
    }
}

impl Speech {
    /// For a choice of a request. `short` asks for ids of nine letters and digits.
    pub(crate) fn new(short: bool, request: &str, choice: usize) -> Speech {
        let ids = if short {
            let mut hash = DefaultHasher::new();
            (request, choice).hash(&mut hash);
            Ids::Short(hash.finish())
        } else {
            Ids::Long(format!("call_{request}_{choice}"))
        };
        Speech { ids, calls: 0, whole: 0 }
    }

    /// Whether tools were called, and all calls are whole.
    pub(crate) fn calls(&self) -> bool {
        self.calls > 0 && self.calls == self.whole
    }

    /// Takes more of the answer; what it adds to the message, in OpenAI's form of pieces.
    pub(crate) fn push(&mut self, parts: Vec<OutputEvent>) -> Vec<Value> {
        parts.into_iter().filter_map(|part| self.delta(part)).collect()
    }

    fn delta(&mut self, part: OutputEvent) -> Option<Value> {
        let call = |call: Value| Some(json!({ "tool_calls": [call] }));
        match part {
            OutputEvent::Content(text) => Some(json!({ "content": text })),
            OutputEvent::Reasoning(text) => Some(json!({ "reasoning_content": text })),
            OutputEvent::ToolCallStart { index, id, name } => {
                self.calls += 1;
                let id = id.unwrap_or_else(|| self.ids.id(index));
                let function = json!({ "name": name, "arguments": "" });
                call(json!({ "index": index, "id": id, "type": "function", "function": function }))
            }
            OutputEvent::ToolCallArguments { index, fragment } => {
                call(json!({ "index": index, "function": { "arguments": fragment } }))
            }
            OutputEvent::ToolCallEnd { .. } => {
                self.whole += 1;
                None
            }
            OutputEvent::ToolCallUnfinished { .. } => None,
        }
    }

    /// The whole message of an answer.
    pub(crate) fn message(&mut self, parts: Vec<OutputEvent>) -> Value {
        let mut content = None::<String>;
        let mut reasoning = None::<String>;
        let mut calls: Vec<Value> = Vec::new();
        for delta in self.push(parts) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_apart_and_short_where_a_format_wants_it() {
        let start = |speech: &mut Speech, index| {
            let start = OutputEvent::ToolCallStart { index, id: None, name: "now".into() };
            speech.push(vec![start])[0]["tool_calls"][0]["id"].as_str().unwrap().to_owned()
        };
        let (mut short, mut long) = (Speech::new(true, "r1", 0), Speech::new(false, "r1", 0));
        let ids = [start(&mut short, 0), start(&mut short, 1), start(&mut Speech::new(true, "r2", 0), 0)];
        assert!(
            ids.iter().all(|id| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric())),
            "{ids:?}"
        );
        assert!(ids[0] != ids[1] && ids[0] != ids[2]);
        assert_eq!(start(&mut long, 1), "call_r1_0_1");
    }
}
