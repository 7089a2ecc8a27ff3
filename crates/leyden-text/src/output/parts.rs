//! [`AnswerParts`]: the parts of an answer whose tokens arrive one by one.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use super::{OutputEvent, OutputParser};
use crate::answer::AnswerText;
use crate::stop::StopMatcher;
use crate::tokenizer::Tokenizer;

/// Turns the tokens of an answer into its parts as they come. Stop texts are looked for in the content alone: reasoning
/// and calls of tools may contain them.
#[derive(Clone, Debug)]
pub struct AnswerParts {
    text: AnswerText,
    parser: OutputParser,
    stops: StopMatcher,
    has_stops: bool,
    /// Matcher of stop texts in text that is held back, and the bytes of it that it has seen.
    ahead: Option<(StopMatcher, usize)>,
    stopped: bool,
    finished: bool,
    /// Bytes and characters of the text so far.
    bytes: usize,
    characters: usize,
    /// Where the tokens stand in the text that are not decided on; `None` if nobody asks.
    tokens: Option<VecDeque<Range<usize>>>,
}

/// What a token added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartsEvent {
    /// More of the answer.
    pub events: Vec<OutputEvent>,
    /// Whether a stop text ended it; nothing follows.
    pub stopped: bool,
}

impl AnswerParts {
    /// The parts of the answer that `text` makes of tokens and that `parser` tells apart, up to a stop text in its
    /// content. `text` knows no stop texts itself.
    #[must_use]
    pub fn new(text: AnswerText, parser: OutputParser, stops: StopMatcher) -> AnswerParts {
        AnswerParts {
            has_stops: !stops.is_empty(),
            ahead: None,
            text,
            parser,
            stops,
            stopped: false,
            finished: false,
            bytes: 0,
            characters: 0,
            tokens: None,
        }
    }

    /// The same, which says of each token whether it is content: see [`content_tokens`](Self::content_tokens).
    #[must_use]
    pub fn with_tokens(mut self) -> AnswerParts {
        self.tokens = Some(VecDeque::new());
        self
    }

    /// What a token would add to the text, in bytes; nothing if it is structure.
    pub fn bytes<'a>(&self, tokenizer: &'a dyn Tokenizer, token: u32) -> Cow<'a, [u8]> {
        self.text.bytes(tokenizer, token)
    }

    /// Characters of the text so far, whatever they are part of.
    #[must_use]
    pub fn characters(&self) -> usize {
        self.characters
    }

    /// Takes the next token. With `may_stop` false stop texts do not count in what it adds.
    pub fn push(&mut self, tokenizer: &dyn Tokenizer, token: u32, may_stop: bool) -> PartsEvent {
        let text = self.text.characters(tokenizer, token);
        let start = self.bytes;
        self.count(&text);
        if let Some(tokens) = &mut self.tokens {
            tokens.push_back(start..self.bytes);
        }
        let parsed = self.parser.push(&text);
        let mut events = self.filtered(parsed, may_stop);
        // Blanks before a call are no content, but an answer that stops at them has no call.
        let blanks = self.parser.waiting_blanks();
        if self.has_stops && may_stop && !self.stopped && self.stops.clone().push(blanks).stopped {
            let rest = self.parser.finish();
            events.extend(self.filtered(rest, true));
        }
        if self.has_stops && !self.stopped && (!may_stop || self.stops_in_held()) {
            let rest = self.parser.without_bare_calls();
            events.extend(self.filtered(rest, may_stop));
        }
        PartsEvent { events, stopped: self.stopped }
    }

    /// Returns whether text that is held back has a stop text: then it is content.
    fn stops_in_held(&mut self) -> bool {
        let held = self.parser.held();
        if held.is_empty() {
            self.ahead = None;
            return false;
        }
        let (stops, seen) = self.ahead.get_or_insert_with(|| (self.stops.clone(), 0));
        let found = stops.push(&held[*seen..]).stopped;
        *seen = held.len();
        found
    }

    /// Ends the answer: what was held back because it might have become something else. Nothing behind a stop text.
    pub fn finish(&mut self) -> Vec<OutputEvent> {
        self.finished = true;
        if self.stopped {
            return Vec::new();
        }
        let text = self.text.finish();
        self.count(&text);
        let mut parsed = self.parser.push(&text);
        parsed.extend(self.parser.finish());
        let mut events = self.filtered(parsed, true);
        push_content(self.stops.finish(), &mut events);
        events
    }

    /// Of each token in turn whether it is part of the content, as far as that is decided and was not asked before. A
    /// token that is text of two parts is part of the content.
    pub fn content_tokens(&mut self) -> Vec<bool> {
        let over = self.finished || self.stopped;
        let decided = if over { usize::MAX } else { self.parser.decided() };
        let mut told = Vec::new();
        let Some(tokens) = &mut self.tokens else { return told };
        while let Some(token) = tokens.front() {
            // One that adds nothing belongs to what comes next.
            if token.end.max(token.start + 1) > decided {
                break;
            }
            let reach = token.start..token.end.max(token.start + 1);
            let mut spans = self.parser.spans().iter();
            let in_content = spans.any(|span| span.start < reach.end && reach.start < span.end);
            let at_end = token.is_empty() && token.end >= self.parser.decided() && self.parser.in_content();
            told.push(in_content || over && at_end);
            let start = token.start;
            tokens.pop_front();
            self.parser.forget_spans(start);
        }
        told
    }

    fn count(&mut self, text: &str) {
        self.bytes += text.len();
        self.characters += text.chars().count();
    }

    /// The events up to a stop text in the content.
    fn filtered(&mut self, parsed: Vec<OutputEvent>, may_stop: bool) -> Vec<OutputEvent> {
        let mut events = Vec::new();
        for event in parsed {
            if self.stopped {
                break;
            }
            match event {
                OutputEvent::Content(text) if may_stop => {
                    let found = self.stops.push(&text);
                    self.stopped = found.stopped;
                    push_content(found.text, &mut events);
                }
                // A stop text does not go on behind something else.
                other => {
                    push_content(self.stops.finish(), &mut events);
                    events.push(other);
                }
            }
        }
        events
    }
}

fn push_content(text: String, events: &mut Vec<OutputEvent>) {
    if !text.is_empty() {
        events.push(OutputEvent::Content(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::output::{CallBody, CallSyntax, OutputFormat};
    use crate::tokenizer::{Bounds, Special};
    use serde_json::json;

    /// Every byte is a token.
    struct Bytes(Vec<u8>);

    impl Tokenizer for Bytes {
        fn encode_within(&self, text: &str, _: Special<'_>, _: &Bounds<'_>) -> Result<Vec<u32>, Error> {
            Ok(text.bytes().map(u32::from).collect())
        }
        fn least_tokens(&self, text: &str) -> usize {
            text.len()
        }
        fn token_bytes(&self, id: u32) -> Option<&[u8]> {
            self.0.get(id as usize..).map(|rest| &rest[..1])
        }
        fn vocab_size(&self) -> usize {
            256
        }
        fn is_special(&self, _: u32) -> bool {
            false
        }
        fn bos(&self) -> Option<u32> {
            None
        }
        fn eos(&self) -> Option<u32> {
            None
        }
        fn is_end(&self, _: u32) -> bool {
            false
        }
        fn add_bos(&self) -> bool {
            false
        }
        fn add_eos(&self) -> bool {
            false
        }
    }

    fn format() -> OutputFormat {
        let body =
            CallBody::Object { name: "name".into(), arguments: "arguments".into(), id: None, list: false };
        let calls = CallSyntax {
            section: Default::default(),
            start: "<call>".into(),
            other_start: None,
            end: "</call>".into(),
            body,
        };
        OutputFormat {
            reasoning: Some(("<think>".into(), "</think>".into())),
            calls: Some(calls),
            ..OutputFormat::default()
        }
    }

    /// Reasoning, content, arguments, what of the text was content by its tokens, and whether a stop text ended it.
    fn read(prompt: &str, text: &str, stops: StopMatcher) -> (String, String, String, String, bool) {
        let tokenizer = Bytes((0..=255).collect());
        let tools = json!([{ "function": { "name": "now" } }]);
        let parser = format().parser(prompt, Some(&tools));
        let plain = AnswerText::new(&tokenizer, &[], &[]);
        let mut parts = AnswerParts::new(plain, parser, stops).with_tokens();
        let (mut reasoning, mut content, mut arguments) = (String::new(), String::new(), String::new());
        let (mut shown, mut bytes, mut stopped) = (Vec::new(), Vec::new(), false);
        let mut take = |events: Vec<OutputEvent>| {
            for event in events {
                match event {
                    OutputEvent::Reasoning(more) => reasoning += &more,
                    OutputEvent::Content(more) => content += &more,
                    OutputEvent::ToolCallArguments { fragment, .. } => arguments += &fragment,
                    _ => {}
                }
            }
        };
        for byte in text.bytes() {
            let event = parts.push(&tokenizer, u32::from(byte), true);
            take(event.events);
            bytes.push(byte);
            shown.extend(parts.content_tokens());
            stopped = event.stopped;
            if stopped {
                break;
            }
        }
        take(parts.finish());
        shown.extend(parts.content_tokens());
        assert_eq!(shown.len(), bytes.len(), "{text}");
        let of_content = bytes.iter().zip(shown).filter(|(_, is)| *is).map(|(b, _)| *b).collect();
        (reasoning, content, arguments, String::from_utf8(of_content).unwrap(), stopped)
    }

    fn stops(text: &str) -> StopMatcher {
        StopMatcher::new(&[text.to_owned()])
    }

    #[test]
    fn stop_texts_end_content_and_nothing_else() {
        let own = |a: &str, b: &str, c: &str, d: &str, e| (a.into(), b.into(), c.into(), d.into(), e);
        let text =
            "a you b</think>Hi <call>{\"name\": \"now\", \"arguments\": {\"x\": \"to you\"}}</call>and you.";
        let got = read("<think>\n", text, stops(" you"));
        assert_eq!(got, own("a you b", "Hiand", "{\"x\": \"to you\"}", "Hiand you", true));
        // What opens a call may begin as a stop text does.
        let got = read("", "Hi <call>{\"name\": \"now\", \"arguments\": {\"<\": 1}}", stops("<c!"));
        assert_eq!(got, own("", "Hi", "{\"<\": 1}", "Hi", false));
        // Characters of several tokens, within a stop text and where the answer ends.
        assert_eq!(read("", "aé🦜b🦜🦙c", stops("🦜🦙")), own("", "aé🦜b", "", "aé🦜b🦜🦙", true));
        assert_eq!(read("", "aé🦜", stops("🦜🦙")), own("", "aé🦜", "", "aé🦜", false));
        let included = stops("🦜🦙").with_stop_included(true);
        assert_eq!(read("", "b🦜🦙c", included).1, "b🦜🦙");
        // At once, and at the first token.
        assert_eq!(read("", "x", stops("x")), own("", "", "", "x", true));
        // Blanks that might stand before a call end the answer as soon as they are a stop text.
        assert_eq!(read("", "a\n\n\n<call>", stops("\n\n")), own("", "a", "", "a\n\n", true));
        assert_eq!(read("<think>", "a\n\nb</think>\n\nc", stops("\n\n")), own("a\n\nb", "c", "", "c", false));
    }

    #[test]
    fn a_stop_text_does_not_go_across_a_call() {
        let text = "a st<call>{\"name\": \"now\"}</call>op b";
        let got = read("", text, stops("stop"));
        assert_eq!((got.1.as_str(), got.4), ("a stop b", false));
    }
}
