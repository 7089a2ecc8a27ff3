//! Derives the syntax of reasoning and tool calls from a chat template.
//!
//! The template is rendered with two conversations: one in which the assistant calls tools of known names with
//! known arguments, and one in which it says a known text. The text around the known words is the syntax. The
//! syntax must then parse the rendered calls; otherwise the template's call syntax counts as unknown. The approach
//! of comparing renderings comes from llama.cpp's automatic parser.

use serde_json::{Map, Value as Json, json};

use super::calls::{CallBody, CallSyntax};
use super::event::OutputEvent;
use super::format::OutputFormat;
use crate::template::{ChatTemplate, RenderOptions, Rendered};

const USER: &str = "zquser";
const CONTENT: &str = "zqcontent";
const NAMES: [&str; 2] = ["zqfirst", "zqsecond"];
const KEYS: [&str; 2] = ["zqkeya", "zqkeyb"];
const VALUES: [&str; 4] = ["zqvalone", "zqvaltwo", "zqvalthree", "zqvalfour"];
/// Nine letters and digits, as the strictest template requires of an id.
const IDS: [&str; 2] = ["zqid00001", "zqid00002"];

/// Maximum length in bytes of the text after the calls.
const MAX_END_BYTES: usize = 80;

const PYTHON_TAG: &str = "<|python_tag|>";

/// Known markers around reasoning; the first that occurs in a template is used.
const REASONING: &[(&str, &str)] = &[
    ("<seed:think>", "</seed:think>"),
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|think_start|>", "<|think_end|>"),
];

impl OutputFormat {
    /// Derives the format from a chat template. Only what the template's renderings show is detected.
    ///
    /// Renders up to ten short conversations, which takes some milliseconds; call it once per model.
    #[must_use]
    pub fn detect(template: &ChatTemplate) -> OutputFormat {
        detect(template)
    }
}

fn detect(template: &ChatTemplate) -> OutputFormat {
    if ["<|channel|>", "<|message|>", "analysis"].iter().all(|mark| template.mentions(mark)) {
        return OutputFormat { harmony: true, ..OutputFormat::default() };
    }
    // Some templates only remove the reasoning of old messages, and contain just the closing marker.
    let reasoning = REASONING.iter().find(|(_, close)| template.mentions(close));
    let mut format = OutputFormat {
        reasoning: reasoning.map(|(open, close)| ((*open).to_owned(), (*close).to_owned())),
        ..OutputFormat::default()
    };
    if let Some((calls, framed)) = calls(template, &format) {
        (format.calls, format.framed) = (Some(calls), framed);
    }
    format
}

/// Returns a conversation in which the assistant makes this number of calls.
fn conversation(calls: usize, text_arguments: bool, names_as_ids: bool) -> Json {
    let call = |i: usize| {
        let arguments = json!({ KEYS[0]: VALUES[2 * i], KEYS[1]: VALUES[2 * i + 1] });
        let arguments = if text_arguments { Json::from(arguments.to_string()) } else { arguments };
        let id = if names_as_ids { format!("functions.{}:{i}", NAMES[i]) } else { IDS[i].to_owned() };
        json!({ "id": id, "type": "function", "function": { "name": NAMES[i], "arguments": arguments } })
    };
    let mut assistant = json!({ "role": "assistant", "content": "" });
    match (calls, assistant.as_object_mut()) {
        (0, Some(map)) => map.insert("content".into(), CONTENT.into()),
        (n, Some(map)) => map.insert("tool_calls".into(), (0..n).map(call).collect()),
        (_, None) => None,
    };
    json!([{ "role": "user", "content": USER }, assistant])
}

fn tools() -> Json {
    let tool = |name: &&str| {
        let text = json!({ "type": "string", "description": "A text." });
        let parameters = json!({ "type": "object", "properties": { KEYS[0]: text, KEYS[1]: text }, "required": [KEYS[0]] });
        json!({ "type": "function", "function": { "name": name, "description": "A tool.", "parameters": parameters } })
    };
    NAMES.iter().map(tool).collect()
}

fn render(template: &ChatTemplate, messages: &Json) -> Option<String> {
    let options = RenderOptions { tools: Some(tools()), extra: Map::new(), ..RenderOptions::default() };
    template.render_json(messages, &options).ok().map(Rendered::into_text)
}

/// Text of the assistant's turn, and the text that ends every turn.
struct Turn {
    text: String,
    end: String,
}

/// Returns the syntax of calls, and whether values that are not JSON have line breaks around them.
fn calls(template: &ChatTemplate, format: &OutputFormat) -> Option<(CallSyntax, bool)> {
    let plain = render(template, &conversation(0, false, false))?;
    let said = plain.rfind(CONTENT)?;
    let (head, tail) = (&plain[..said], &plain[said + CONTENT.len()..]);
    // Some templates write the id in place of the name, if the id has a form that contains the name.
    for (text_arguments, names_as_ids) in [(false, false), (true, false), (false, true), (true, true)] {
        let turn = |calls| {
            let text = render(template, &conversation(calls, text_arguments, names_as_ids))?;
            let shared = mark_boundary(&text, common_prefix(&text, head));
            // A template without tool calls omits the names.
            text[shared..]
                .contains(NAMES[0])
                .then(|| Turn { text: text[shared..].to_owned(), end: tail.to_owned() })
        };
        let Some(one) = turn(1) else { continue };
        let two = turn(2).filter(|two| two.text.contains(NAMES[1]));
        if let Some(mut found) = syntax(&one, two.as_ref())
            && reads(format, &found, is_framed(&one), &one, two.as_ref())
        {
            // Such templates use this marker for calls of built-in tools besides the bare object.
            let taught = found.is_bare() && template.mentions(PYTHON_TAG);
            found.other_start = taught.then(|| PYTHON_TAG.to_owned());
            return Some((found, is_framed(&one)));
        }
    }
    None
}

/// Returns whether the values of a call have line breaks before and after them.
fn is_framed(turn: &Turn) -> bool {
    marked(&turn.text, 0, 0).is_some_and(|call| call.is_framed())
}

impl Marked<'_> {
    fn is_framed(&self) -> bool {
        let breaks =
            |from: usize, to: usize| self.text[..from].ends_with('\n') && self.text[to..].starts_with('\n');
        self.values.iter().all(|(from, to)| breaks(*from, *to))
    }
}

/// Returns whether the syntax parses the calls from which it was derived.
fn reads(format: &OutputFormat, syntax: &CallSyntax, framed: bool, one: &Turn, two: Option<&Turn>) -> bool {
    let format =
        OutputFormat { calls: Some(syntax.clone()), reasoning: None, harmony: format.harmony, framed };
    let read = |turn: &Turn, calls: usize| {
        let mut parser = format.parser("", Some(&tools()));
        let mut events = parser.push(turn.text.strip_suffix(turn.end.as_str()).unwrap_or(&turn.text));
        events.extend(parser.finish());
        (0..calls).all(|i| {
            let wanted = json!({ KEYS[0]: VALUES[2 * i], KEYS[1]: VALUES[2 * i + 1] });
            let started = events.iter().any(
                |e| matches!(e, OutputEvent::ToolCallStart { index, name, .. } if *index == i && name == NAMES[i]),
            );
            let fragments = events.iter().filter_map(|e| match e {
                OutputEvent::ToolCallArguments { index, fragment } if *index == i => Some(fragment.as_str()),
                _ => None,
            });
            let arguments: String = fragments.collect();
            started
                && events.contains(&OutputEvent::ToolCallEnd { index: i })
                && serde_json::from_str::<Json>(&arguments).ok() == Some(wanted)
        })
    };
    read(one, 1) && two.is_none_or(|two| read(two, 2))
}

/// Byte ranges of a call's name, keys and values.
struct Marked<'a> {
    text: &'a str,
    name: (usize, usize),
    keys: [(usize, usize); 2],
    values: [(usize, usize); 2],
}

fn marked(text: &str, i: usize, from: usize) -> Option<Marked<'_>> {
    let span =
        |word: &str, from: usize| text[from..].find(word).map(|at| (from + at, from + at + word.len()));
    let name = span(NAMES[i], from)?;
    // In some syntaxes the arguments come first.
    let before = [span(KEYS[0], from)?, span(VALUES[2 * i], from)?].iter().any(|(at, _)| *at < name.0);
    let start = if before { from } else { name.1 };
    let first = (span(KEYS[0], start)?, span(VALUES[2 * i], start)?);
    let second = (span(KEYS[1], first.1.1)?, span(VALUES[2 * i + 1], first.1.1)?);
    Some(Marked { text, name, keys: [first.0, second.0], values: [first.1, second.1] })
}

/// Derives the syntax of calls from these turns.
fn syntax(one: &Turn, two: Option<&Turn>) -> Option<CallSyntax> {
    let call = marked(&one.text, 0, 0)?;
    if let Some((start, end, body)) = object(&call) {
        return framed(one, two, (start, end), &body, true);
    }
    let (start, end, body) = named(&call).or_else(|| tagged(&call))?;
    framed(one, two, (start, end), &body, false)
}

/// Returns start, end and form of a call that is a JSON object with name and arguments.
fn object(call: &Marked<'_>) -> Option<(usize, usize, CallBody)> {
    let first = call.name.0.min(call.keys[0].0);
    call.text[..first].rmatch_indices('{').find_map(|(start, _)| {
        let mut values = serde_json::Deserializer::from_str(&call.text[start..]).into_iter::<Json>();
        let value = values.next()?.ok()?;
        let end = start + values.byte_offset();
        let map = value.as_object()?;
        let key =
            |wanted: &dyn Fn(&Json) -> bool| map.iter().find(|(_, v)| wanted(v)).map(|(k, _)| k.clone());
        let name = key(&|v| v == NAMES[0])?;
        let is_arguments = |v: &Json| match v {
            Json::String(text) => serde_json::from_str::<Json>(text).is_ok_and(|v| v.get(KEYS[0]).is_some()),
            v => v.get(KEYS[0]).is_some(),
        };
        let arguments = key(&is_arguments)?;
        let id = key(&|v| v == IDS[0]);
        Some((start, end, CallBody::Object { name, arguments, id, list: false }))
    })
}

/// Returns start, end and form of a call that is a name followed by the arguments as a JSON object.
fn named(call: &Marked<'_>) -> Option<(usize, usize, CallBody)> {
    let start = call.name.1 + call.text[call.name.1..call.keys[0].0].rfind('{')?;
    let mut values = serde_json::Deserializer::from_str(&call.text[start..]).into_iter::<Json>();
    let value = values.next()?.ok()?;
    value.get(KEYS[1])?;
    let end = start + values.byte_offset();
    let mut separator = &call.text[call.name.1..start];
    let numbered = separator.strip_prefix(":0");
    separator = numbered.unwrap_or(separator);
    let (id, separator) = match separator.split_once(IDS[0]) {
        Some((before, behind)) => (Some(before.to_owned()), behind),
        None => (None, separator),
    };
    // The arguments object is nested in a text that is not JSON.
    if separator.contains('{') {
        return None;
    }
    let numbered = numbered.is_some();
    // If the name is part of an id, such as `functions.name:0`, the text before it is a prefix and not a marker.
    let head = &call.text[..call.name.0];
    let prefix = if numbered { &head[without_word(head).len()..] } else { "" };
    let body = CallBody::Named { separator: separator.to_owned(), prefix: prefix.to_owned(), numbered, id };
    Some((call.name.0, end, body))
}

/// Returns start, end and form of a call that is a name followed by each argument as text.
fn tagged(call: &Marked<'_>) -> Option<(usize, usize, CallBody)> {
    let text = |from: usize, to: usize| call.text.get(from..to);
    let key_end = text(call.keys[0].1, call.values[0].0)?;
    let between = text(call.values[0].1, call.keys[1].0)?;
    let behind = &call.text[call.values[1].1..];
    let mut value_end = common_prefix(between, behind);
    // A marker is not split: `</parameter>` and the following text may have a common prefix.
    while value_end > 0 && !between[..value_end].trim_end().ends_with(['>', ']', '|']) {
        value_end = between.floor_char_boundary(value_end - 1);
    }
    let (value_end, key_start) = between.split_at(value_end);
    let key_start = key_start.trim();
    let separator = text(call.name.1, call.keys[0].0)?.trim_end().strip_suffix(key_start)?;
    if value_end.trim().is_empty() || key_end.trim().is_empty() || key_start.is_empty() {
        return None;
    }
    let body = CallBody::Tagged {
        separator: separator.trim().to_owned(),
        key_start: key_start.to_owned(),
        key_end: key_end.trim().to_owned(),
        value_end: value_end.trim().to_owned(),
        framed: call.is_framed(),
    };
    Some((call.name.0, call.values[1].1 + (value_end.len()), body))
}

/// Splits the text around a call into the markers of each call and those of the section around all calls.
fn framed(
    one: &Turn,
    two: Option<&Turn>,
    (start, end): (usize, usize),
    body: &CallBody,
    object: bool,
) -> Option<CallSyntax> {
    let clean = |text: &str| text.trim().to_owned();
    let head = &one.text[..start];
    let numbered = matches!(body, CallBody::Named { numbered: true, .. });
    let head = if numbered { without_word(head) } else { head };
    let tail = &one.text[end..];
    let tail = tail
        .strip_suffix(one.end.as_str())
        .or_else(|| tail.trim_end().strip_suffix(one.end.trim()))
        .unwrap_or(tail);
    // Some turns with calls end differently from turns with content; the marker that ends a turn ends the call's
    // text too.
    let turn_end = one.end.trim();
    let turn_end = turn_end.find('>').map_or(turn_end, |at| &turn_end[..=at]);
    let tail = match tail.find(turn_end) {
        Some(at) if !turn_end.is_empty() => &tail[..at],
        _ => tail,
    };
    // Longer text belongs to the next turn, which some templates open at once.
    let tail = match tail.trim_start().split_ascii_whitespace().next() {
        Some(word) if tail.len() > MAX_END_BYTES => word.find('>').map_or(word, |at| &word[..=at]),
        _ => tail,
    };
    let whole = |section: (String, String), start: &str, end: &str| CallSyntax {
        section,
        start: clean(start),
        other_start: None,
        end: clean(end),
        body: body.clone(),
    };
    let alone = whole(Default::default(), head, tail);
    let Some(two) = two else { return Some(alone) };
    // The first call is written as in the other rendering; the second begins at its own marker.
    let second = marked(&two.text, 1, end)?;
    let second_start = if object {
        let first = second.name.0.min(second.keys[0].0);
        let starts = second.text[..first].rmatch_indices('{');
        starts.map(|(at, _)| at).find(|at| {
            let mut values = serde_json::Deserializer::from_str(&second.text[*at..]).into_iter::<Json>();
            values.next().is_some_and(|v| {
                v.is_ok_and(|v| v.as_object().is_some_and(|m| m.values().any(|v| v == NAMES[1])))
            })
        })?
    } else {
        second.name.0
    };
    let between = two.text.get(end..second_start)?;
    // A list of objects is a single JSON value.
    if object && between.trim() == "," {
        let (head, tail) = (head.trim_end().strip_suffix('[')?, tail.trim_start().strip_prefix(']')?);
        let mut found = whole(Default::default(), head, tail);
        if let CallBody::Object { list, .. } = &mut found.body {
            *list = true;
        }
        return Some(found);
    }
    let (head, tail) = (head.trim(), tail.trim());
    let between = if numbered { without_word(between) } else { between }.trim();
    if between == format!("{tail}{head}") || Some(between) == joined(tail, head, between) {
        return Some(whole(Default::default(), head, tail));
    }
    // The text after each call is a common prefix of the texts between calls and after all; the text before each
    // likewise.
    let mut cut = common_suffix(head, between);
    while cut > 0 && !is_mark_start(&head[head.len() - cut..]) {
        cut = head.len() - head.ceil_char_boundary(head.len() - cut + 1);
    }
    let call_start = &head[head.len() - cut..];
    let call_end = between[..between.len() - cut].trim();
    let section = (clean(&head[..head.len() - cut]), clean(tail.strip_prefix(call_end)?));
    // A closing text without an opening one ends the turn, not the calls.
    let section = if section.0.is_empty() { Default::default() } else { section };
    Some(whole(section, call_start, call_end))
}

/// Returns the start of the marker that contains `at`, or `at`.
fn mark_boundary(text: &str, at: usize) -> usize {
    match text[..at].rfind(['<', '>']) {
        Some(open) if text[open..].starts_with('<') && !text[open..at].contains(char::is_whitespace) => open,
        _ => at,
    }
}

/// Returns a text without the letters and full stops at its end.
fn without_word(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_alphanumeric() || c == '.')
}

/// Returns `between` if it is `tail`, whitespace and `head`.
fn joined<'a>(tail: &str, head: &str, between: &'a str) -> Option<&'a str> {
    let rest = between.strip_prefix(tail)?.trim_start();
    (rest == head).then_some(between)
}

/// Returns whether a text begins as a marker does, rather than within one.
fn is_mark_start(text: &str) -> bool {
    text.starts_with(['<', '['])
}

fn common_prefix(a: &str, b: &str) -> usize {
    a.char_indices().zip(b.chars()).find(|((_, x), y)| x != y).map_or(a.len().min(b.len()), |((at, _), _)| at)
}

fn common_suffix(a: &str, b: &str) -> usize {
    let same = a.chars().rev().zip(b.chars().rev()).take_while(|(x, y)| x == y);
    same.map(|(x, _)| x.len_utf8()).sum()
}
