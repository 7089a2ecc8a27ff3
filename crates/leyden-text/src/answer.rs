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
    reasoning: Option<Reasoning>,
}

/// Where an answer reasons, found by its tokens' bytes, those of special tokens included.
#[derive(Clone, Debug)]
struct Reasoning {
    open: Vec<u8>,
    close: Vec<u8>,
    /// Whether it has begun; before that, nothing but blanks and a beginning of the mark has come.
    begun: bool,
    /// What may be the beginning of the next mark.
    seen: Vec<u8>,
}

impl Reasoning {
    /// Takes a token's bytes. Returns whether reasoning, or what may become it, goes on behind them.
    fn push(&mut self, bytes: &[u8]) -> bool {
        self.seen.extend_from_slice(bytes);
        if !self.begun {
            let text = self.seen.trim_ascii_start();
            if !text.starts_with(&self.open) {
                return self.open.starts_with(text);
            }
            self.begun = true;
            let behind = self.seen.len() - text.len() + self.open.len();
            self.seen.drain(..behind);
        }
        let closed = self.seen.windows(self.close.len()).any(|window| window == self.close);
        let kept = self.seen.len().min(self.close.len().saturating_sub(1));
        self.seen.drain(..self.seen.len() - kept);
        !closed
    }
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
            reasoning: None,
        }
    }

    /// The same with some special tokens as their names, for whoever reads the answer's structure; `visible` is
    /// ascending.
    #[must_use]
    pub fn with_visible(mut self, visible: Arc<[u32]>) -> AnswerText {
        self.visible = visible;
        self
    }

    /// The same for a model that reasons between two marks before it answers: stop texts count behind that alone. `begun`
    /// says that the prompt has opened it.
    #[must_use]
    pub fn with_reasoning(mut self, open: &str, close: &str, begun: bool) -> AnswerText {
        if !open.is_empty() && !close.is_empty() {
            let (open, close) = (open.into(), close.into());
            self.reasoning = Some(Reasoning { open, close, begun, seen: Vec::new() });
        }
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
        let text = self.characters(tokenizer, token);
        if let Some(reasoning) = &mut self.reasoning {
            let goes_on = reasoning.push(tokenizer.token_bytes(token).unwrap_or_default());
            if reasoning.begun {
                if !goes_on {
                    self.reasoning = None;
                }
                return StopEvent { text: self.stops.finish() + &text, stopped: false };
            }
            if !goes_on {
                self.reasoning = None;
            }
        }
        if text.is_empty() { StopEvent::default() } else { self.stops.push(&text) }
    }

    /// Takes the next token: the characters that it completes, stop texts left aside.
    pub(crate) fn characters(&mut self, tokenizer: &dyn Tokenizer, token: u32) -> String {
        let bytes = self.bytes(tokenizer, token);
        self.previous = Some(token);
        if bytes.is_empty() { String::new() } else { self.characters.push(&bytes) }
    }

    /// Ends the text: what was held back because it might have become a character or a stop text. Nothing behind a
    /// stop text.
    pub fn finish(&mut self) -> String {
        let text = self.characters.finish();
        let event = self.stops.push(&text);
        if event.stopped { event.text } else { event.text + &self.stops.finish() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_is_found_in_bytes_however_they_are_cut() {
        let new =
            |begun| Reasoning { open: "<think>".into(), close: "</think>".into(), begun, seen: Vec::new() };
        let reach = |begun: bool, text: &str, step: usize| -> usize {
            let mut reasoning = new(begun);
            let mut pieces = text.as_bytes().chunks(step);
            let mut read = 0;
            pieces.find(|piece| {
                read += piece.len();
                !reasoning.push(piece)
            });
            read
        };
        for step in 1..=3 {
            let near =
                |at: usize, read: usize| assert!((at..at + step).contains(&read), "{at} {read} {step}");
            near("a b</think>".len(), reach(true, "a b</think>rest of it", step));
            near("\n<think>a</think>".len(), reach(false, "\n<think>a</think>rest of it", step));
            // None at all.
            near("<b".len(), reach(false, "<b> and", step));
            near(1, reach(false, "Hello", step));
            assert_eq!(reach(true, "never ends", step), "never ends".len());
        }
    }
}
