//! Parser of harmony messages (OpenAI, "OpenAI Harmony Response Format", 2025): a header with a channel and an
//! optional recipient, and a body. The channel `analysis` is reasoning, `final` is content, and a message to
//! `functions.x` calls `x`.

use super::calls::MAX_CALL_BYTES;
use super::json_scan::{JsonScan, Scanned};
use super::literal::beginning;
use super::parsed::Part;
use super::tools::is_object;

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
/// Markers that may follow a body.
const ENDS: [&str; 5] = ["<|end|>", "<|call|>", "<|return|>", START, CHANNEL];
/// All markers of the format.
pub(super) const MARKS: [&str; 7] =
    [START, CHANNEL, MESSAGE, "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"];
/// Maximum length of a header in bytes; a longer text is not a header.
const MAX_HEADER_BYTES: usize = 1024;
/// Beginnings of a call's header, with a channel and without.
pub(super) const OPENINGS: [&str; 2] = ["<|channel|>commentary to=functions.", " to=functions."];

#[derive(Clone, Debug)]
enum State {
    Header,
    Body(Body),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Body {
    Reasoning,
    Content,
    /// Arguments for this tool.
    Call(String),
    /// After the arguments of a call.
    Behind,
}

/// Parser of a harmony answer.
#[derive(Clone, Debug)]
pub(super) struct Harmony {
    state: State,
    pending: String,
    tools: bool,
    /// Arguments of the open call so far, and their scanner.
    call: Option<(String, JsonScan)>,
    /// Number of bytes pushed.
    pushed: usize,
}

impl Harmony {
    pub(super) fn new(prompt: &str, tools: bool) -> Harmony {
        let state = begun(prompt).map_or(State::Header, |header| State::Body(kind(header, tools)));
        Harmony { state, pending: String::new(), tools, call: None, pushed: 0 }
    }

    pub(super) fn run(&mut self, text: &str, done: bool, parts: &mut Vec<Part>) {
        self.pushed += text.len();
        self.pending.push_str(text);
        while self.step(done, parts) {}
    }

    pub(super) fn pending(&self) -> &str {
        &self.pending
    }

    /// Returns whether the next text is content.
    pub(super) fn in_content(&self) -> bool {
        matches!(self.state, State::Body(Body::Content))
    }

    fn step(&mut self, done: bool, parts: &mut Vec<Part>) -> bool {
        if self.pending.is_empty() && !done {
            return false;
        }
        match self.state.clone() {
            State::Header => self.header(done, parts),
            State::Body(body) => self.body(&body, done, parts),
        }
    }

    fn header(&mut self, done: bool, parts: &mut Vec<Part>) -> bool {
        let is_header = is_header(self.pending.as_bytes());
        let end = self.pending.find(MESSAGE);
        if !is_header || end.unwrap_or(self.pending.len()) > MAX_HEADER_BYTES {
            self.state = State::Body(Body::Content);
            return true;
        }
        match end {
            Some(end) => {
                self.state = State::Body(kind(&self.pending[..end], self.tools));
                self.pending.drain(..end + MESSAGE.len());
                true
            }
            None if done => {
                // Only markers and roles, which are not text.
                self.pending.clear();
                let _ = parts;
                false
            }
            None => false,
        }
    }

    fn body(&mut self, body: &Body, done: bool, parts: &mut Vec<Part>) -> bool {
        let end = ENDS.iter().filter_map(|end| Some((self.pending.find(end)?, *end))).min();
        match body {
            Body::Call(name) => return self.call(name, end, done, parts),
            Body::Behind => return self.behind(end, done),
            Body::Reasoning | Body::Content => {}
        }
        let (at, found) = match end {
            Some((at, _)) => (at, true),
            None if done => (self.pending.len(), false),
            None => {
                let held = ENDS.iter().map(|end| beginning(&self.pending, 0, end)).max().unwrap_or(0);
                (self.pending.len() - held, false)
            }
        };
        let text: String = self.pending.drain(..at).collect();
        let content_end = self.pushed - self.pending.len();
        let is_reasoning = *body == Body::Reasoning;
        parts.push(if is_reasoning { Part::Reasoning(text) } else { Part::Content(text, content_end) });
        if found {
            self.after(end.map(|(_, mark)| mark));
        }
        found
    }

    /// Outputs a call's arguments as they arrive. A body that does not begin with an object is content.
    fn call(
        &mut self,
        name: &str,
        end: Option<(usize, &'static str)>,
        done: bool,
        parts: &mut Vec<Part>,
    ) -> bool {
        let begins = || Part::CallBegins { id: None, name: name.to_owned() };
        let (arguments, scan) = match &mut self.call {
            Some(call) => call,
            None => {
                let blanks = self.pending.len() - self.pending.trim_start().len();
                let rest = &self.pending[blanks..];
                match (rest.is_empty(), end) {
                    (false, _) if rest.starts_with('{') => {}
                    (true, _) if !done => return false,
                    // The answer ended before the arguments.
                    (true, _) => {
                        parts.extend([begins(), Part::Unfinished]);
                        self.pending.clear();
                        return false;
                    }
                    (false, Some((at, mark))) if at == blanks => {
                        parts.extend([begins(), Part::Arguments("{}".to_owned()), Part::CallEnds]);
                        self.pending.drain(..at);
                        self.after(Some(mark));
                        return true;
                    }
                    (false, None) if !done && is_mark_begun(rest) => return false,
                    (false, _) => {
                        self.state = State::Body(Body::Content);
                        return true;
                    }
                }
                self.pending.drain(..blanks);
                parts.push(begins());
                self.call.insert((String::new(), JsonScan::default()))
            }
        };
        let scanned = scan.scan(&self.pending, 0);
        let to = match scanned {
            Scanned::More => self.pending.len(),
            Scanned::End(at) | Scanned::Wrong(at) => at,
        };
        let text: String = self.pending.drain(..to).collect();
        arguments.push_str(&text);
        let too_long = arguments.len() > MAX_CALL_BYTES;
        let whole = matches!(scanned, Scanned::End(_)) && is_object(arguments);
        if !text.is_empty() {
            parts.push(Part::Arguments(text));
        }
        match scanned {
            Scanned::More if !done && !too_long => return false,
            Scanned::More | Scanned::Wrong(_) => {
                parts.push(Part::Unfinished);
                // A marker that ends the body truncated the arguments.
                self.state = State::Body(Body::Behind);
            }
            Scanned::End(_) => {
                parts.push(if whole { Part::CallEnds } else { Part::Unfinished });
                self.state = State::Body(Body::Behind);
            }
        }
        self.call = None;
        true
    }

    /// Reads the text after the arguments. Only the marker that ends the body may follow; any other text is
    /// content.
    fn behind(&mut self, end: Option<(usize, &'static str)>, done: bool) -> bool {
        let blanks = self.pending.len() - self.pending.trim_start().len();
        let rest = &self.pending[blanks..];
        match end {
            Some((at, mark)) if at == blanks => {
                self.pending.drain(..at);
                self.after(Some(mark));
                return true;
            }
            _ if rest.is_empty() && done => self.pending.clear(),
            _ if rest.is_empty() || !done && is_mark_begun(rest) => {}
            _ => {
                self.state = State::Body(Body::Content);
                return true;
            }
        }
        false
    }

    /// Removes the marker after a body, unless it begins the next header.
    fn after(&mut self, mark: Option<&str>) {
        if let Some(mark) = mark.filter(|mark| ![START, CHANNEL].contains(mark)) {
            self.pending.drain(..mark.len());
        }
        self.state = State::Header;
    }
}

/// Returns the header of the message that the prompt leaves open, if there is one.
fn begun(prompt: &str) -> Option<&str> {
    let (header, body) = prompt[prompt.rfind(START)?..].split_once(MESSAGE)?;
    (!ENDS.iter().any(|end| body.contains(end))).then_some(header)
}

/// Returns whether an answer to the prompt begins within a body.
pub(super) fn in_body(prompt: &str) -> bool {
    begun(prompt).is_some()
}

/// Returns whether a text may be the beginning of a header.
fn is_header(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let begins = |mark: &[u8]| text.starts_with(mark) || mark.starts_with(text);
    [START, CHANNEL, MESSAGE, "to=", "assistant", "<|constrain|>"].iter().any(|mark| begins(mark.as_bytes()))
}

/// Result of looking at a header.
#[derive(Debug)]
pub(super) enum Seen {
    More,
    /// The header ends before this byte.
    Body(usize),
    /// The header begins with one of the [`OPENINGS`], which ends before this byte.
    Call(&'static str, usize),
}

/// Recipient of a call, up to the tool's name.
const FUNCTIONS: &str = "to=functions.";

/// Examines the header received so far.
pub(super) fn header(text: &[u8]) -> Seen {
    let find = |word: &str| text.windows(word.len()).position(|window| window == word.as_bytes());
    let end = find(MESSAGE);
    if !is_header(text) || end.unwrap_or(text.len()) > MAX_HEADER_BYTES {
        return Seen::Body(0);
    }
    let to = find("to=").filter(|to| end.is_none_or(|end| *to < end));
    match (to, end) {
        (Some(to), _) if text[to..].starts_with(FUNCTIONS.as_bytes()) => {
            let channel = find(CHANNEL).is_some_and(|channel| channel < to);
            Seen::Call(OPENINGS[usize::from(!channel)], to + FUNCTIONS.len())
        }
        (_, Some(end)) => Seen::Body(end + MESSAGE.len()),
        (_, None) => Seen::More,
    }
}

/// Returns the end of the marker that ends a body, or its start if it belongs to the next header.
pub(super) fn body_end(text: &[u8]) -> Option<usize> {
    let find = |mark: &&str| text.windows(mark.len()).position(|window| window == mark.as_bytes());
    let (at, mark) = ENDS.iter().filter_map(|mark| Some((find(mark)?, *mark))).min()?;
    Some(if [START, CHANNEL].contains(&mark) { at } else { at + mark.len() })
}

/// Returns the kind of the body that follows a header.
fn kind(header: &str, tools: bool) -> Body {
    let word = |text: &str| text.split([' ', '<', '\n']).next().unwrap_or_default().to_owned();
    let recipient = header.find("to=").map(|at| word(&header[at + 3..]));
    if let Some(name) = recipient.filter(|name| tools && !name.is_empty()) {
        return Body::Call(name.strip_prefix("functions.").map_or(name.clone(), str::to_owned));
    }
    let channel = header.find(CHANNEL).map(|at| word(&header[at + CHANNEL.len()..]));
    if channel.as_deref() == Some("analysis") { Body::Reasoning } else { Body::Content }
}

/// Returns whether a text may be the beginning of a marker that ends a body.
fn is_mark_begun(text: &str) -> bool {
    ENDS.iter().any(|end| end.starts_with(text))
}
