//! Grammars of tool calls: the model's own way of writing them, with the parameters' schemas enforced.

use std::borrow::Cow;

use leyden_text::output::{CallBody, CallSyntax};
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind};
use crate::schema::{self, Lowered};
use crate::vocabulary::Vocabulary;

/// The most tools.
const MOST_TOOLS: usize = 256;
/// Ids that models write have nine letters and digits, as the strictest format wants.
const ID: &str = "/[a-zA-Z0-9]{9}/";

/// Calls of tools that an answer consists of, or that stand in it.
#[derive(Clone, Debug)]
pub(crate) struct ToolCalls {
    /// How they are written; `None` is harmony.
    syntax: Option<CallSyntax>,
    tools: Vec<Tool>,
    extent: Extent,
}

/// What the grammar is the grammar of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A whole answer, of one call or of several.
    Answer { parallel: bool },
    /// One call, or what stands around several, each from any of its openings on.
    Opened { parallel: bool },
}

/// What becomes of a schema that cannot be enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lenience {
    /// It is refused.
    None,
    /// The tool's arguments are free, if it does not say `strict`.
    Unenforced,
    /// So are those of all tools that do not say it.
    All,
}

#[derive(Clone, Debug)]
struct Tool {
    name: String,
    parameters: Lowered,
    /// Whether arguments may have any names and values.
    free: bool,
}

impl ToolCalls {
    /// Reads the tools of a request: a list of `{"type": "function", "function": {"name": …, "parameters": …}}` or of
    /// what stands in `function`.
    pub(crate) fn new(
        syntax: Option<&CallSyntax>,
        tools: &Value,
        only: Option<&str>,
        extent: Extent,
        lenience: Lenience,
    ) -> Result<ToolCalls, Error> {
        let wrong = |pointer: String, what: &str| -> Error {
            ErrorKind::Schema { pointer, keyword: None, what: what.to_owned() }.into()
        };
        let Value::Array(list) = tools else { return Err(wrong(String::new(), "tools must be a list")) };
        if list.len() > MOST_TOOLS {
            return Err(
                ErrorKind::TooComplex(format!("{} tools; {MOST_TOOLS} are the most", list.len())).into()
            );
        }
        let mut read = Vec::new();
        for (i, tool) in list.iter().enumerate() {
            let (function, place) = match tool.get("function") {
                Some(function) => (function, format!("/{i}/function")),
                None => (tool, format!("/{i}")),
            };
            let name = function.get("name").and_then(Value::as_str);
            let Some(name) = name.filter(|name| is_name(name)) else {
                return Err(wrong(place, "a tool has a name of letters, digits, `_`, `-` and `.`"));
            };
            if only.is_some_and(|only| only != name) {
                continue;
            }
            let any = json!({ "type": "object" });
            let parameters = declared(function.get("parameters"));
            let parameters = parameters.as_ref();
            let tagged = syntax.is_some_and(|s| matches!(s.body, CallBody::Tagged { .. }));
            let strict = function.get("strict").and_then(Value::as_bool) == Some(true);
            let lowered = match lenience {
                Lenience::All if !strict => None,
                Lenience::Unenforced if !strict => {
                    enforced(parameters, &format!("{place}/parameters"), tagged).ok()
                }
                _ => Some(enforced(parameters, &format!("{place}/parameters"), tagged)?),
            };
            let free = lowered.is_none();
            let parameters = lowered.unwrap_or_else(|| Lowered::as_is(any.clone()));
            read.push(Tool { name: name.to_owned(), parameters, free });
        }
        if read.is_empty() {
            return Err(wrong(String::new(), "there is no such tool"));
        }
        Ok(ToolCalls { syntax: syntax.cloned(), tools: read, extent })
    }

    /// Whether all arguments are written as one object of JSON.
    pub(crate) fn is_json(&self) -> bool {
        !self.syntax.as_ref().is_some_and(|s| matches!(s.body, CallBody::Tagged { .. }))
    }

    /// The grammar in Lark for a vocabulary, whose marks stand for themselves.
    pub(crate) fn to_lark(&self, vocabulary: &Vocabulary) -> String {
        let mut lark = Lark { vocabulary, rules: String::from("BLANKS: /[ \\n]{1,4}/\n") };
        match &self.syntax {
            Some(syntax) => self.marked(syntax, &mut lark),
            None => self.harmony(&mut lark),
        }
        lark.rules
    }

    fn marked(&self, s: &CallSyntax, lark: &mut Lark<'_>) {
        let calls: Vec<String> = self
            .tools
            .iter()
            .enumerate()
            .map(|(i, tool)| {
                let body = lark.body(&s.body, i, tool);
                lark.rule(&format!("call_{i}"), &body);
                format!("call_{i}")
            })
            .collect();
        lark.rule("call", &calls.join(" | "));
        let (start, end) = (lark.text(&s.start), lark.text(&s.end));
        let around = |inner: &str, open: &str, close: &str| {
            let blanks = |text: &str| if text.is_empty() { String::new() } else { "BLANKS?".to_owned() };
            // A name follows its mark at once, and so does what ends in the middle of a tag.
            let behind = if s.body_is_json() { blanks(open) } else { String::new() };
            let close_blanks = blanks(close);
            format!("{open} {behind} {inner} {close_blanks} {close}")
        };
        let list = matches!(s.body, CallBody::Object { list: true, .. });
        let one = if list { "call".to_owned() } else { around("call", &start, &end) };
        lark.rule("one", &one);
        let (Extent::Answer { parallel } | Extent::Opened { parallel }) = self.extent;
        let several = match (parallel, list) {
            (false, _) => "one".to_owned(),
            (true, true) => "one (\",\" BLANKS? one)*".to_owned(),
            // Without marks there is no telling where the next begins.
            (true, false) if s.start.is_empty() && s.section.0.is_empty() => "one".to_owned(),
            (true, false) => "one (BLANKS? one)*".to_owned(),
        };
        let all = if list { around(&format!("\"[\" {several} \"]\""), &start, &end) } else { several };
        let (open, close) = (lark.text(&s.section.0), lark.text(&s.section.1));
        let section = (!open.is_empty()).then(|| format!("{open} BLANKS? {all} BLANKS? {close}"));
        let mut starts = Vec::new();
        match self.extent {
            Extent::Answer { .. } => starts.push(section.unwrap_or(all)),
            Extent::Opened { .. } => {
                if !s.start.is_empty() || section.is_none() {
                    starts.push(if list { all } else { "one".to_owned() });
                }
                starts.extend(section);
                if let Some(other) = &s.other_start {
                    starts.push(format!("{} BLANKS? call {end}", lark.text(other)));
                }
            }
        }
        lark.rule("start", &starts.join(" | "));
    }

    /// Calls in harmony's messages: the channel `commentary`, a recipient, and arguments in JSON.
    fn harmony(&self, lark: &mut Lark<'_>) {
        let (channel, message) = (lark.text("<|channel|>"), lark.text("<|message|>"));
        let kind = format!("(\" \" {} \"json\" | \" json\")?", lark.text("<|constrain|>"));
        let end = lark.text("<|call|>");
        let (mut named, mut unnamed) = (Vec::new(), Vec::new());
        for (i, tool) in self.tools.iter().enumerate() {
            let name = quoted(&tool.name);
            lark.rule(&format!("arguments_{i}"), &tool.json());
            lark.rule(&format!("body_{i}"), &format!("{kind} {message} arguments_{i} {end}"));
            named.push(format!("{name} body_{i}"));
            unnamed.push(format!("{name} {channel} \"commentary\" body_{i}"));
        }
        let calls = format!("{channel} \"commentary to=functions.\" ({})", named.join(" | "));
        lark.rule("call", &calls);
        let start = match self.extent {
            Extent::Opened { .. } => format!("call | \" to=functions.\" ({})", unnamed.join(" | ")),
            // A message that thinks may come first; what is in it is not part of the grammar.
            Extent::Answer { .. } => {
                let (over, next) = (lark.text("<|end|>"), lark.text("<|start|>"));
                format!("call | {channel} \"analysis\" {message} | {over} {next} \"assistant\" call")
            }
        };
        lark.rule("start", &start);
    }
}

impl Tool {
    /// The rule of its arguments.
    fn json(&self) -> String {
        format!("%json {}", schema::with_options(&self.parameters.value))
    }
}

/// What of a tool's parameters is enforced.
fn enforced(parameters: &Value, place: &str, tagged: bool) -> Result<Lowered, Error> {
    let lowered = schema::lower(&object_only(parameters)).map_err(|e| within(e, place))?;
    if tagged {
        check_tagged(&lowered.value, place)?;
    }
    Ok(lowered)
}

trait BodyKind {
    fn body_is_json(&self) -> bool;
}

impl BodyKind for CallSyntax {
    fn body_is_json(&self) -> bool {
        matches!(self.body, CallBody::Object { .. })
    }
}

struct Lark<'a> {
    vocabulary: &'a Vocabulary,
    rules: String,
}

impl Lark<'_> {
    fn rule(&mut self, name: &str, body: &str) {
        self.rules.push_str(name);
        self.rules.push_str(": ");
        self.rules.push_str(body);
        self.rules.push('\n');
    }

    /// A fixed text: marks of the vocabulary as such, ends of an answer and what is behind them left out.
    fn text(&self, text: &str) -> String {
        let mut parts = Vec::new();
        for piece in self.vocabulary.split_marks(text) {
            match piece {
                Ok(plain) if plain.trim().is_empty() && !parts.is_empty() => parts.push("BLANKS?".to_owned()),
                Ok(plain) => parts.push(quoted(plain)),
                Err(id) if self.vocabulary.ends().contains(&id) => break,
                Err(id) => parts.push(format!("<[{id}]>")),
            }
        }
        parts.join(" ")
    }

    fn body(&mut self, body: &CallBody, i: usize, tool: &Tool) -> String {
        match body {
            CallBody::Object { name, arguments, id, .. } => {
                self.rule(&format!("arguments_{i}"), &tool.json());
                let key = |name: &str| Value::from(name).to_string();
                let before = format!("{{{}: {}, {}: ", key(name), key(&tool.name), key(arguments));
                let id = match id {
                    Some(id) => format!("{} {ID} {}", quoted(&format!(", {}: \"", key(id))), quoted("\"}")),
                    None => quoted("}"),
                };
                format!("{} arguments_{i} {id}", quoted(&before))
            }
            CallBody::Named { separator, prefix, numbered, id } => {
                self.rule(&format!("arguments_{i}"), &tool.json());
                let number = if *numbered { ":\" /[0-9]{1,3}/ \"" } else { "" };
                let name = Value::from(format!("{prefix}{}", tool.name)).to_string();
                let name = format!("{}{number}\"", &name[..name.len() - 1]);
                let name = name.trim_end_matches("\"\"").trim_end().to_owned();
                let id = id.as_ref().map(|id| format!("{} {ID}", self.text(id))).unwrap_or_default();
                format!("{name} {id} {} BLANKS? arguments_{i}", self.text(separator))
            }
            CallBody::Tagged { separator, key_start, key_end, value_end } if tool.free => {
                let (start, between) = (self.text(key_start), self.text(key_end));
                let value = self.any_text(&format!("value_{i}"), value_end);
                self.rule(&format!("value_{i}"), &value);
                let one = format!("BLANKS? {start} /[a-zA-Z0-9_.-]{{1,64}}/ {between} value_{i}");
                format!("{} {} ({one})*", quoted(&tool.name), self.text(separator))
            }
            CallBody::Tagged { separator, key_start, key_end, value_end } => {
                let empty = Map::new();
                let properties =
                    tool.parameters.value.get("properties").and_then(Value::as_object).unwrap_or(&empty);
                let required = tool.parameters.value.get("required").and_then(Value::as_array);
                let mut parts = vec![quoted(&tool.name), self.text(separator)];
                for (n, (key, value)) in properties.iter().enumerate() {
                    let rule = format!("value_{i}_{n}");
                    let value = self.value(value, tool.parameters.value.get("$defs"), &rule, value_end);
                    self.rule(&rule, &value);
                    let (start, between) = (self.text(key_start), self.text(key_end));
                    let one = format!("BLANKS? {start} {} {between} {rule}", quoted(key));
                    let needed = required.is_some_and(|names| names.iter().any(|name| name == key));
                    parts.push(if needed { one } else { format!("({one})?") });
                }
                parts.join(" ")
            }
        }
    }

    /// A parameter's value as text, with what ends it.
    fn value(&mut self, schema: &Value, defs: Option<&Value>, rule: &str, end: &str) -> String {
        let close = self.text(end);
        if schema.get("type") != Some(&Value::from("string")) {
            let mut schema = schema.clone();
            if let (Value::Object(map), Some(defs)) = (&mut schema, defs) {
                map.insert("$defs".into(), defs.clone());
            }
            self.rule(&format!("{rule}_json"), &format!("%json {}", schema::with_options(&schema)));
            return format!("BLANKS? {rule}_json BLANKS? {close}");
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            let values: Vec<String> = values.iter().filter_map(Value::as_str).map(quoted).collect();
            return format!("BLANKS? ({}) BLANKS? {close}", values.join(" | "));
        }
        self.any_text(rule, end)
    }

    /// Any text, up to what ends it.
    fn any_text(&self, rule: &str, end: &str) -> String {
        format!("{rule}_text\n{rule}_text[suffix={}]: /(?s:.*)/", quoted(end))
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.len() <= 128 && name.chars().all(fits)
}

/// Parameters are an object, whether or not the schema says so.
fn object_only(parameters: &Value) -> Value {
    match parameters {
        Value::Object(map) if !map.contains_key("type") => {
            let mut map = map.clone();
            map.insert("type".into(), "object".into());
            Value::Object(map)
        }
        other => other.clone(),
    }
}

/// A tool's parameters. Without any that are declared there are none, as OpenAI's documentation has it.
fn declared(parameters: Option<&Value>) -> Cow<'_, Value> {
    let says_any = |map: &Map<String, Value>| {
        let properties = map.get("properties").and_then(Value::as_object);
        properties.is_none_or(|properties| !properties.is_empty())
            || map
                .keys()
                .any(|key| !matches!(key.as_str(), "type" | "properties" | "required" | "title" | "$schema"))
    };
    let none = || Cow::Owned(json!({ "type": "object", "properties": {}, "additionalProperties": false }));
    match parameters {
        Some(Value::Object(map)) if map.is_empty() || !says_any(map) => none(),
        Some(other) if !other.is_null() => Cow::Borrowed(other),
        _ => none(),
    }
}

/// An error about a schema, which stands at `place`.
fn within(e: Error, place: &str) -> Error {
    match e.kind() {
        ErrorKind::Schema { pointer, keyword, what } => ErrorKind::Schema {
            pointer: format!("{place}{pointer}"),
            keyword: keyword.clone(),
            what: what.clone(),
        }
        .into(),
        _ => e,
    }
}

/// Refuses what cannot be enforced where each argument is plain text.
fn check_tagged(schema: &Value, place: &str) -> Result<(), Error> {
    let what = "is not supported in this model's way of writing calls";
    let Value::Object(map) = schema else { return Ok(()) };
    let known = ["type", "properties", "required", "additionalProperties", "$defs"];
    if let Some(keyword) = map.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(Error::schema(place, keyword, what));
    }
    for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let Value::Object(property) = property else { continue };
        let is_text = property.get("type") == Some(&Value::from("string"));
        let other = property.keys().find(|key| !matches!(key.as_str(), "type" | "enum"));
        if let Some(keyword) = other.filter(|_| is_text) {
            return Err(Error::schema(&format!("{place}/properties/{name}"), keyword, what));
        }
    }
    Ok(())
}
