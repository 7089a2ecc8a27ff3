//! Detection of the beginning of a tool call while the answer is generated.
//!
//! Constrained sampling needs to know of a call when it opens, not when it is complete. The watch scans an answer
//! as [`OutputParser`](super::OutputParser) does, skips reasoning, and stops at the opening of a call; the text
//! after it is constrained by a grammar. It works on bytes, because tokens do.

use std::sync::Arc;

use super::OutputFormat;
use super::calls::{CallBody, CallSyntax};
use super::harmony;

/// Maximum number of whitespace bytes at the beginning of an answer that are skipped.
const MAX_BLANKS: usize = 256;
/// Maximum length in bytes of an incomplete opening of a call without marker.
const MAX_BARE_BYTES: usize = 512;

/// Detector of tool calls in an answer.
#[derive(Clone, Debug)]
pub struct CallWatch {
    marks: Arc<Marks>,
    phase: Phase,
    /// Bytes that are not decided yet, or may be the beginning of a marker.
    pending: Vec<u8>,
}

/// Opening of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Opening {
    /// Text of the opening, in the spelling of the format.
    pub written: String,
    /// Bytes after the opening in the last piece.
    pub rest: Vec<u8>,
}

#[derive(Debug, Default)]
struct Marks {
    reasoning: Option<(Vec<u8>, Vec<u8>)>,
    openings: Vec<String>,
    /// For calls without marker: the key of the name, and the names of the tools.
    bare: Option<(String, Vec<String>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Only whitespace and reasoning so far.
    Start,
    Reasoning,
    Text,
    /// Within a harmony header or body.
    Header,
    Body,
}

impl CallWatch {
    /// Creates a watch for one answer to `prompt`; `tools` are the names of the callable tools.
    #[must_use]
    pub fn new(format: &OutputFormat, prompt: &str, tools: &[String]) -> CallWatch {
        let mut marks = Marks::default();
        if format.is_harmony() {
            let phase = if harmony::in_body(prompt) { Phase::Body } else { Phase::Header };
            return CallWatch { marks: marks.into(), phase, pending: Vec::new() };
        }
        marks.reasoning = format.reasoning().map(|(open, close)| (open.into(), close.into()));
        if let Some(syntax) = format.calls() {
            marks.openings = openings(syntax);
            marks.bare = match &syntax.body {
                CallBody::Object { name, list: false, .. } if syntax.is_bare() => {
                    Some((name.clone(), tools.to_vec()))
                }
                _ => None,
            };
        }
        let phase = if format.begins_reasoning(prompt) { Phase::Reasoning } else { Phase::Start };
        CallWatch { marks: marks.into(), phase, pending: Vec::new() }
    }

    /// Creates a watch that looks for a fixed text.
    #[must_use]
    pub fn for_text(text: &str) -> CallWatch {
        let marks = Marks { openings: vec![text.to_owned()], ..Marks::default() };
        CallWatch { marks: marks.into(), phase: Phase::Text, pending: Vec::new() }
    }

    /// Returns all possible values of [`Opening::written`], for formats with markers.
    #[must_use]
    pub fn openings(&self) -> Vec<String> {
        match self.phase {
            Phase::Header | Phase::Body => harmony::OPENINGS.map(str::to_owned).to_vec(),
            Phase::Start | Phase::Reasoning | Phase::Text => {
                let mut all: Vec<String> = self.marks.openings.clone();
                let bare = self.marks.bare.iter();
                all.extend(bare.flat_map(|(key, tools)| tools.iter().map(|tool| bare_opening(key, tool))));
                all
            }
        }
    }

    /// Continues after a complete call.
    pub fn resume(&mut self) {
        self.pending.clear();
        self.phase = match self.phase {
            Phase::Header | Phase::Body => Phase::Body,
            Phase::Start | Phase::Reasoning | Phase::Text => Phase::Text,
        };
    }

    /// Returns the result of [`push`](Self::push) without changing the state.
    #[must_use]
    pub fn peek(&self, bytes: &[u8]) -> Option<Opening> {
        self.clone().push(bytes)
    }

    /// Takes the next piece of the answer. After an opening the watch must be [resumed](Self::resume).
    pub fn push(&mut self, bytes: &[u8]) -> Option<Opening> {
        self.pending.extend_from_slice(bytes);
        let marks = Arc::clone(&self.marks);
        loop {
            let step = match self.phase {
                Phase::Start => self.start(&marks),
                Phase::Reasoning => self.reasoning(&marks),
                Phase::Text => self.text(&marks),
                Phase::Header => self.header(),
                Phase::Body => self.body(),
            };
            match step {
                Step::Wait => return None,
                Step::Again => {}
                Step::Opens(opening) => return Some(opening),
            }
        }
    }

    fn enter(&mut self, phase: Phase, behind: usize) -> Step {
        self.phase = phase;
        self.pending.drain(..behind);
        Step::Again
    }

    fn opens(&self, written: String, behind: usize) -> Step {
        Step::Opens(Opening { written, rest: self.pending[behind..].to_vec() })
    }

    /// Drops pending bytes, except those that may be the beginning of one of `marks`.
    fn keep<'a>(&mut self, marks: impl Iterator<Item = &'a [u8]>) -> Step {
        let kept = marks.map(|mark| mark.len().saturating_sub(1)).max().unwrap_or(0);
        let gone = self.pending.len().saturating_sub(kept);
        self.pending.drain(..gone);
        Step::Wait
    }

    fn start(&mut self, marks: &Marks) -> Step {
        let text = self.pending.trim_ascii_start();
        let blanks = self.pending.len() - text.len();
        if blanks > MAX_BLANKS {
            return self.enter(Phase::Text, 0);
        }
        if let Some((open, _)) = &marks.reasoning {
            if text.starts_with(open) {
                return self.enter(Phase::Reasoning, blanks + open.len());
            }
            if open.starts_with(text) {
                return Step::Wait;
            }
        }
        if text.is_empty() {
            return Step::Wait;
        }
        match marks.bare.as_ref().map_or(Bare::No, |(key, tools)| bare(text, key, tools)) {
            Bare::Yes(written, behind) => self.opens(written, blanks + behind),
            Bare::Partly if text.len() <= MAX_BARE_BYTES => Step::Wait,
            Bare::Partly | Bare::No => self.enter(Phase::Text, 0),
        }
    }

    fn reasoning(&mut self, marks: &Marks) -> Step {
        let close = marks.reasoning.as_ref().map_or(&b""[..], |(_, close)| close);
        match find(&self.pending, close) {
            Some(at) => self.enter(Phase::Start, at + close.len()),
            None => self.keep([close].into_iter()),
        }
    }

    fn text(&mut self, marks: &Marks) -> Step {
        let found = marks.openings.iter().filter_map(|opening| {
            let word = word_of(opening).as_bytes();
            find(&self.pending, word).map(|at| (at, at + word.len(), opening))
        });
        match found.min_by_key(|(at, ..)| *at) {
            Some((_, behind, opening)) => self.opens(opening.clone(), behind),
            None => self.keep(marks.openings.iter().map(|opening| word_of(opening).as_bytes())),
        }
    }

    fn header(&mut self) -> Step {
        match harmony::header(&self.pending) {
            harmony::Seen::Call(opening, behind) => self.opens(opening.to_owned(), behind),
            harmony::Seen::Body(behind) => self.enter(Phase::Body, behind),
            harmony::Seen::More => Step::Wait,
        }
    }

    fn body(&mut self) -> Step {
        match harmony::body_end(&self.pending) {
            Some(behind) => self.enter(Phase::Header, behind),
            None => self.keep(harmony::MARKS.iter().map(|mark| mark.as_bytes())),
        }
    }
}

enum Step {
    /// More bytes are needed.
    Wait,
    Again,
    Opens(Opening),
}

/// Returns the openings of a syntax, each from the beginning of its marker: the first word of the section's marker,
/// and the first two words of the marker of each call, of which models sometimes omit the first.
fn openings(syntax: &CallSyntax) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    let other = syntax.other_start.as_deref().unwrap_or_default();
    for (text, words) in [(syntax.section.0.as_str(), 1), (&syntax.start, 2), (other, 1)] {
        let mut end = 0;
        for word in text.split_ascii_whitespace().take(words) {
            end += text[end..].find(word).unwrap_or(0) + word.len();
            let known = all.iter().any(|opening| word.starts_with(word_of(opening)));
            if word.len() > 1 && !known {
                all.push(text[..end].to_owned());
            }
        }
    }
    all
}

/// Returns the word of an opening that is searched for: its last.
fn word_of(opening: &str) -> &str {
    opening.split_ascii_whitespace().next_back().unwrap_or(opening)
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    if word.is_empty() {
        return None;
    }
    text.windows(word.len()).position(|window| window == word)
}

/// Returns the beginning of a call without marker, up to the tool's name, in the spelling of the format.
fn bare_opening(key: &str, tool: &str) -> String {
    format!("{{{}: {}", serde_json::Value::from(key), serde_json::Value::from(tool))
}

enum Bare {
    /// The opening in the spelling of the format, and its end.
    Yes(String, usize),
    Partly,
    No,
}

/// Returns whether a text begins with an object whose first member is the name of a tool.
fn bare(text: &[u8], key: &str, tools: &[String]) -> Bare {
    let mut at = 0;
    for word in ["{".to_owned(), format!("\"{key}\""), ":".to_owned()] {
        at = text.len() - text[at..].trim_ascii_start().len();
        let rest = &text[at..];
        if !rest.starts_with(word.as_bytes()) {
            return if word.as_bytes().starts_with(rest) { Bare::Partly } else { Bare::No };
        }
        at += word.len();
    }
    at = text.len() - text[at..].trim_ascii_start().len();
    let rest = &text[at..];
    let mut partly = false;
    for tool in tools {
        let name = serde_json::Value::from(tool.as_str()).to_string();
        if rest.starts_with(name.as_bytes()) {
            return Bare::Yes(bare_opening(key, tool), at + name.len());
        }
        partly |= name.as_bytes().starts_with(rest);
    }
    if partly { Bare::Partly } else { Bare::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn syntax(section: &str, start: &str, name: Option<&str>) -> CallSyntax {
        let body = match name {
            Some(name) => {
                CallBody::Object { name: name.into(), arguments: "parameters".into(), id: None, list: false }
            }
            None => {
                CallBody::Named { separator: String::new(), prefix: String::new(), numbered: false, id: None }
            }
        };
        let section = (section.to_owned(), String::new());
        CallSyntax { section, start: start.into(), other_start: None, end: String::new(), body }
    }

    fn format(calls: CallSyntax) -> OutputFormat {
        let reasoning = Some(("<think>".to_owned(), "</think>".to_owned()));
        OutputFormat { reasoning, calls: Some(calls), ..OutputFormat::default() }
    }

    /// Returns the opening and the bytes after it, however the text is split.
    fn opening(format: &OutputFormat, prompt: &str, text: &str) -> Option<(String, String)> {
        let watch = CallWatch::new(format, prompt, &["now".to_owned(), "nowhere".to_owned()]);
        let mut found = Vec::new();
        for piece in 1..=text.len().max(1) {
            let mut one = watch.clone();
            let mut pieces = text.as_bytes().chunks(piece);
            let seen = pieces.find_map(|bytes| {
                assert_eq!(one.peek(bytes), one.clone().push(bytes));
                one.push(bytes)
            });
            found.push(seen.map(|o| {
                let rest = [&o.rest[..], &pieces.collect::<Vec<_>>().concat()].concat();
                (o.written, String::from_utf8(rest).unwrap())
            }));
        }
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{text:?}: {found:?}");
        found.remove(0)
    }

    #[test]
    fn marks_open_calls_in_content_alone() {
        let some = |a: &str, b: &str| Some((a.to_owned(), b.to_owned()));
        let f = format(syntax("", "<call>\n<function=", Some("name")));
        assert_eq!(opening(&f, "", "Hm <call> \n{"), some("<call>", " \n{"));
        assert_eq!(opening(&f, "", "<call>x"), some("<call>", "x"));
        assert_eq!(opening(&f, "", "<<call>x"), some("<call>", "x"));
        assert_eq!(opening(&f, "", "a <function=x"), some("<call>\n<function=", "x"));
        assert_eq!(opening(&f, "", "a < call>"), None);
        assert_eq!(opening(&f, "", " <think>a <call> b"), None);
        assert_eq!(opening(&f, "", " <think>a <call> b</think>\n<call>"), some("<call>", ""));
        assert_eq!(opening(&f, "<think>", "<call></think>c<call>d"), some("<call>", "d"));
        // Not at the beginning, so it is text.
        assert_eq!(opening(&f, "", "x <think> <call>"), some("<call>", ""));
        let f = format(syntax("<calls>", "<call>", None));
        assert_eq!(opening(&f, "", "a<calls><call>"), some("<calls>", "<call>"));
        assert_eq!(opening(&f, "", "a<call>b"), some("<call>", "b"));
        assert_eq!(opening(&OutputFormat::plain(), "", "a<call>b"), None);
    }

    #[test]
    fn a_call_without_a_mark_opens_with_the_name_of_a_tool() {
        let f = format(syntax("", "", Some("name")));
        let call = |rest: &str| Some(("{\"name\": \"now\"".to_owned(), rest.to_owned()));
        assert_eq!(opening(&f, "", "{\"name\": \"now\", "), call(", "));
        assert_eq!(opening(&f, "", " {\n \"name\":\"now\"}"), call("}"));
        let other = Some(("{\"name\": \"nowhere\"".to_owned(), String::new()));
        assert_eq!(opening(&f, "", "{\"name\":\"nowhere\""), other);
        for text in [
            "{\"name\": \"nobody\"",
            "{\"a\": \"now\"",
            "So {\"name\": \"now\"",
            "[{\"name\": \"now\"",
            "",
            "{",
        ] {
            assert_eq!(opening(&f, "", text), None, "{text}");
        }
    }

    #[test]
    fn harmony_opens_calls_in_headers() {
        let f = OutputFormat { harmony: true, ..OutputFormat::default() };
        let call = |written: &str, rest: &str| Some((written.to_owned(), rest.to_owned()));
        let thought = "<|channel|>analysis<|message|>to=functions.x <|end|><|start|>assistant";
        let at = |text: &str| opening(&f, "<|start|>assistant", text);
        assert_eq!(at(thought), None);
        let channel = "<|channel|>commentary to=functions.";
        assert_eq!(at(&format!("{thought}{channel}now <|")), call(channel, "now <|"));
        assert_eq!(at(&format!("{thought} to=functions.now")), call(" to=functions.", "now"));
        assert_eq!(at("<|channel|>final<|message|>a<|end|>"), None);
        assert_eq!(at("Hello to=functions.now"), None);
        assert_eq!(at("<|channel|>commentary to=python to=functions.now"), None);
        let begun = "<|start|>assistant<|channel|>analysis<|message|>";
        assert_eq!(opening(&f, begun, "to=functions.x"), None);
    }
}
