//! [`AnswerText`]: the text of an answer whose tokens arrive one by one.

use crate::detok::Detokenizer;
use crate::stop::{StopEvent, StopMatcher};
use crate::tokenizer::Tokenizer;
use std::borrow::Cow;
use std::sync::Arc;

/// Turns the tokens of an answer into text as they come: whole characters only, and none of a stop text.
///
/// Special tokens are structure, not text, and are left out unless [made visible](AnswerText::with_visible).
#[derive(Clone, Debug)]
pub struct AnswerText {
    /// The last token, if the text does not begin after it.
    previous: Option<u32>,
    /// Special tokens that are text, ascending.
    visible: Arc<[u32]>,
    characters: Detokenizer,
    stops: StopMatcher,
}

impl AnswerText {
    /// The text behind `prompt`, up to the first of the texts in `stop`.
    pub fn new(tokenizer: &dyn Tokenizer, prompt: &[u32], stop: &[String]) -> AnswerText {
        AnswerText {
            // Behind a special token, as at the end of a chat's prompt, a new text begins.
            previous: prompt.last().copied().filter(|&last| !tokenizer.is_special(last)),
            visible: Arc::default(),
            characters: Detokenizer::new(),
            stops: StopMatcher::new(stop),
        }
    }

    /// The same with some special tokens as their names, for whoever reads the answer's structure; `visible` is
    /// ascending.
    #[must_use]
    pub fn with_visible(mut self, visible: Arc<[u32]>) -> AnswerText {
        self.visible = visible;
        self
    }

    /// What a token would add, in bytes; nothing if it is structure.
    pub fn bytes<'a>(&self, tokenizer: &'a dyn Tokenizer, token: u32) -> Cow<'a, [u8]> {
        let bytes = if !tokenizer.is_special(token) {
            tokenizer.bytes_after(self.previous, token)
        } else if self.visible.binary_search(&token).is_ok() {
            tokenizer.token_bytes(token).map(Into::into)
        } else {
            None
        };
        bytes.unwrap_or_default()
    }

    /// Takes the next token.
    pub fn push(&mut self, tokenizer: &dyn Tokenizer, token: u32) -> StopEvent {
        let bytes = self.bytes(tokenizer, token);
        self.previous = Some(token);
        if bytes.is_empty() {
            return StopEvent::default();
        }
        let text = self.characters.push(&bytes);
        self.stops.push(&text)
    }

    /// Ends the text: what was held back because it might have become a character or a stop text. Nothing behind a
    /// stop text.
    pub fn finish(&mut self) -> String {
        let text = self.characters.finish();
        let event = self.stops.push(&text);
        if event.stopped { event.text } else { event.text + &self.stops.finish() }
    }
}
