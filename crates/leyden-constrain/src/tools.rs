//! Grammars of tool calls: the model's own way of writing them, with the parameters' schemas enforced.

use std::borrow::Cow;

use leyden_text::output::{CallBody, CallSyntax};
use llguidance::api::{GrammarWithLexer, TopLevelGrammar};
use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind};
use crate::keys::Tags;
use crate::schema::{self, JsonForm, Lowered, Parameter, ParameterValue};
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
    /// What an answer without a call follows.
    content: Option<Lowered>,
}

/// What the grammar is the grammar of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// A whole answer, of one call or of several.
    Answer { parallel: bool },
    /// One call, or what stands around several, each from any of its openings on.
    Opened { parallel: bool },
}

/// Rules for calls of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolRules {
    /// Several calls may follow each other.
    pub parallel: bool,
    /// Arguments are free for tools that do not say `strict`.
    pub loose: bool,
    /// How arguments are written. Those of tools that say `strict` are closed whatever it says.
    pub form: JsonForm,
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
    /// They one by one, where each is written for itself.
    tagged: Vec<Parameter>,
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
        form: JsonForm,
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
        Ok(ToolCalls { syntax: syntax.cloned(), tools: read, extent, content: None })
    }

    /// The same, or else a text after a schema.
    pub(crate) fn or(self, content: &Lowered) -> ToolCalls {
        ToolCalls { content: Some(content.clone()), ..self }
    }

    /// The tools' names and parameters; `None` where these are free.
    pub(crate) fn into_parameters(self) -> Vec<(String, Option<Lowered>)> {
        let parameters = |tool: Tool| (tool.name, (!tool.free).then_some(tool.parameters));
        self.tools.into_iter().map(parameters).collect()
    }

    /// Where values stand between tags, if they do.
    pub(crate) fn tags(&self) -> Option<Tags> {
        let CallBody::Tagged { key_start, key_end, value_end, .. } = &self.syntax.as_ref()?.body else {
            return None;
        };
        // What is free is read as a text: no more can be said of it.
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

    /// The schemas, as far as they are enforced.
    pub(crate) fn source(&self) -> String {
        let parameters = self.tools.iter().map(|tool| &tool.parameters);
        parameters.chain(&self.content).map(|schema| schema.value.to_string()).collect()
    }

    /// The grammar for a vocabulary, whose marks stand for themselves.
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
        starts.extend(self.content.as_ref().map(|content| lark.json(&content.lark)));
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
            let arguments = lark.json(&tool.parameters.lark);
            lark.rule(&format!("arguments_{i}"), &arguments);
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

/// What of a tool's parameters is enforced.
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
    /// Grammars of JSON, with blanks of their own.
    within: Vec<String>,
}

impl Lark<'_> {
    fn rule(&mut self, name: &str, body: &str) {
        self.rules.push_str(name);
        self.rules.push_str(": ");
        self.rules.push_str(body);
        self.rules.push('\n');
    }

    /// A value in JSON after a grammar of its own.
    fn json(&mut self, grammar: &str) -> String {
        let known = self.within.iter().position(|known| known == grammar);
        let at = known.unwrap_or_else(|| {
            self.within.push(grammar.to_owned());
            self.within.len() - 1
        });
        format!("@json_{at}")
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

    /// A parameter's value, with what ends it.
    fn value(&mut self, value: &ParameterValue, rule: &str, end: &str, framed: bool) -> String {
        let close = self.text(end);
        match value {
            ParameterValue::Json(grammar) => {
                let json = self.json(grammar);
                format!("BLANKS? {json} BLANKS? {close}")
            }
            ParameterValue::Constants(texts) => {
                let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
                // Other blanks would be part of the text.
                let around = if framed { "\"\\n\"?" } else { "" };
                format!("{around} ({}) {around} {close}", texts.join(" | "))
            }
            ParameterValue::Text(None) => self.any_text(rule, end),
            ParameterValue::Text(Some(term)) => {
                // Of a framed text the line break behind the one mark and that before the other are not part.
                let ends = format!("/(?s:.*){}(?s:.*)/", escaped(end));
                let name = rule.to_uppercase();
                self.rule(&format!("{name}_TEXT"), &format!("{term} & ~{ends}"));
                let mark = self.vocabulary.split_marks(end).iter().any(Result::is_err);
                // Within one terminal there is no telling too early where the text ends.
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

    /// Any text, up to what ends it.
    fn any_text(&self, rule: &str, end: &str) -> String {
        format!("{rule}_text\n{rule}_text[suffix={}]: /(?s:.*)/", quoted(end))
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A text as a regular expression between slashes.
fn escaped(text: &str) -> String {
    text.chars().map(|c| format!("\\x{{{:x}}}", u32::from(c))).collect()
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
