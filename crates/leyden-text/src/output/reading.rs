//! The reading of one call.

use serde_json::Value as Json;
use serde_json::value::RawValue;
use std::collections::HashMap;

use super::calls::{Call, CallBody, MOST_CALL_BYTES, Progress, Reader};
use super::json_scan::{JsonScan, Scanned};
use super::literal::{Found, Literal, Match};
use super::parser::Part;
use super::tools::{Tools, is_begun, unclosed_string};

/// The longest name of a tool or parameter, in bytes.
const MOST_NAME_BYTES: usize = 256;
/// The most parameters of a call that are not JSON.
const MOST_PARAMETERS: usize = 1024;

/// The reading of one call, from the text before it.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    stage: Stage,
    /// How far the text has been looked at.
    at: usize,
    /// Where the current part begins.
    from: usize,
    call: Call,
    /// The parameters so far of a call that is not JSON, each as a member of a JSON object, and the key of the next. What
    /// the model said twice stands there twice, as in the formats whose calls are JSON.
    members: Vec<String>,
    key: String,
    scan: JsonScan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Start,
    Object,
    Name,
    Arguments,
    KeyOrEnd,
    Key,
    Value,
}

impl Reading {
    pub(super) fn new() -> Reading {
        Reading {
            stage: Stage::Start,
            at: 0,
            from: 0,
            call: Call { id: None, name: String::new(), arguments: String::new() },
            members: Vec::new(),
            key: String::new(),
            scan: JsonScan::default(),
        }
    }

    /// Goes on. `text` begins where the call does and has grown since; `done` says that it will not grow any more.
    pub(super) fn advance(&mut self, text: &str, reader: &Reader, tools: &Tools, done: bool) -> Progress {
        let most = text.floor_char_boundary(MOST_CALL_BYTES);
        match self.advance_unbounded(text, reader, tools, done) {
            Progress::More if text.len() > most => Progress::Failed(most),
            Progress::Done(_, end) if end > most => Progress::Failed(most),
            progress => progress,
        }
    }

    fn advance_unbounded(&mut self, text: &str, reader: &Reader, tools: &Tools, done: bool) -> Progress {
        loop {
            let next = match self.stage {
                Stage::Start => self.start(text, reader),
                Stage::Object => self.object(text, reader, tools, done),
                Stage::Name => self.name(text, reader),
                Stage::Arguments => self.arguments(text, reader, done),
                Stage::KeyOrEnd => self.key_or_end(text, reader, done),
                Stage::Key => self.key(text, reader),
                Stage::Value => self.value(text, reader, tools),
            };
            match next {
                Next::Stage(stage) => self.stage = stage,
                Next::Out(progress) => return progress,
            }
        }
    }

    fn start(&mut self, text: &str, reader: &Reader) -> Next {
        let first = match reader.section.at(text, 0) {
            Match::Yes(end) => end,
            Match::Partly if !matches!(reader.start.at(text, 0), Match::Yes(_)) => return Next::more(),
            _ => 0,
        };
        let other =
            if reader.other_start.is_empty() { Match::No } else { reader.other_start.at(text, first) };
        let start = if other == Match::No { reader.start.at_or_rest(text, first) } else { other };
        match start {
            Match::Yes(end) => {
                (self.at, self.from) = (end, end);
                let is_object = matches!(reader.body, CallBody::Object { .. });
                Next::Stage(if is_object { Stage::Object } else { Stage::Name })
            }
            Match::Partly => Next::more(),
            Match::No => Next::failed(text, 0),
        }
    }

    /// Where the JSON value ends that begins at `from`, or what to do as long as it has no end.
    fn value_end(&mut self, text: &str) -> Result<usize, Next> {
        match self.scan.scan(text, self.at) {
            Scanned::End(end) => {
                // The scan stands behind the value; a second visit must find it there again.
                (self.at, self.scan) = (self.from, JsonScan::default());
                Ok(end)
            }
            Scanned::More => {
                self.at = text.len();
                Err(Next::more())
            }
            Scanned::Wrong(at) => Err(Next::failed(text, at)),
        }
    }

    fn object(&mut self, text: &str, reader: &Reader, tools: &Tools, done: bool) -> Next {
        let end = match self.value_end(text) {
            Ok(end) => end,
            Err(next) => return next,
        };
        match object_calls(&text[self.from..end], &reader.body) {
            Some(calls) if !reader.known_only || calls.iter().all(|call| tools.has(&call.name)) => {
                finish(calls, text, end, reader, done)
            }
            _ => Next::failed(text, end),
        }
    }

    fn name(&mut self, text: &str, reader: &Reader) -> Next {
        let rest = text[self.from..].trim_ascii_start();
        let start = text.len() - rest.len();
        // Behind the name stands what the syntax says, and in any case no letter of a name.
        let length = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        if length > MOST_NAME_BYTES {
            return Next::failed(text, start);
        }
        if length == rest.len() {
            return Next::more();
        }
        if length == 0 {
            return Next::failed(text, start);
        }
        let (mut name, mut end) = (&rest[..length], start + length);
        if let CallBody::Named { numbered, .. } = &reader.body {
            if *numbered
                && let Some((before, number)) = name.rsplit_once(':')
                && number.bytes().all(|b| b.is_ascii_digit())
            {
                self.call.id = Some(name.to_owned());
                name = before.rsplit_once('.').map_or(before, |(_, tool)| tool);
            }
            if !reader.id.is_empty() {
                match reader.id.at(text, end) {
                    Match::Partly => return Next::more(),
                    Match::No => {}
                    Match::Yes(id_start) => {
                        let id = &text[id_start..];
                        let length = id.find(|c: char| !is_name(c)).unwrap_or(id.len());
                        if length == id.len() && length <= MOST_NAME_BYTES {
                            return Next::more();
                        }
                        self.call.id = Some(id[..length].to_owned());
                        end = id_start + length;
                    }
                }
            }
        }
        let tagged = matches!(reader.body, CallBody::Tagged { .. });
        match reader.separator.at(text, end) {
            Match::Yes(behind) => {
                self.call.name = name.to_owned();
                (self.at, self.from) = (behind, behind);
                Next::Stage(if tagged { Stage::KeyOrEnd } else { Stage::Arguments })
            }
            Match::Partly => Next::more(),
            Match::No => Next::failed(text, end),
        }
    }

    fn arguments(&mut self, text: &str, reader: &Reader, done: bool) -> Next {
        let end = match self.value_end(text) {
            Ok(end) => end,
            Err(next) => return next,
        };
        let Some(arguments) = as_object(&text[self.from..end]) else { return Next::failed(text, end) };
        finish(vec![Call { arguments, ..self.call.clone() }], text, end, reader, done)
    }

    fn key_or_end(&mut self, text: &str, reader: &Reader, done: bool) -> Next {
        let key = reader.key_start.at(text, self.at);
        if let Match::Yes(end) = key {
            if self.members.len() >= MOST_PARAMETERS {
                return Next::failed(text, end);
            }
            (self.at, self.from) = (end, end);
            return Next::Stage(Stage::Key);
        }
        let call = || {
            let arguments = format!("{{{}}}", self.members.join(","));
            vec![Call { arguments, ..self.call.clone() }]
        };
        match reader.end.at(text, self.at) {
            Match::Yes(end) => Next::Out(Progress::Done(call(), end)),
            Match::Partly if done && !text[self.at..].trim_ascii().is_empty() => {
                Next::Out(Progress::Done(call(), text.len()))
            }
            Match::Partly => Next::more(),
            Match::No if key == Match::Partly => Next::more(),
            // The first word of the end is enough; models forget the second.
            Match::No => {
                let first = reader.end.words().first().map(|word| Literal::new(word));
                match first.map(|first| first.at(text, self.at)) {
                    Some(Match::Yes(end)) => Next::Out(Progress::Done(call(), end)),
                    _ => Next::failed(text, self.at),
                }
            }
        }
    }

    fn key(&mut self, text: &str, reader: &Reader) -> Next {
        match reader.key_end.find(text, self.at) {
            Found::At(at, end) if at - self.from <= MOST_NAME_BYTES => {
                self.key = text[self.from..at].trim().to_owned();
                (self.at, self.from) = (end, end);
                Next::Stage(Stage::Value)
            }
            Found::NotBefore(at) if at - self.from <= MOST_NAME_BYTES => {
                self.at = at;
                Next::more()
            }
            _ => Next::failed(text, self.from),
        }
    }

    fn value(&mut self, text: &str, reader: &Reader, tools: &Tools) -> Next {
        match reader.value_end.find(text, self.at) {
            Found::At(at, end) => {
                let value = tools.value(&self.call.name, &self.key, unframed(&text[self.from..at]));
                self.members.push(member(&self.key, &value.to_string()));
                (self.at, self.from) = (end, end);
                Next::Stage(Stage::KeyOrEnd)
            }
            Found::NotBefore(at) => {
                self.at = at;
                Next::more()
            }
        }
    }

    /// What is known of calls that the end of the answer cut off: those that are whole, then the last. Nothing where no
    /// call is to be seen.
    pub(super) fn unfinished(&self, text: &str, reader: &Reader, tools: &Tools) -> Vec<Part> {
        // Behind `at` stands what may be a mark.
        let part = || &text[self.from..self.at];
        let last = match self.stage {
            Stage::Object => return unfinished_objects(&text[self.from..], &reader.body),
            Stage::Arguments => {
                let arguments = text[self.from..].trim_ascii_start().to_owned();
                Some(Call { arguments, ..self.call.clone() })
            }
            Stage::KeyOrEnd | Stage::Key | Stage::Value => {
                let mut members = self.members.clone();
                match self.stage {
                    Stage::Key => members.push(unclosed_string(part().trim_start())),
                    Stage::Value => {
                        let value = tools.unfinished_value(&self.call.name, &self.key, unframed(part()));
                        members.push(member(&self.key, &value));
                    }
                    _ => {}
                }
                let arguments = format!("{{{}", members.join(","));
                Some(Call { arguments, ..self.call.clone() })
            }
            Stage::Start | Stage::Name => None,
        };
        last.map(Part::Unfinished).into_iter().collect()
    }
}

enum Next {
    Stage(Stage),
    Out(Progress),
}

impl Next {
    fn more() -> Next {
        Next::Out(Progress::More)
    }

    /// Not a call, as is seen at `at`; at least one character goes.
    fn failed(text: &str, at: usize) -> Next {
        let least = text.chars().next().map_or(0, char::len_utf8);
        let mut at = at.clamp(least, text.len());
        while !text.is_char_boundary(at) {
            at += 1;
        }
        Next::Out(Progress::Failed(at))
    }
}

/// Behind a whole call: its end, which models may forget.
fn finish(calls: Vec<Call>, text: &str, end: usize, reader: &Reader, done: bool) -> Next {
    match reader.end.at(text, end) {
        Match::Yes(end) => Next::Out(Progress::Done(calls, end)),
        Match::Partly if !done => Next::more(),
        Match::Partly => Next::Out(Progress::Done(calls, text.len())),
        Match::No => Next::Out(Progress::Done(calls, end)),
    }
}

/// Whether a character may stand in a tool's name.
fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/')
}

/// A value without the line breaks that stand between it and its marks.
fn unframed(value: &str) -> &str {
    let value = value.strip_prefix('\n').unwrap_or(value);
    value.strip_suffix('\n').unwrap_or(value)
}

/// A member of a JSON object.
fn member(key: &str, value: &str) -> String {
    format!("{}:{value}", Json::from(key))
}

/// The text of a JSON object; arguments that are such a text in a string are taken out of it.
fn as_object(text: &str) -> Option<String> {
    let text = text.trim();
    match serde_json::from_str::<Json>(text).ok()? {
        Json::Object(_) => Some(text.to_owned()),
        Json::String(inner) => {
            let is_object = serde_json::from_str::<Json>(&inner).ok()?.is_object();
            is_object.then_some(inner)
        }
        Json::Null => Some("{}".into()),
        _ => None,
    }
}

/// The calls that a JSON value holds.
fn object_calls(text: &str, body: &CallBody) -> Option<Vec<Call>> {
    let CallBody::Object { name, arguments, id, .. } = body else { return None };
    let text = text.trim();
    let objects: Vec<HashMap<String, &RawValue>> = match text.starts_with('[') {
        true => serde_json::from_str(text).ok()?,
        false => vec![serde_json::from_str(text).ok()?],
    };
    let call = |object: &HashMap<String, &RawValue>| {
        let text_of = |key: &str| serde_json::from_str::<String>(object.get(key)?.get()).ok();
        let arguments = match object.get(arguments.as_str()).or_else(|| object.get(other_key(arguments))) {
            Some(raw) => as_object(raw.get())?,
            None => "{}".to_owned(),
        };
        let id = id.as_ref().and_then(|id| text_of(id));
        Some(Call { id, name: text_of(name).filter(|name| !name.is_empty())?, arguments })
    };
    let calls: Vec<Call> = objects.iter().map(call).collect::<Option<_>>()?;
    (!calls.is_empty()).then_some(calls)
}

/// Models confuse the two.
fn other_key(arguments: &str) -> &'static str {
    if arguments == "arguments" { "parameters" } else { "arguments" }
}

/// The calls of an object or list that is not whole, then the last or, where that does not say which tool it calls, its
/// text. Nothing where it is no beginning of JSON or no call is to be seen.
fn unfinished_objects(text: &str, body: &CallBody) -> Vec<Part> {
    if !is_begun(text) {
        return Vec::new();
    }
    let (mut parts, mut rest) = (Vec::new(), text.trim_ascii_start());
    if let Some(list) = rest.strip_prefix('[') {
        let between = [' ', '\t', '\n', '\r', ','];
        rest = list.trim_start_matches(between);
        while let Scanned::End(end) = JsonScan::default().scan(rest, 0) {
            let Some(calls) = object_calls(&rest[..end], body) else { return Vec::new() };
            parts.extend(calls.into_iter().map(Part::Call));
            rest = rest[end..].trim_start_matches(between);
        }
    }
    match unfinished_object(rest, body) {
        Some(call) => parts.push(Part::Unfinished(call)),
        None if !parts.is_empty() => parts.push(Part::Content(rest.to_owned())),
        None => {}
    }
    parts
}

/// Name and arguments of an object that is not whole.
fn unfinished_object(text: &str, body: &CallBody) -> Option<Call> {
    let CallBody::Object { name, arguments, .. } = body else { return None };
    let behind = |key: &str| {
        let at = text.find(&format!("\"{key}\""))? + key.len() + 2;
        Some(text[at..].trim_start().strip_prefix(':')?.trim_start())
    };
    let name: String = {
        let rest = behind(name)?.strip_prefix('"')?;
        rest[..rest.find('"')?].to_owned()
    };
    let arguments = behind(arguments).filter(|rest| rest.starts_with('{')).unwrap_or_default();
    let arguments = match JsonScan::default().scan(arguments, 0) {
        Scanned::End(end) => &arguments[..end],
        _ => arguments,
    };
    Some(Call { id: None, name, arguments: arguments.to_owned() })
}
