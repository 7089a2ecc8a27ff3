//! [`AnswerText`]: text of an answer whose tokens arrive one by one.

use crate::detok::Detokenizer;
use crate::stop::{StopEvent, StopMatcher};
use crate::tokenizer::Tokenizer;
use std::borrow::Cow;
use std::sync::Arc;

/// Text of an answer, converted from its tokens as they arrive: only whole characters, and nothing of a stop string.
///
/// Special tokens are left out unless [made visible](AnswerText::with_visible).
#[derive(Clone, Debug)]
pub struct AnswerText {
    /// Last token, or `None` if the text starts anew after it.
    previous: Option<u32>,
    /// Sorted ids of the special tokens that are output as text.
    visible: Arc<[u32]>,
    characters: Detokenizer,
    stops: StopMatcher,
    reasoning: Option<Reasoning>,
}

/// State of the search for the reasoning section. It looks at the bytes of all tokens, special tokens included.
#[derive(Clone, Debug)]
struct Reasoning {
    open: Vec<u8>,
    close: Vec<u8>,
    /// True once the opening marker was found; until then only whitespace and a prefix of the marker have come.
    begun: bool,
    /// Pending bytes that may be the beginning of the next marker.
    seen: Vec<u8>,
}

impl Reasoning {
    /// Takes a token's bytes. Returns whether reasoning, or what may become its opening marker, continues after
    /// them.
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
    /// Creates the text that follows `prompt`, up to the first stop string of `stop`.
    pub fn new(tokenizer: &dyn Tokenizer, prompt: &[u32], stop: &[String]) -> AnswerText {
        AnswerText {
            // After a special token, as at the end of a chat prompt, the text starts anew.
            previous: prompt.last().copied().filter(|&last| !tokenizer.is_special(last)),
            visible: Arc::default(),
            characters: Detokenizer::new(),
            stops: StopMatcher::new(stop),
            reasoning: None,
        }
    }

    /// Outputs the special tokens in `visible` (sorted ids) as their names, for parsers of the answer's structure.
    #[must_use]
    pub fn with_visible(mut self, visible: Arc<[u32]>) -> AnswerText {
        self.visible = visible;
        self
    }

    /// Disables stop strings within the reasoning between `open` and `close`. `begun` is true if the prompt ends
    /// within reasoning.
    #[must_use]
    pub fn with_reasoning(mut self, open: &str, close: &str, begun: bool) -> AnswerText {
        if !open.is_empty() && !close.is_empty() {
            let (open, close) = (open.into(), close.into());
            self.reasoning = Some(Reasoning { open, close, begun, seen: Vec::new() });
        }
        self
    }

    /// Returns the bytes that a token would add; empty for a special token that is not visible.
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

    /// Takes the next token. Returns the text that is now complete.
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

    /// Takes the next token. Returns the characters that it completes, without looking for stop strings.
    pub(crate) fn characters(&mut self, tokenizer: &dyn Tokenizer, token: u32) -> String {
        let bytes = self.bytes(tokenizer, token);
        self.previous = Some(token);
        if bytes.is_empty() { String::new() } else { self.characters.push(&bytes) }
    }

    /// Ends the text. Returns the text that was held back as a possible beginning of a character or stop string;
    /// nothing of it from a stop string on.
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
