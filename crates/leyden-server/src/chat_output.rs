//! Output of a chat in all dialects: content, reasoning, and tool calls, which get ids here.

use crate::tool_kinds::{FreeText, ToolNames};
use leyden_text::output::OutputEvent;
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Converter of the output events of one choice.
#[derive(Debug)]
pub(crate) struct ChatOutput {
    ids: Ids,
    /// Number of calls that have begun, and of those that are complete.
    calls: usize,
    whole: usize,
    /// Tools of the request that are not plain functions.
    names: Arc<ToolNames>,
    /// Reader of the open call's input, if its tool takes free text.
    free_text: Option<FreeText>,
}

/// Generator of call ids, if the model writes none before a call.
#[derive(Debug)]
enum Ids {
    /// Ids with this prefix.
    Long(String),
    /// Ids of nine letters and digits, counted up from this number, for the formats whose calls have ids.
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

impl ChatOutput {
    /// Creates a converter. `short` selects call ids of nine letters and digits.
    pub(crate) fn new(short: bool, request: &str, choice: usize, names: Arc<ToolNames>) -> ChatOutput {
        let ids = if short {
            let mut hash = DefaultHasher::new();
            (request, choice).hash(&mut hash);
            Ids::Short(hash.finish())
        } else {
            Ids::Long(format!("call_{request}_{choice}"))
        };
        ChatOutput { ids, calls: 0, whole: 0, names, free_text: None }
    }

    /// Returns true if tools were called and all calls are complete.
    pub(crate) fn calls(&self) -> bool {
        self.calls > 0 && self.calls == self.whole
    }

    /// Returns true if a tool takes free text.
    pub(crate) fn is_free_text(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|declared| declared.is_free_text)
    }

    /// Converts output events: every call gets an id, and the arguments of a tool with free text become that text.
    pub(crate) fn push(&mut self, parts: Vec<OutputEvent>) -> Vec<OutputEvent> {
        let mut heard = Vec::with_capacity(parts.len());
        for mut part in parts {
            match &mut part {
                OutputEvent::ToolCallStart { index, id, name } => {
                    self.calls += 1;
                    id.get_or_insert_with(|| self.ids.id(*index));
                    self.free_text = self.is_free_text(name).then(FreeText::default);
                }
                OutputEvent::ToolCallArguments { fragment, .. } => {
                    if let Some(input) = &mut self.free_text {
                        *fragment = input.push(fragment);
                    }
                }
                OutputEvent::ToolCallEnd { index } | OutputEvent::ToolCallUnfinished { index } => {
                    let rest = self.free_text.take().map(|mut input| input.end()).unwrap_or_default();
                    if !rest.is_empty() {
                        heard.push(OutputEvent::ToolCallArguments { index: *index, fragment: rest });
                    }
                    self.whole += usize::from(matches!(part, OutputEvent::ToolCallEnd { .. }));
                }
                OutputEvent::Content(_) | OutputEvent::Reasoning(_) => {}
            }
            heard.push(part);
        }
        heard
    }

    /// Returns the whole answer.
    pub(crate) fn whole(&mut self, parts: Vec<OutputEvent>) -> Answer {
        let mut answer = Answer::default();
        for part in self.push(parts) {
            match part {
                OutputEvent::Content(text) => answer.content.push_str(&text),
                OutputEvent::Reasoning(text) => answer.reasoning.push_str(&text),
                OutputEvent::ToolCallStart { id, name, .. } => {
                    let id = id.unwrap_or_default();
                    answer.calls.push(ToolCall { id, name, arguments: String::new() });
                }
                OutputEvent::ToolCallArguments { fragment, .. } => {
                    if let Some(call) = answer.calls.last_mut() {
                        call.arguments.push_str(&fragment);
                    }
                }
                OutputEvent::ToolCallEnd { .. } | OutputEvent::ToolCallUnfinished { .. } => {}
            }
        }
        answer
    }
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) content: String,
    pub(crate) reasoning: String,
    pub(crate) calls: Vec<ToolCall>,
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON text, or the input of a tool that takes free text. The token limit may have cut off its end.
    pub(crate) arguments: String,
}

impl ToolCall {
    /// Returns the arguments as JSON; an empty object if they are cut off.
    pub(crate) fn input(&self) -> Value {
        serde_json::from_str(&self.arguments).ok().filter(Value::is_object).unwrap_or_else(|| json!({}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_apart_and_short_where_a_format_wants_it() {
        let start = |chat_output: &mut ChatOutput, index| {
            let start = OutputEvent::ToolCallStart { index, id: None, name: "now".into() };
            chat_output.whole(vec![start]).calls[0].id.clone()
        };
        let chat_output = |short, request| ChatOutput::new(short, request, 0, Arc::default());
        let (mut short, mut long) = (chat_output(true, "r1"), chat_output(false, "r1"));
        let ids = [start(&mut short, 0), start(&mut short, 1), start(&mut chat_output(true, "r2"), 0)];
        assert!(
            ids.iter().all(|id| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric())),
            "{ids:?}"
        );
        assert!(ids[0] != ids[1] && ids[0] != ids[2]);
        assert_eq!(start(&mut long, 1), "call_r1_0_1");
    }
}
