//! [`AnswerText`]: the text of an answer whose tokens arrive one by one.

use crate::detok::Detokenizer;
use crate::stop::{StopEvent, StopMatcher};
use crate::tokenizer::Tokenizer;

/// Turns the tokens of an answer into text as they come: whole characters only, and none of a stop text.
///
/// Special tokens are structure, not text, and are left out unless [wanted](AnswerText::with_special_tokens).
#[derive(Clone, Debug)]
pub struct AnswerText {
    /// The last token, if the text does not begin after it.
    previous: Option<u32>,
    special: bool,
    characters: Detokenizer,
    stops: StopMatcher,
}

impl AnswerText {
    /// The text behind `prompt`, up to the first of the texts in `stop`.
    pub fn new(tokenizer: &dyn Tokenizer, prompt: &[u32], stop: &[String]) -> AnswerText {
        AnswerText {
            // Behind a special token, as at the end of a chat's prompt, a new text begins.
            previous: prompt.last().copied().filter(|&last| !tokenizer.is_special(last)),
            special: false,
            characters: Detokenizer::new(),
            stops: StopMatcher::new(stop),
        }
    }

    /// The same with special tokens as their names, for whoever reads the answer's structure.
    #[must_use]
    pub fn with_special_tokens(mut self) -> AnswerText {
        self.special = true;
        self
    }

    /// Takes the next token.
    pub fn push(&mut self, tokenizer: &dyn Tokenizer, token: u32) -> StopEvent {
        let previous = self.previous.replace(token);
        let bytes = match (tokenizer.is_special(token), self.special) {
            (true, false) => return StopEvent::default(),
            (true, true) => tokenizer.token_bytes(token).map(Into::into),
            (false, _) => tokenizer.bytes_after(previous, token),
        };
        let text = self.characters.push(&bytes.unwrap_or_default());
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
