//! Grammars of tool calls in the model's own syntax, with the parameters' schemas enforced.

use std::borrow::Cow;

use leyden_text::output::{CallBody, CallSyntax};
use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind};
use crate::keys::Tags;
use crate::schema::{self, JsonForm, Lowered, Parameter, ParameterValue};
use crate::vocabulary::Vocabulary;

/// Maximum number of tools.
const MAX_TOOLS: usize = 256;
/// Ids that the model generates: nine letters and digits, as the strictest format requires.
const ID: &str = "/[a-zA-Z0-9]{9}/";

/// Grammar of tool calls as an answer, or within one.
#[derive(Clone, Debug)]
pub(crate) struct ToolCalls {
    /// Call syntax; `None` is harmony.
    syntax: Option<CallSyntax>,
    tools: Vec<Tool>,
    scope: CallScope,
    /// Schema of an answer without a call.
    content: Option<Lowered>,
}

/// CallScope of the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallScope {
    /// A whole answer, of one call or several.
    Answer { parallel: bool },
    /// One call, or a section of several, each from any of its openings on.
    Opened { parallel: bool },
}

/// Rules for tool calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// True if several calls may follow each other.
    pub parallel: bool,
    /// True if arguments of tools without `strict` are not constrained.
    pub loose: bool,
    /// Formatting of arguments. Those of tools with `strict` are always closed.
    pub form: JsonForm,
}

/// Treatment of schemas that cannot be enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lenience {
    /// They are refused.
    None,
    /// The tool's arguments are not constrained, unless it has `strict`.
    Unenforced,
    /// The arguments of all tools without `strict` are not constrained.
    All,
}

#[derive(Clone, Debug)]
struct Tool {
    name: String,
    parameters: Lowered,
    /// Separate parameters, for a syntax that has them.
    tagged: Vec<Parameter>,
    /// True if arguments may have any names and values.
    free: bool,
}

impl ToolCalls {
    /// Reads the tools of a request: a list of `{"type": "function", "function": {"name": …, "parameters": …}}` or
    /// of the inner objects.
    pub(crate) fn new(
        syntax: Option<&CallSyntax>,
        tools: &Value,
        only: Option<&str>,
        scope: CallScope,
        lenience: Lenience,
        form: JsonForm,
    ) -> Result<ToolCalls, Error> {
        let wrong = |pointer: String, what: &str| -> Error {
            ErrorKind::Schema { pointer, keyword: None, what: what.to_owned() }.into()
        };
        let Value::Array(list) = tools else { return Err(wrong(String::new(), "tools must be a list")) };
        if list.len() > MAX_TOOLS {
            return Err(
                ErrorKind::TooComplex(format!("{} tools; the maximum is {MAX_TOOLS}", list.len())).into()
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
            let form = JsonForm { closed: form.closed || strict, ..form };
            let enforced = || enforced(parameters, &format!("{place}/parameters"), tagged, form);
            let lowered = match lenience {
                Lenience::All if !strict => None,
                Lenience::Unenforced if !strict => enforced().ok(),
                _ => Some(enforced()?),
            };
            let free = lowered.is_none();
            let (parameters, tagged) = match lowered {
                Some(enforced) => enforced,
                None => (schema::lower_as(&any, false, form)?, Vec::new()),
            };
            read.push(Tool { name: name.to_owned(), parameters, tagged, free });
        }
        if read.is_empty() {
            return Err(wrong(String::new(), "there is no such tool"));
        }
        Ok(ToolCalls { syntax: syntax.cloned(), tools: read, scope, content: None })
    }

    /// Adds a text of a schema as an alternative to calls.
    pub(crate) fn or(self, content: &Lowered) -> ToolCalls {
        ToolCalls { content: Some(content.clone()), ..self }
    }

    /// Returns the tools' names and parameters; `None` if these are not constrained.
    pub(crate) fn into_parameters(self) -> Vec<(String, Option<Lowered>)> {
        let parameters = |tool: Tool| (tool.name, (!tool.free).then_some(tool.parameters));
        self.tools.into_iter().map(parameters).collect()
    }

    /// Returns the tags around values, if the syntax has them.
    pub(crate) fn tags(&self) -> Option<Tags> {
        let CallBody::Tagged { key_start, key_end, value_end, .. } = &self.syntax.as_ref()?.body else {
            return None;
        };
        // Unconstrained values are treated as texts: nothing else is known of them.
        let is_text = |parameter: &&Parameter| !matches!(parameter.value, ParameterValue::Json(_));
        let texts = self.tools.iter().flat_map(|tool| tool.tagged.iter().filter(is_text));
        Some(Tags {
            key_start: key_start.as_bytes().to_vec(),
            key_end: key_end.as_bytes().to_vec(),
            value_end: value_end.as_bytes().to_vec(),
            texts: texts.map(|parameter| parameter.name.clone()).collect(),
            all_texts: self.tools.iter().any(|tool| tool.free),
        })
    }

    /// Returns the enforced schemas.
    pub(crate) fn source(&self) -> String {
        let parameters = self.tools.iter().map(|tool| &tool.parameters);
        parameters.chain(&self.content).map(|schema| schema.value.to_string()).collect()
    }

    /// Returns the grammar for a vocabulary, with markers that are special tokens as such tokens.
    pub(crate) fn top_level(&self, vocabulary: &Vocabulary) -> TopLevelGrammar {
        let rules = String::from("BLANKS: /[ \\n]{1,4}/\n");
        let mut lark = Lark { vocabulary, rules, within: Vec::new() };
        match &self.syntax {
            Some(syntax) => self.marked(syntax, &mut lark),
            None => self.harmony(&mut lark),
        }
        let all = GrammarWithLexer { lark_grammar: Some(lark.rules), ..GrammarWithLexer::default() };
        let within = lark.within.into_iter().enumerate().map(|(i, grammar)| GrammarWithLexer {
            name: Some(format!("json_{i}")),
            lark_grammar: Some(grammar),
            ..GrammarWithLexer::default()
        });
        TopLevelGrammar { grammars: std::iter::once(all).chain(within).collect(), max_tokens: None }
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
            // A name follows its marker immediately, and so does text after an incomplete tag.
            let behind = if s.body_is_json() { blanks(open) } else { String::new() };
            let close_blanks = blanks(close);
            format!("{open} {behind} {inner} {close_blanks} {close}")
        };
        let list = matches!(s.body, CallBody::Object { list: true, .. });
        let one = if list { "call".to_owned() } else { around("call", &start, &end) };
        lark.rule("one", &one);
        let (CallScope::Answer { parallel } | CallScope::Opened { parallel }) = self.scope;
        let several = match (parallel, list) {
            (false, _) => "one".to_owned(),
            (true, true) => "one (\",\" BLANKS? one)*".to_owned(),
            // Without markers the start of the next call is ambiguous.
            (true, false) if s.start.is_empty() && s.section.0.is_empty() => "one".to_owned(),
            (true, false) => "one (BLANKS? one)*".to_owned(),
        };
        let all = if list { around(&format!("\"[\" {several} \"]\""), &start, &end) } else { several };
        let (open, close) = (lark.text(&s.section.0), lark.text(&s.section.1));
        let section = (!open.is_empty()).then(|| format!("{open} BLANKS? {all} BLANKS? {close}"));
        let mut starts = Vec::new();
        match self.scope {
            CallScope::Answer { .. } => starts.push(section.unwrap_or(all)),
            CallScope::Opened { .. } => {
                if !s.start.is_empty() || section.is_none() {
                    starts.push(if list { all } else { "one".to_owned() });
                }
                starts.extend(section);
                if let Some(other) = &s.other_start {
                    starts.push(format!("{} BLANKS? call {end}", lark.text(other)));
                }
            }
        }
        starts.extend(self.content.as_ref().map(|content| lark.json(&content.lark)));
        lark.rule("start", &starts.join(" | "));
    }

    /// Writes calls as harmony messages: the channel `commentary`, a recipient, and arguments in JSON.
    fn harmony(&self, lark: &mut Lark<'_>) {
        let (channel, message) = (lark.text("<|channel|>"), lark.text("<|message|>"));
        let kind = format!("(\" \" {} \"json\" | \" json\")?", lark.text("<|constrain|>"));
        let end = lark.text("<|call|>");
        let (mut named, mut unnamed) = (Vec::new(), Vec::new());
        for (i, tool) in self.tools.iter().enumerate() {
            let name = quoted(&tool.name);
            let arguments = lark.json(&tool.parameters.lark);
            lark.rule(&format!("arguments_{i}"), &arguments);
            lark.rule(&format!("body_{i}"), &format!("{kind} {message} arguments_{i} {end}"));
            named.push(format!("{name} body_{i}"));
            unnamed.push(format!("{name} {channel} \"commentary\" body_{i}"));
        }
        let calls = format!("{channel} \"commentary to=functions.\" ({})", named.join(" | "));
        lark.rule("call", &calls);
        let start = match self.scope {
            CallScope::Opened { .. } => format!("call | \" to=functions.\" ({})", unnamed.join(" | ")),
            // A reasoning message may come first; its text is not part of the grammar.
            CallScope::Answer { .. } => {
                let (over, next) = (lark.text("<|end|>"), lark.text("<|start|>"));
                let content = self.content.as_ref().map(|content| {
                    let json = lark.json(&content.lark);
                    lark.rule("content", &format!("{channel} \"final\" {message} {json}"));
                });
                let calls = if content.is_some() { "(call | content)" } else { "call" };
                format!("{calls} | {channel} \"analysis\" {message} | {over} {next} \"assistant\" {calls}")
            }
        };
        lark.rule("start", &start);
    }
}

/// Returns the enforced parameters of a tool.
fn enforced(
    parameters: &Value,
    place: &str,
    tagged: bool,
    form: JsonForm,
) -> Result<(Lowered, Vec<Parameter>), Error> {
    let placed = |e| within(e, place);
    let lowered = schema::lower_as(&object_only(parameters), false, form).map_err(placed)?;
    let tagged = if tagged { lowered.parameters().map_err(placed)? } else { Vec::new() };
    Ok((lowered, tagged))
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
    /// Grammars of JSON, with white space of their own.
    within: Vec<String>,
}

impl Lark<'_> {
    fn rule(&mut self, name: &str, body: &str) {
        self.rules.push_str(name);
        self.rules.push_str(": ");
        self.rules.push_str(body);
        self.rules.push('\n');
    }

    /// Returns a reference to JSON of a separate grammar.
    fn json(&mut self, grammar: &str) -> String {
        let known = self.within.iter().position(|known| known == grammar);
        let at = known.unwrap_or_else(|| {
            self.within.push(grammar.to_owned());
            self.within.len() - 1
        });
        format!("@json_{at}")
    }

    /// Writes a fixed text, with special tokens of the vocabulary as such; an end token and the text after it are
    /// dropped.
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
                let json = self.json(&tool.parameters.lark);
                self.rule(&format!("arguments_{i}"), &json);
                let key = |name: &str| Value::from(name).to_string();
                let before = format!("{{{}: {}, {}: ", key(name), key(&tool.name), key(arguments));
                let id = match id {
                    Some(id) => format!("{} {ID} {}", quoted(&format!(", {}: \"", key(id))), quoted("\"}")),
                    None => quoted("}"),
                };
                format!("{} arguments_{i} {id}", quoted(&before))
            }
            CallBody::Named { separator, prefix, numbered, id } => {
                let json = self.json(&tool.parameters.lark);
                self.rule(&format!("arguments_{i}"), &json);
                let number = if *numbered { ":\" /[0-9]{1,3}/ \"" } else { "" };
                let name = Value::from(format!("{prefix}{}", tool.name)).to_string();
                let name = format!("{}{number}\"", &name[..name.len() - 1]);
                let name = name.trim_end_matches("\"\"").trim_end().to_owned();
                let id = id.as_ref().map(|id| format!("{} {ID}", self.text(id))).unwrap_or_default();
                format!("{name} {id} {} BLANKS? arguments_{i}", self.text(separator))
            }
            CallBody::Tagged { separator, key_start, key_end, value_end, .. } if tool.free => {
                let (start, between) = (self.text(key_start), self.text(key_end));
                let value = self.any_text(&format!("value_{i}"), value_end);
                self.rule(&format!("value_{i}"), &value);
                let one = format!("BLANKS? {start} /[a-zA-Z0-9_.-]{{1,64}}/ {between} value_{i}");
                format!("{} {} ({one})*", quoted(&tool.name), self.text(separator))
            }
            CallBody::Tagged { separator, key_start, key_end, value_end, framed } => {
                let mut parts = vec![quoted(&tool.name), self.text(separator)];
                for (n, parameter) in tool.tagged.iter().enumerate() {
                    let rule = format!("value_{i}_{n}");
                    let value = self.value(&parameter.value, &rule, value_end, *framed);
                    self.rule(&rule, &value);
                    let (start, between) = (self.text(key_start), self.text(key_end));
                    let one = format!("BLANKS? {start} {} {between} {rule}", quoted(&parameter.name));
                    parts.push(if parameter.required { one } else { format!("({one})?") });
                }
                parts.join(" ")
            }
        }
    }

    /// Writes a parameter's value, with the marker that ends it.
    fn value(&mut self, value: &ParameterValue, rule: &str, end: &str, framed: bool) -> String {
        let close = self.text(end);
        match value {
            ParameterValue::Json(grammar) => {
                let json = self.json(grammar);
                format!("BLANKS? {json} BLANKS? {close}")
            }
            ParameterValue::Constants(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
                // Other white space would be part of the text.
                let around = if framed { "\"\\n\"?" } else { "" };
                format!("{around} ({}) {around} {close}", texts.join(" | "))
            }
            ParameterValue::Text(None) => self.any_text(rule, end),
            ParameterValue::Text(Some(term)) => {
                // The line breaks adjacent to the markers are not part of a framed text.
                let ends = format!("/(?s:.*){}(?s:.*)/", escaped(end));
                let name = rule.to_uppercase();
                self.rule(&format!("{name}_TEXT"), &format!("{term} & ~{ends}"));
                let mark = self.vocabulary.split_marks(end).iter().any(Result::is_err);
                // Within one terminal the end of the text is unambiguous.
                let within = if mark { String::new() } else { quoted(end) };
                if framed {
                    let bare = format!("{name}_TEXT & ~/(\\n(?s:.*)|(?s:.*)\\n)/");
                    self.rule(&format!("{name}_BARE"), &bare);
                    let whole = format!("\"\\n\" {name}_TEXT \"\\n\" {within}");
                    self.rule(&name, &format!("{whole} | {name}_BARE {within}"));
                } else {
                    self.rule(&name, &format!("{name}_TEXT {within}"));
                }
                if mark { format!("{name} {close}") } else { name }
            }
        }
    }

    /// Writes any text, up to its end marker.
    fn any_text(&self, rule: &str, end: &str) -> String {
        format!("{rule}_text\n{rule}_text[suffix={}]: /(?s:.*)/", quoted(end))
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns a text as a regular expression for use between slashes.
fn escaped(text: &str) -> String {
    text.chars().map(|c| format!("\\x{{{:x}}}", u32::from(c))).collect()
}

fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.len() <= 128 && name.chars().all(fits)
}

/// Restricts parameters to objects, even if the schema does not.
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

/// Returns a tool's parameters. If none are declared, there are none, as in OpenAI's documentation.
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

/// Returns an error about a schema, prefixed by its place.
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
