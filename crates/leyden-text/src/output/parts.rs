//! [`AnswerParts`]: parts of an answer whose tokens arrive one by one.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use super::{OutputEvent, OutputParser};
use crate::answer::AnswerText;
use crate::stop::StopMatcher;
use crate::tokenizer::Tokenizer;

/// Parts of an answer, converted from its tokens as they arrive. Stop strings are matched in the content only:
/// reasoning and tool calls may contain them.
#[derive(Clone, Debug)]
pub struct AnswerParts {
    text: AnswerText,
    parser: OutputParser,
    stops: StopMatcher,
    has_stops: bool,
    /// Matcher of stop strings in text that is held back, and the number of its bytes already matched.
    ahead: Option<(StopMatcher, usize)>,
    stopped: bool,
    finished: bool,
    /// Number of bytes and of characters of the text so far.
    bytes: usize,
    characters: usize,
    /// Byte ranges of the tokens that are not decided; `None` if not requested.
    tokens: Option<VecDeque<Range<usize>>>,
}

/// Effect of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartsEvent {
    /// Next parts of the answer.
    pub events: Vec<OutputEvent>,
    /// True if a stop string ended the answer; nothing follows.
    pub stopped: bool,
}

impl AnswerParts {
    /// Creates the parts of the answer that `text` detokenizes and `parser` splits, up to a stop string in its
    /// content. `text` must have no stop strings of its own.
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

    /// Records for each token whether it is content: see [`content_tokens`](Self::content_tokens).
    #[must_use]
    pub fn with_tokens(mut self) -> AnswerParts {
        self.tokens = Some(VecDeque::new());
        self
    }

    /// Returns the bytes that a token would add to the text; empty for a special token that is not visible.
    pub fn bytes<'a>(&self, tokenizer: &'a dyn Tokenizer, token: u32) -> Cow<'a, [u8]> {
        self.text.bytes(tokenizer, token)
    }

    /// Returns the number of characters of the text so far, in all parts.
    #[must_use]
    pub fn characters(&self) -> usize {
        self.characters
    }

    /// Takes the next token. With `may_stop` false, stop strings in the text that it adds are ignored.
    pub fn push(&mut self, tokenizer: &dyn Tokenizer, token: u32, may_stop: bool) -> PartsEvent {
        let text = self.text.characters(tokenizer, token);
        let start = self.bytes;
        self.count(&text);
        if let Some(tokens) = &mut self.tokens {
            tokens.push_back(start..self.bytes);
        }
        let parsed = self.parser.push(&text);
        let mut events = self.filtered(parsed, may_stop);
        // Whitespace before a call is not content, but an answer that stops at it has no call.
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

    /// Returns whether text that is held back contains a stop string; it is then content.
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

    /// Ends the answer. Returns the text that was held back; nothing from a stop string on.
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

    /// Returns for each token in turn whether it is part of the content, as far as decided and not returned before.
    /// A token that spans two parts counts as content.
    pub fn content_tokens(&mut self) -> Vec<bool> {
        let over = self.finished || self.stopped;
        let decided = if over { usize::MAX } else { self.parser.decided() };
        let mut of_content = Vec::new();
        let Some(tokens) = &mut self.tokens else { return of_content };
        while let Some(token) = tokens.front() {
            // An empty token belongs to the next part.
            if token.end.max(token.start + 1) > decided {
                break;
            }
            let reach = token.start..token.end.max(token.start + 1);
            let mut spans = self.parser.spans().iter();
            let in_content = spans.any(|span| span.start < reach.end && reach.start < span.end);
            let at_end = token.is_empty() && token.end >= self.parser.decided() && self.parser.in_content();
            of_content.push(in_content || over && at_end);
            let start = token.start;
            tokens.pop_front();
            self.parser.forget_spans(start);
        }
        of_content
    }

    fn count(&mut self, text: &str) {
        self.bytes += text.len();
        self.characters += text.chars().count();
    }

    /// Returns the events up to a stop string in the content.
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
                // A stop string does not extend across other parts.
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

    /// Tokenizer in which every byte is a token.
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

    /// Returns reasoning, content, arguments, the content according to the tokens, and whether a stop string ended
    /// it.
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
        // The opening of a call may be a prefix of a stop string.
        let got = read("", "Hi <call>{\"name\": \"now\", \"arguments\": {\"<\": 1}}", stops("<c!"));
        assert_eq!(got, own("", "Hi", "{\"<\": 1}", "Hi", false));
        // Characters of several tokens, within a stop string and at the end of the answer.
        assert_eq!(read("", "aé🦜b🦜🦙c", stops("🦜🦙")), own("", "aé🦜b", "", "aé🦜b🦜🦙", true));
        assert_eq!(read("", "aé🦜", stops("🦜🦙")), own("", "aé🦜", "", "aé🦜", false));
        let included = stops("🦜🦙").with_stop_included(true);
        assert_eq!(read("", "b🦜🦙c", included).1, "b🦜🦙");
        // All at once, and token by token.
        assert_eq!(read("", "x", stops("x")), own("", "", "", "x", true));
        // Whitespace that might precede a call ends the answer as soon as it is a stop string.
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
