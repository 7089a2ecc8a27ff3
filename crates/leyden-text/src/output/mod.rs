//! Incremental parsing of a model's answer into reasoning, content and tool calls.
//!
//! * [`OutputFormat::detect`] derives the syntax from the chat template. It renders conversations with known calls
//!   and compares them, so formats need no names here; the exception is harmony, whose answers are messages
//!   themselves.
//! * [`CallWatch`] detects the opening of a call, for constrained sampling of the call's text.
//! * [`AnswerParts`] combines this for an answer whose tokens arrive one by one, with stop strings in its content.
//! * [`OutputParser`] turns text that arrives in pieces into [`OutputEvent`]s. The joined events are the same
//!   however the text is split.
//!
//! Text that only resembles a call is content and never lost. A call is reported as soon as it is certain: its
//! name, then its arguments as they arrive, in JSON whatever the model's syntax. A call that is truncated by the
//! end of the answer or breaks the syntax is reported as [unfinished](OutputEvent::ToolCallUnfinished). If the
//! answer ends after the marker that opens calls, but before the name of a tool is known, the truncated text is
//! dropped: it is neither a call nor content.
//!
//! # Special tokens
//!
//! Many formats mark calls with special tokens, which [`Tokenizer::is_special`] keeps out of an answer's text. The
//! caller makes those of the format visible: it reads [`OutputFormat::visible_tokens`] once, and pushes the bytes
//! of these tokens like those of any other. All other special tokens are left out. A token that
//! [ends](Tokenizer::is_end) the generation is never pushed.

mod bare;
mod calls;
mod detect;
mod harmony;
mod json_scan;
mod literal;
mod object;
mod parser;
mod parts;
mod reading;
mod tools;
mod watch;

pub use bare::BareCalls;
pub use calls::{CallBody, CallSyntax};
pub use parser::OutputParser;
pub use parts::{AnswerParts, PartsEvent};
pub use watch::{CallWatch, Opening};

use crate::template::ChatTemplate;
use crate::tokenizer::Tokenizer;
use serde_json::Value as Json;

/// Part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent {
    /// Next piece of the reasoning.
    Reasoning(String),
    /// Next piece of the content.
    Content(String),
    /// Start of a tool call.
    ToolCallStart {
        /// Index of the call in this answer, from 0.
        index: usize,
        /// Id of the call, in formats with ids.
        id: Option<String>,
        /// Name of the tool.
        name: String,
    },
    /// Next piece of a call's arguments: part of a JSON object.
    ToolCallArguments {
        /// Index of the call.
        index: usize,
        /// Text of the piece.
        fragment: String,
    },
    /// End of a call: its arguments are a complete JSON object.
    ToolCallEnd {
        /// Index of the call.
        index: usize,
    },
    /// End of a call that the answer's end or invalid syntax truncated; its arguments are a prefix of a JSON
    /// object, possibly empty.
    ToolCallUnfinished {
        /// Index of the call.
        index: usize,
    },
}

/// Syntax of a model's answers.
///
/// ```
/// use leyden_text::output::{OutputEvent, OutputFormat};
/// use leyden_text::ChatTemplate;
///
/// let source = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}\
///     {% for c in m.tool_calls or [] %}<tool_call>\n{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}\n</tool_call>{% endfor %}\
///     <|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
/// let format = OutputFormat::detect(&ChatTemplate::new(source, "", "", "t")?);
/// let tools = serde_json::json!([{ "type": "function", "function": { "name": "now", "parameters": {} } }]);
/// let mut parser = format.parser("<|im_start|>assistant\n", Some(&tools));
/// let mut events = parser.push("One moment.\n<tool_call>{\"name\": \"now\", ");
/// events.extend(parser.push("\"arguments\": {}}</tool_call>"));
/// events.extend(parser.finish());
/// assert_eq!(events, [
///     OutputEvent::Content("One moment.".into()),
///     OutputEvent::ToolCallStart { index: 0, id: None, name: "now".into() },
///     OutputEvent::ToolCallArguments { index: 0, fragment: "{}".into() },
///     OutputEvent::ToolCallEnd { index: 0 },
/// ]);
/// # Ok::<(), leyden_text::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputFormat {
    reasoning: Option<(String, String)>,
    calls: Option<CallSyntax>,
    harmony: bool,
    /// True if values of calls that are not JSON have line breaks around them.
    framed: bool,
}

impl OutputFormat {
    /// Returns a format in which answers are content only.
    #[must_use]
    pub fn plain() -> OutputFormat {
        OutputFormat::default()
    }

    /// Derives the format from a chat template. Only what the template's renderings show is detected.
    ///
    /// Renders up to ten short conversations, which takes some milliseconds; call it once per model.
    #[must_use]
    pub fn detect(template: &ChatTemplate) -> OutputFormat {
        detect::detect(template)
    }

    /// Sets the call syntax that many models were trained on, a JSON object between `<tool_call>` and
    /// `</tool_call>`: for models whose template shows none. The prompt must then describe this syntax.
    #[must_use]
    pub fn with_generic_calls(mut self) -> OutputFormat {
        self.calls = Some(CallSyntax {
            section: Default::default(),
            start: "<tool_call>".to_owned(),
            other_start: None,
            end: "</tool_call>".to_owned(),
            body: CallBody::Object {
                name: "name".into(),
                arguments: "arguments".into(),
                id: None,
                list: false,
            },
        });
        self
    }

    /// Returns the markers around reasoning, if the model has them.
    #[must_use]
    pub fn reasoning(&self) -> Option<(&str, &str)> {
        self.reasoning.as_ref().map(|(open, close)| (open.as_str(), close.as_str()))
    }

    /// Returns the syntax of tool calls, if known.
    #[must_use]
    pub fn calls(&self) -> Option<&CallSyntax> {
        self.calls.as_ref()
    }

    /// Returns true if answers are harmony messages.
    #[must_use]
    pub fn is_harmony(&self) -> bool {
        self.harmony
    }

    /// Returns the sorted ids of the special tokens that the parser needs as text. See the [module](self).
    #[must_use]
    pub fn visible_tokens(&self, tokenizer: &dyn Tokenizer) -> Vec<u32> {
        let mut texts: Vec<&str> = Vec::new();
        if let Some((open, close)) = &self.reasoning {
            texts.extend([open.as_str(), close.as_str()]);
        }
        if let Some(calls) = &self.calls {
            texts.extend(calls.texts());
        }
        if self.harmony {
            texts.extend(harmony::MARKS);
        }
        let visible = |id: &u32| {
            let text = tokenizer.token_bytes(*id).and_then(|bytes| std::str::from_utf8(bytes).ok());
            let is_mark = tokenizer.is_special(*id) && !tokenizer.is_end(*id);
            is_mark
                && text.is_some_and(|text| !text.is_empty() && texts.iter().any(|known| known.contains(text)))
        };
        (0..tokenizer.vocab_size() as u32).filter(visible).collect()
    }

    /// Creates a parser for one answer to `prompt`, whose end tells whether the answer starts within reasoning.
    /// `tools` are those of the request, in the form that templates take; without tools nothing is parsed as a
    /// call.
    #[must_use]
    pub fn parser(&self, prompt: &str, tools: Option<&Json>) -> OutputParser {
        OutputParser::new(self, prompt, tools)
    }

    /// Returns whether the prompt ends with the opening marker of reasoning, so that the answer starts within it.
    #[must_use]
    pub fn begins_reasoning(&self, prompt: &str) -> bool {
        self.reasoning.as_ref().is_some_and(|(open, close)| {
            let end = prompt.trim_end();
            prompt.rfind(open.as_str()).is_some_and(|at| {
                at + open.len() == end.len() && prompt.rfind(close.as_str()).is_none_or(|closed| closed < at)
            })
        })
    }
}
