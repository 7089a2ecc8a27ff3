//! What a model's answer consists of: reasoning, content and calls of tools, told apart while it is generated.
//!
//! * [`OutputFormat::detect`] finds out from the chat template how a model writes these. It renders conversations with
//!   known calls and reads off what stands around them, so that formats need no names here; only harmony, whose answers
//!   are messages themselves, is known as such.
//! * [`CallWatch`] says when a call opens, for those who choose the tokens behind that.
//! * [`AnswerParts`] does all of it for an answer whose tokens arrive, with stop texts in its content.
//! * [`OutputParser`] turns text that arrives in pieces into [`OutputEvent`]s. The events, joined, are the same however
//!   the text is cut.
//!
//! Text that only looks like a call is content and never lost. A call is reported as soon as it is certain: its name,
//! then its arguments as they are written, in JSON whatever the format writes. One that the end of the answer cuts off, or
//! that breaks the format's rules, is reported as [unfinished](OutputEvent::ToolCallUnfinished). Behind the mark that
//! opens calls, what the end cuts off before the name of a tool is known is nothing at all: neither a call nor content.
//!
//! # Special tokens
//!
//! Many formats mark calls with special tokens, which [`Tokenizer::is_special`] keeps out of an answer's text. The
//! caller makes those of the format visible: it asks once for [`OutputFormat::visible_tokens`], and for each of these
//! ids that is generated it pushes the token's bytes like those of any other. All other special tokens stay out. A token
//! that [ends](Tokenizer::is_end) the generation is never pushed.

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

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputEvent {
    /// More of what the model thinks before it answers.
    Reasoning(String),
    /// More of the answer.
    Content(String),
    /// A call of a tool begins.
    ToolCallStart {
        /// The number of the call in this answer, from 0.
        index: usize,
        /// The call's id, in formats in which the model gives one.
        id: Option<String>,
        /// The name of the tool.
        name: String,
    },
    /// More of a call's arguments: a part of a JSON object.
    ToolCallArguments {
        /// The number of the call.
        index: usize,
        /// The text.
        fragment: String,
    },
    /// The call is whole, and its arguments are a JSON object.
    ToolCallEnd {
        /// The number of the call.
        index: usize,
    },
    /// The answer ended within the call, or the call broke off; its arguments are the beginning of a JSON object, or
    /// nothing.
    ToolCallUnfinished {
        /// The number of the call.
        index: usize,
    },
}

/// How a model writes its answers.
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
    /// Whether line breaks stand around the values of calls that are not JSON.
    framed: bool,
}

impl OutputFormat {
    /// Answers are content and nothing else.
    #[must_use]
    pub fn plain() -> OutputFormat {
        OutputFormat::default()
    }

    /// Finds out how a model writes from its chat template. What the template does not show is not looked for.
    ///
    /// Renders up to ten short conversations, some milliseconds in all; once for a model.
    #[must_use]
    pub fn detect(template: &ChatTemplate) -> OutputFormat {
        detect::detect(template)
    }

    /// The same with calls as many models were trained to write them, a JSON object between `<tool_call>` and
    /// `</tool_call>`: for a model whose template shows no way of its own. The prompt then has to say so.
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

    /// The texts around reasoning, if the model marks it.
    #[must_use]
    pub fn reasoning(&self) -> Option<(&str, &str)> {
        self.reasoning.as_ref().map(|(open, close)| (open.as_str(), close.as_str()))
    }

    /// How the model writes calls of tools, if that is known.
    #[must_use]
    pub fn calls(&self) -> Option<&CallSyntax> {
        self.calls.as_ref()
    }

    /// Whether answers are messages in harmony's channels.
    #[must_use]
    pub fn is_harmony(&self) -> bool {
        self.harmony
    }

    /// The special tokens that the parser must see as text; ascending. See the [module](self).
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

    /// A parser for one answer to `prompt`, whose end says whether the model is already reasoning. `tools` are those of
    /// the request, as a template gets them; without any, nothing is taken for a call.
    #[must_use]
    pub fn parser(&self, prompt: &str, tools: Option<&Json>) -> OutputParser {
        OutputParser::new(self, prompt, tools)
    }

    /// Whether the prompt's end opened the model's reasoning, so that the answer begins within it.
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
