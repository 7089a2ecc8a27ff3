//! Incremental parser of tool calls.
//!
//! A call is output as soon as it is certain: its name once known, and its arguments, as JSON, as they arrive.
//! Until then the text can still turn out to be content; afterwards it cannot, and a call that breaks the syntax is
//! [left open](Reading::is_open).

use serde_json::Value as Json;

use super::calls::{CallBody, MAX_CALL_BYTES, Progress, Reader};
use super::json_scan::{JsonScan, Scanned, Step};
use super::literal::{Found, Literal, Match};
use super::object::{Object, Read};
use super::parsed::Part;
use super::tools::{Tools, is_object, unclosed_string, unfinished_value, without_quotes};

/// Maximum length in bytes of the name of a tool or parameter.
const MAX_NAME_BYTES: usize = 256;
/// Maximum number of parameters of a call that is not JSON.
const MAX_PARAMETERS: usize = 1024;

/// Parser of one call, or of a list of them, starting at its opening marker.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    stage: Stage,
    /// Number of bytes of the text that were examined.
    at: usize,
    /// Start of the current part.
    from: usize,
    /// End of the text that was output as calls.
    emitted: usize,
    /// True if the beginning of a call was output, and its end was not.
    open: bool,
    /// True if any call was output.
    any: bool,
    id: Option<String>,
    name: String,
    /// Number of parameters so far of a call that is not JSON; `key` is the name of the last one.
    parameters: usize,
    key: String,
    /// True if a part of the current text parameter was output.
    begun: bool,
    scan: JsonScan,
    object: Object,
    in_list: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Start,
    /// Before an object, or a list of them.
    Objects,
    Object,
    /// After an object of a list.
    Behind,
    Name,
    Arguments,
    KeyOrEnd,
    Key,
    Value,
    /// After all parts of a call.
    End,
}

impl Reading {
    pub(super) fn new() -> Reading {
        Reading {
            stage: Stage::Start,
            at: 0,
            from: 0,
            emitted: 0,
            open: false,
            any: false,
            id: None,
            name: String::new(),
            parameters: 0,
            key: String::new(),
            begun: false,
            scan: JsonScan::default(),
            object: Object::default(),
            in_list: false,
        }
    }

    /// Returns whether a call was begun and is not complete.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the end of the text that was output as calls; `None` if no call was.
    pub(super) fn emitted(&self) -> Option<usize> {
        self.any.then_some(self.emitted)
    }

    /// Continues parsing. `text` begins where the call does and has grown since the last call; `done` is true at
    /// the end of the answer.
    pub(super) fn advance(
        &mut self,
        text: &str,
        reader: &Reader,
        tools: &Tools,
        done: bool,
        parts: &mut Vec<Part>,
    ) -> Progress {
        let most = text.floor_char_boundary(MAX_CALL_BYTES);
        let progress = self.advance_within(&text[..most], reader, tools, done && text.len() <= most, parts);
        match progress {
            Progress::More if text.len() > most => Progress::Failed(most),
            progress => progress,
        }
    }

    fn advance_within(
        &mut self,
        text: &str,
        reader: &Reader,
        tools: &Tools,
        done: bool,
        parts: &mut Vec<Part>,
    ) -> Progress {
        loop {
            let next = match self.stage {
                Stage::Start => self.start(text, reader),
                Stage::Objects => self.objects(text),
                Stage::Object => self.object(text, reader, tools, parts),
                Stage::Behind => self.behind(text),
                Stage::Name => self.name(text, reader, tools, parts),
                Stage::Arguments => self.arguments(text, parts),
                Stage::KeyOrEnd => self.key_or_end(text, reader, done, parts),
                Stage::Key => self.key(text, reader, parts),
                Stage::Value => self.value(text, reader, tools, parts),
                Stage::End => self.end(text, reader, done),
            };
            match next {
                Next::Stage(stage) => self.stage = stage,
                Next::Out(progress) => return progress,
            }
        }
    }

    /// Outputs the beginning of the call.
    fn begin(&mut self, parts: &mut Vec<Part>) {
        (self.open, self.any) = (true, true);
        parts.push(Part::CallBegins { id: self.id.take(), name: self.name.clone() });
    }

    fn emit(&mut self, arguments: impl Into<String>, emitted: usize, parts: &mut Vec<Part>) {
        let arguments = arguments.into();
        self.emitted = emitted;
        if !arguments.is_empty() {
            parts.push(Part::Arguments(arguments));
        }
    }

    /// Outputs the end of the call, whose text ends at `emitted`.
    fn close(&mut self, whole: bool, emitted: usize, parts: &mut Vec<Part>) {
        (self.open, self.emitted) = (false, emitted);
        parts.push(if whole { Part::CallEnds } else { Part::Unfinished });
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
                Next::Stage(if is_object { Stage::Objects } else { Stage::Name })
            }
            Match::Partly => Next::more(),
            Match::No => Next::failed(text, 0),
        }
    }

    fn objects(&mut self, text: &str) -> Next {
        let rest = text[self.at..].trim_ascii_start();
        self.at = text.len() - rest.len();
        match rest.bytes().next() {
            None => Next::more(),
            Some(b'[') if !self.in_list => {
                (self.in_list, self.at) = (true, self.at + 1);
                Next::Stage(Stage::Objects)
            }
            Some(b'{') => {
                (self.scan, self.object, self.from) = (JsonScan::default(), Object::default(), self.at);
                Next::Stage(Stage::Object)
            }
            Some(_) => Next::failed(text, self.at),
        }
    }

    fn object(&mut self, text: &str, reader: &Reader, tools: &Tools, parts: &mut Vec<Part>) -> Next {
        let mut end = None;
        while let Some(&byte) = text.as_bytes().get(self.at) {
            match self.scan.step(byte) {
                Step::More => {}
                Step::Wrong => return self.object_fails(text, self.at, parts),
                Step::Whole => end = Some(self.at + 1),
                step => {
                    if self.object.take(step, text, self.at, &reader.body) == Read::Wrong {
                        return self.object_fails(text, self.at + 1, parts);
                    }
                    // Immediately, so that the result does not depend on how the text is split.
                    if !self.begin_object(false, reader, tools, parts) {
                        return Next::failed(text, self.at + 1);
                    }
                }
            }
            self.at += 1;
            if end.is_some() {
                break;
            }
        }
        let is_call = end.is_none() || self.object.is_call();
        if is_call && end.is_some() && !self.begin_object(true, reader, tools, parts) {
            return Next::failed(text, self.at);
        }
        let Some(end) = end else {
            self.tell_members(text, parts);
            return Next::more();
        };
        if !self.open || !is_call {
            return self.object_fails(text, end, parts);
        }
        self.tell_members(text, parts);
        let whole = self.object.arguments(text).is_none_or(is_object);
        if !self.object.has_arguments() {
            self.emit("{}", end, parts);
        }
        self.close(whole, end, parts);
        Next::Stage(if self.in_list { Stage::Behind } else { Stage::End })
    }

    /// Outputs the beginning of the call once its name is known. Returns whether it can be a call.
    fn begin_object(&mut self, whole: bool, reader: &Reader, tools: &Tools, parts: &mut Vec<Part>) -> bool {
        let Some(name) = self.object.name().filter(|_| !self.open) else { return true };
        let known = tools.has(name);
        if !known && reader.known_only {
            return false;
        }
        // An unknown name could also occur in any other object.
        if known || self.object.has_arguments() || whole {
            (self.name, self.id) = (name.to_owned(), self.object.id());
            self.emitted = self.at + 1;
            self.begin(parts);
        }
        true
    }

    fn object_fails(&mut self, text: &str, at: usize, parts: &mut Vec<Part>) -> Next {
        self.tell_members(text, parts);
        Next::failed(text, at)
    }

    /// Outputs the new part of an object's arguments, once the call has begun.
    fn tell_members(&mut self, text: &str, parts: &mut Vec<Part>) {
        if self.open
            && let Some((arguments, to)) = self.object.news(text, self.at)
        {
            self.emit(arguments, to, parts);
        }
    }

    fn behind(&mut self, text: &str) -> Next {
        let rest = text[self.at..].trim_ascii_start();
        let at = text.len() - rest.len();
        match rest.bytes().next() {
            None => Next::more(),
            Some(b',') => {
                self.at = at + 1;
                Next::Stage(Stage::Objects)
            }
            Some(b']') => {
                (self.at, self.emitted) = (at + 1, at + 1);
                Next::Stage(Stage::End)
            }
            Some(_) => Next::failed(text, at),
        }
    }

    fn name(&mut self, text: &str, reader: &Reader, tools: &Tools, parts: &mut Vec<Part>) -> Next {
        let rest = text[self.from..].trim_ascii_start();
        let start = text.len() - rest.len();
        // After the name comes the syntax's separator, which does not start with a character of a name.
        let length = rest.find(|c: char| !is_name(c)).unwrap_or(rest.len());
        if length > MAX_NAME_BYTES {
            return Next::failed(text, start);
        }
        if length == rest.len() {
            return Next::more();
        }
        if length == 0 {
            return Next::failed(text, start);
        }
        let (mut name, mut end) = (&rest[..length], start + length);
        let mut call_id = None;
        if let CallBody::Named { numbered, .. } = &reader.body {
            if *numbered
                && let Some((before, number)) = name.rsplit_once(':')
                && number.bytes().all(|b| b.is_ascii_digit())
            {
                call_id = Some(name.to_owned());
                name = before.rsplit_once('.').map_or(before, |(_, tool)| tool);
            }
            if !reader.id.is_empty() {
                match reader.id.at(text, end) {
                    Match::Partly => return Next::more(),
                    Match::No => {}
                    Match::Yes(id_start) => {
                        let id = &text[id_start..];
                        let length = id.find(|c: char| !is_name(c)).unwrap_or(id.len());
                        if length == id.len() && length <= MAX_NAME_BYTES {
                            return Next::more();
                        }
                        call_id = Some(id[..length].to_owned());
                        end = id_start + length;
                    }
                }
            }
        }
        match reader.separator.at(text, end) {
            Match::Yes(behind) => {
                (self.id, self.name) = (call_id, name.to_owned());
                (self.at, self.from) = (behind, behind);
                let tagged = matches!(reader.body, CallBody::Tagged { .. });
                // Without a marker after it any word could be a name.
                if !reader.separator.is_empty() && tools.has(&self.name) {
                    self.begin(parts);
                    self.emit(if tagged { "{" } else { "" }, behind, parts);
                }
                Next::Stage(if tagged { Stage::KeyOrEnd } else { Stage::Arguments })
            }
            Match::Partly => Next::more(),
            Match::No => Next::failed(text, end),
        }
    }

    fn arguments(&mut self, text: &str, parts: &mut Vec<Part>) -> Next {
        if self.at == self.from {
            let rest = text[self.at..].trim_ascii_start();
            (self.at, self.from) = (text.len() - rest.len(), text.len() - rest.len());
            match rest.bytes().next() {
                None => return Next::more(),
                Some(b'{') if self.open => {}
                Some(b'{') => self.begin(parts),
                Some(_) => return Next::failed(text, self.at),
            }
            self.emitted = self.at;
        }
        let scanned = self.scan.scan(text, self.at);
        let to = match scanned {
            Scanned::More => text.len(),
            Scanned::End(at) | Scanned::Wrong(at) => at,
        };
        self.emit(&text[self.emitted..to], to, parts);
        self.at = to;
        match scanned {
            Scanned::More => Next::more(),
            Scanned::End(_) => {
                self.close(is_object(&text[self.from..to]), to, parts);
                Next::Stage(Stage::End)
            }
            Scanned::Wrong(_) => Next::failed(text, to),
        }
    }

    /// Outputs the beginning of a call whose arguments are not JSON, unless done before.
    fn begin_tagged(&mut self, emitted: usize, parts: &mut Vec<Part>) {
        if !self.open {
            self.begin(parts);
            self.emit("{", emitted, parts);
        }
    }

    fn key_or_end(&mut self, text: &str, reader: &Reader, done: bool, parts: &mut Vec<Part>) -> Next {
        let key = reader.key_start.at(text, self.at);
        if let Match::Yes(end) = key {
            if self.parameters >= MAX_PARAMETERS {
                return Next::failed(text, end);
            }
            self.begin_tagged(end, parts);
            (self.at, self.from, self.emitted) = (end, end, end);
            return Next::Stage(Stage::Key);
        }
        let end = match reader.end.at(text, self.at) {
            Match::Yes(end) => end,
            Match::Partly if done && !text[self.at..].trim_ascii().is_empty() => text.len(),
            Match::Partly => return Next::more(),
            Match::No if key == Match::Partly => return Next::more(),
            // The first word of the end marker suffices; models omit the second.
            Match::No => {
                let first = reader.end.words().first().map(|word| Literal::new(word));
                match first.map(|first| first.at(text, self.at)) {
                    Some(Match::Yes(end)) => end,
                    _ => return Next::failed(text, self.at),
                }
            }
        };
        self.begin_tagged(end, parts);
        self.emit("}", end, parts);
        self.close(true, end, parts);
        Next::Out(Progress::Done(end))
    }

    fn key(&mut self, text: &str, reader: &Reader, parts: &mut Vec<Part>) -> Next {
        match reader.key_end.find(text, self.at) {
            Found::At(at, end) if at - self.from <= MAX_NAME_BYTES => {
                self.key = text[self.from..at].trim().to_owned();
                (self.at, self.from) = (end, end);
                let member = format!("{}{}:", self.comma(), Json::from(self.key.as_str()));
                self.emit(member, end, parts);
                self.parameters += 1;
                self.begun = false;
                Next::Stage(Stage::Value)
            }
            Found::NotBefore(at) if at - self.from <= MAX_NAME_BYTES => {
                self.at = at;
                Next::more()
            }
            _ => Next::failed(text, self.from),
        }
    }

    /// Returns the separator before the next member.
    fn comma(&self) -> &'static str {
        if self.parameters > 0 { "," } else { "" }
    }

    fn value(&mut self, text: &str, reader: &Reader, tools: &Tools, parts: &mut Vec<Part>) -> Next {
        let found = reader.value_end.find(text, self.at);
        let (to, end) = match found {
            Found::At(at, end) => (at, Some(end)),
            Found::NotBefore(at) => (at, None),
        };
        self.at = to;
        // Duplicate keys are kept, as in formats whose calls are JSON.
        if tools.is_text(&self.name, &self.key) {
            self.tell_text(text, to, end.is_some(), reader.framed, parts);
        } else if let Some(end) = end {
            let value = tools.value(&self.name, &self.key, unframed(&text[self.from..to], reader.framed));
            self.emit(value.to_string(), end, parts);
        }
        let Some(end) = end else { return Next::more() };
        (self.at, self.from, self.emitted) = (end, end, end);
        Next::Stage(Stage::KeyOrEnd)
    }

    /// Outputs the new part of a text parameter, up to `to`.
    fn tell_text(&mut self, text: &str, to: usize, whole: bool, framed: bool, parts: &mut Vec<Part>) {
        // In framed formats, line breaks between a value and its markers are not part of it.
        let mut said = String::new();
        if !self.begun {
            if to == self.from && !whole {
                return;
            }
            said.push('"');
            self.emitted = self.from + usize::from(framed && text[self.from..to].starts_with('\n'));
            self.begun = true;
        }
        let rest = &text[self.emitted..to];
        let rest = rest.strip_suffix('\n').filter(|_| framed).unwrap_or(rest);
        let emitted = self.emitted + rest.len();
        said.push_str(&without_quotes(rest));
        if whole {
            said.push('"');
        }
        self.emit(said, emitted, parts);
    }

    fn end(&mut self, text: &str, reader: &Reader, done: bool) -> Next {
        // The end marker is optional, because models omit it.
        Next::Out(match reader.end.at(text, self.at) {
            Match::Yes(end) => Progress::Done(end),
            Match::Partly if !done => Progress::More,
            Match::Partly => Progress::Done(text.len()),
            Match::No => Progress::Done(self.at),
        })
    }

    /// Ends the answer within a call: outputs the pending part of the call, and marks it unfinished.
    pub(super) fn cut(&mut self, text: &str, reader: &Reader, tools: &Tools, parts: &mut Vec<Part>) {
        if !self.open {
            return;
        }
        // Text after `at` may be a marker.
        let to = self.at.min(text.len());
        match self.stage {
            Stage::Key => {
                let key = unclosed_string(text[self.from..to].trim_start());
                self.emit(format!("{}{key}", self.comma()), to, parts);
            }
            Stage::Value if self.begun => {}
            Stage::Value => {
                let text = unframed(&text[self.from..to], reader.framed);
                let is_text = tools.is_text(&self.name, &self.key);
                let value = if is_text { unclosed_string(text) } else { unfinished_value(text) };
                self.emit(value, to, parts);
            }
            _ => {}
        }
        self.close(false, to, parts);
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

    /// Rejects the text as a call at byte `at`; consumes at least one character.
    fn failed(text: &str, at: usize) -> Next {
        let least = text.chars().next().map_or(0, char::len_utf8);
        let mut at = at.clamp(least, text.len());
        while !text.is_char_boundary(at) {
            at += 1;
        }
        Next::Out(Progress::Failed(at))
    }
}

/// Returns whether a character may occur in a tool's name.
fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/')
}

/// Returns a value without the line breaks that separate it from its markers in framed formats.
fn unframed(value: &str, framed: bool) -> &str {
    if !framed {
        return value;
    }
    let value = value.strip_prefix('\n').unwrap_or(value);
    value.strip_suffix('\n').unwrap_or(value)
}
