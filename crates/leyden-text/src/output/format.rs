//! [`OutputFormat`]: syntax of a model's answers.

use super::calls::{CallBody, CallSyntax};
use super::harmony;
use crate::tokenizer::Tokenizer;

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
    pub(super) reasoning: Option<(String, String)>,
    pub(super) calls: Option<CallSyntax>,
    pub(super) harmony: bool,
    /// True if values of calls that are not JSON have line breaks around them.
    pub(super) framed: bool,
}

impl OutputFormat {
    /// Returns a format in which answers are content only.
    #[must_use]
    pub fn plain() -> OutputFormat {
        OutputFormat::default()
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

    /// Returns the sorted ids of the special tokens that the parser needs as text. See the [module](crate::output).
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
