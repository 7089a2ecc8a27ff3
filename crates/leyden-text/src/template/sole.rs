//! [`SoleMessage`]: a text as the only user message, for embedding models with a chat template.

use super::{ChatTemplate, RenderOptions};
use crate::error::Error;
use crate::tokenizer::{Bounds, Special, Tokenizer};
use serde_json::{Value, json};

/// Substrings in the source of a template that takes content as a list of parts, as sentence-transformers detects
/// them.
const IN_PARTS: [&str; 6] = ["content[0]", ".type", "'type'", "\"type\"", "item.type", "message.content["];

/// Text as the only user message, after an optional system message.
#[derive(Clone, Copy, Debug)]
pub struct SoleMessage<'a> {
    /// Chat template.
    pub template: &'a ChatTemplate,
    /// True if content is a list with one part of type `text`; `None` to detect it from the template's source.
    pub in_parts: Option<bool>,
    /// System message; none if it is empty.
    pub system: &'a str,
    /// Other settings of the rendering.
    pub options: &'a RenderOptions,
}

impl SoleMessage<'_> {
    /// Tokenizes the rendered prompt of a text. Special tokens of the template are parsed; their names in the text
    /// stay text.
    ///
    /// # Errors
    /// The template fails on the message, or the text cannot be tokenized within the bounds.
    pub fn encode_within(
        &self,
        tokenizer: &dyn Tokenizer,
        text: &str,
        bounds: &Bounds<'_>,
    ) -> Result<Vec<u32>, Error> {
        let source = self.template.source();
        let in_parts = self.in_parts.unwrap_or_else(|| IN_PARTS.iter().any(|part| source.contains(part)));
        let content = |text: &str| match in_parts {
            true => json!([{ "type": "text", "text": text }]),
            false => Value::from(text),
        };
        let message = |role: &str, text: &str| json!({ "role": role, "content": content(text) });
        let system = (!self.system.is_empty()).then(|| message("system", self.system));
        let messages: Value = system.into_iter().chain([message("user", text)]).collect();
        let prompt = self.template.render_json(&messages, self.options)?;
        tokenizer.encode_within(prompt.text(), Special::Outside(prompt.content()), bounds)
    }

    /// Returns the number of tokens after every text, such as the beginning of an answer: the length of the common
    /// suffix of two different prompts.
    ///
    /// # Errors
    /// As [`encode_within`](Self::encode_within).
    pub fn tail(&self, tokenizer: &dyn Tokenizer) -> Result<usize, Error> {
        let [a, b] = ["0", "1 2 3 4"].map(|text| self.encode_within(tokenizer, text, &Bounds::NONE));
        let (a, b) = (a?, b?);
        let common = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
        // Without any difference the template does not output the text.
        Ok(if common < a.len().min(b.len()) { common } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::from_tokenizer_json;

    const TOKENIZER: &[u8] = br#"{
        "added_tokens": [
            {"id": 7, "content": "<u>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
            {"id": 8, "content": "<a>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
        ],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "user": 3, "0": 4, "1": 5, "4": 6}}
    }"#;

    #[test]
    fn a_text_becomes_the_message_of_a_user() {
        let tokenizer = from_tokenizer_json(TOKENIZER, "tokenizer.json").unwrap();
        let encode = |source: &str, in_parts, system: &str, text: &str| {
            let template = ChatTemplate::new(source, "", "", "t").unwrap();
            let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
            let sole = SoleMessage { template: &template, in_parts, system, options: &options };
            let ids = sole.encode_within(tokenizer.as_ref(), text, &Bounds::NONE).unwrap();
            (ids, sole.tail(tokenizer.as_ref()).unwrap())
        };
        let flat = "{% for m in messages %}{{ m.role }} {{ m.content }} <u>{% endfor %}{% if add_generation_prompt %}<a>{% endif %}";
        assert_eq!(encode(flat, None, "", "a b"), (vec![3, 1, 2, 7, 8], 2));
        // The word `system` has no token in this vocabulary.
        assert_eq!(encode(flat, None, "b", "a"), (vec![0, 2, 7, 3, 1, 7, 8], 2));
        // A special token in the text is text.
        let (ids, _) = encode(flat, Some(false), "", "<u>");
        assert_eq!(ids.iter().filter(|id| **id == 7).count(), 1);
        let parts = "{% for m in messages %}{% for item in m.content %}{% if item.type == 'text' %}{{ item.text }}{% endif %}\
                     {% endfor %}<u>{% endfor %}";
        assert_eq!(encode(parts, None, "", "a b"), (vec![1, 2, 7], 1));
        // A template that does not output the text has no tail.
        assert_eq!(encode("<u>", None, "", "a"), (vec![7], 0));
    }
}
