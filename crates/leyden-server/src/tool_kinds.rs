//! Conversion of tools that are no plain functions to functions that a model can call.
//!
//! A tool of free text becomes a function with one string parameter, and a tool of a namespace gets a name that
//! contains both. Calls of either are reported to the client under the declared names. Tools of all other kinds run on
//! their vendor's servers only: they are left out, and reported to the client.

use serde_json::{Value, json};
use std::collections::HashMap;

/// The only parameter of a function that represents a tool of free text.
const TEXT: &str = "input";

/// A tool that is no plain function, as the client declared it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// True if its input is a text that need not be JSON.
    pub(crate) is_free_text: bool,
}

/// Tools that are no plain functions, by the names under which the model calls them.
pub(crate) type ToolNames = HashMap<String, Declared>;

/// Returns the name under which the model calls a tool.
pub(crate) fn full_name(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        None => name.to_owned(),
        Some(namespace) => format!("{}__{name}", namespace.trim_end_matches("__")),
    }
}

/// Returns the function for a tool of free text. A regular expression is enforced; another grammar is only shown to the
/// model.
pub(crate) fn of_free_text(name: &str, description: Option<&str>, format: Option<&Value>) -> Value {
    let mut text = json!({ "type": "string", "description": "Input of the tool, as plain text" });
    let mut description = description.unwrap_or_default().to_owned();
    let definition = format.and_then(|format| format["definition"].as_str());
    if let (Some(format), Some(definition)) = (format, definition) {
        match format["syntax"].as_str() {
            Some("regex") => text["pattern"] = format!("^(?:{definition})$").into(),
            syntax => {
                let syntax = syntax.unwrap_or_default();
                description
                    .push_str(&format!("\n\nThe input follows this grammar ({syntax}):\n{definition}"));
            }
        }
    }
    json!({
        "name": name, "description": description.trim_start(),
        "parameters": {
            "type": "object", "properties": { TEXT: text }, "required": [TEXT], "additionalProperties": false
        }
    })
}

/// Returns the arguments of a call of such a function for the tool's input.
pub(crate) fn arguments_of(input: &str) -> String {
    json!({ TEXT: input }).to_string()
}

/// Converts the tools of a chat. Returns the functions, the names of the tools that are no plain functions, and paths
/// and kinds of the tools that are left out.
pub(crate) fn functions(tools: Vec<Value>) -> (Vec<Value>, ToolNames, Vec<String>) {
    let (mut functions, mut names, mut left_out) = (Vec::new(), ToolNames::new(), Vec::new());
    for (i, mut tool) in tools.into_iter().enumerate() {
        match tool["type"].as_str().unwrap_or("function") {
            "function" => functions.push(tool),
            "custom" => {
                let custom = tool["custom"].take();
                let name = custom["name"].as_str().unwrap_or_default().to_owned();
                // In a chat the grammar is nested in an object of its own.
                let format = custom["format"].get("grammar").unwrap_or(&custom["format"]);
                let function = of_free_text(&name, custom["description"].as_str(), Some(format));
                functions.push(json!({ "type": "function", "function": function }));
                names.insert(name.clone(), Declared { namespace: None, name, is_free_text: true });
            }
            kind => left_out.push(format!("tools[{i}]:{kind}")),
        }
    }
    (functions, names, left_out)
}

/// Returns the plain functions of a chat's tools, and paths and kinds of the others.
pub(crate) fn plain(tools: Vec<Value>) -> (Vec<Value>, Vec<String>) {
    let (mut functions, mut others) = (Vec::new(), Vec::new());
    for (i, tool) in tools.into_iter().enumerate() {
        match tool["type"].as_str().unwrap_or("function") {
            "function" => functions.push(tool),
            kind => others.push(format!("tools[{i}]:{kind}")),
        }
    }
    (functions, others)
}

/// Returns the schema of an object whose `type` is none of these.
pub(crate) fn other_than(kinds: &[&str]) -> Value {
    json!({
        "type": "object", "required": ["type"],
        "properties": { "type": { "type": "string", "not": { "enum": kinds } } }
    })
}

/// Returns the schema of the format of a tool's free text. A chat nests the parts of a grammar in a field `grammar`.
pub(crate) fn format_schema(definition_chars: usize, is_nested: bool) -> Value {
    let text = json!({
        "type": "object", "additionalProperties": false, "required": ["type"],
        "properties": { "type": { "const": "text" } }
    });
    let parts = json!({
        "syntax": { "enum": ["lark", "regex"] },
        "definition": { "type": "string", "maxLength": definition_chars }
    });
    let mut grammar = json!({
        "type": "object", "additionalProperties": false, "required": ["syntax", "definition"], "properties": parts
    });
    if is_nested {
        grammar = json!({
            "type": "object", "additionalProperties": false, "required": ["grammar"],
            "properties": { "grammar": grammar }
        });
    }
    grammar["properties"]["type"] = json!({ "const": "grammar" });
    if let Some(Value::Array(required)) = grammar.get_mut("required") {
        required.push("type".into());
    }
    json!({ "anyOf": [text, grammar] })
}

/// State of the reader of a call's arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Before,
    Inside,
    Behind,
}

/// Incremental reader of a free-text tool's input in the arguments of its function.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeText {
    place: Place,
    /// The arguments up to the text; all of them if no text begins.
    head: String,
    /// An incomplete escape sequence.
    escape: String,
    /// The first half of a surrogate pair.
    half: Option<u32>,
}

impl FreeText {
    /// Reads more of the arguments. Returns the text that they add.
    pub(crate) fn push(&mut self, fragment: &str) -> String {
        let mut text = String::with_capacity(fragment.len());
        for c in fragment.chars() {
            match self.place {
                Place::Before => self.begin(c),
                Place::Inside => self.inside(c, &mut text),
                Place::Behind => {}
            }
        }
        text
    }

    /// Ends the arguments. Returns the remaining text: all of them, if they are no object with a text.
    pub(crate) fn end(&mut self) -> String {
        match self.place {
            Place::Before => std::mem::take(&mut self.head),
            _ => self.half.take().map_or_else(String::new, |_| char::REPLACEMENT_CHARACTER.into()),
        }
    }

    fn begin(&mut self, c: char) {
        /// Maximum length of the part before the text that is examined, white space included.
        const MOST: usize = 64;
        self.head.push(c);
        if c != '"' || self.head.len() > MOST {
            return;
        }
        let packed: String = self.head.split_whitespace().collect();
        if packed.strip_prefix("{\"").and_then(|rest| rest.strip_prefix(TEXT)) == Some("\":\"") {
            self.place = Place::Inside;
        }
    }

    fn inside(&mut self, c: char, text: &mut String) {
        if !self.escape.is_empty() {
            self.escape.push(c);
            return self.escaped(text);
        }
        if c == '\\' {
            self.escape.push(c);
            return;
        }
        self.put_half(text);
        match c {
            '"' => self.place = Place::Behind,
            c => text.push(c),
        }
    }

    /// Reads the escape sequence after a backslash, if it is complete.
    fn escaped(&mut self, text: &mut String) {
        let rest = self.escape.get(1..).unwrap_or_default();
        if let Some(digits) = rest.strip_prefix('u') {
            if digits.chars().count() < 4 {
                return;
            }
            let unit = u32::from_str_radix(digits, 16).unwrap_or(u32::MAX);
            self.escape.clear();
            return self.unit(unit, text);
        }
        let c = match rest.chars().next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some(c) => c,
            None => return,
        };
        self.escape.clear();
        self.put_half(text);
        text.push(c);
    }

    /// Adds a UTF-16 code unit.
    fn unit(&mut self, unit: u32, text: &mut String) {
        match (self.half.take(), unit) {
            (Some(high), 0xdc00..=0xdfff) => {
                let c = 0x1_0000 + ((high - 0xd800) << 10) + (unit - 0xdc00);
                text.push(char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            (earlier, unit) => {
                text.extend(earlier.map(|_| char::REPLACEMENT_CHARACTER));
                match unit {
                    0xd800..=0xdbff => self.half = Some(unit),
                    unit => text.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)),
                }
            }
        }
    }

    /// Adds a replacement character for an unpaired surrogate.
    fn put_half(&mut self, text: &mut String) {
        text.extend(self.half.take().map(|_| char::REPLACEMENT_CHARACTER));
    }
}

/// Returns the name under which the model calls the tool of a `tool_choice`.
pub(crate) fn chosen_name(names: &ToolNames, name: &str) -> String {
    let of_name = |(_, declared): &(&String, &Declared)| declared.name == name;
    names.iter().find(of_name).map_or_else(|| name.to_owned(), |(full, _)| full.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_text_is_the_same_however_it_is_cut() {
        for text in ["", "*** Begin\n+\"a\\b\"\t\u{1}", "é 😀 \u{7f}", "\u{2028}"] {
            for spaced in [false, true] {
                let mut arguments = arguments_of(text);
                if spaced {
                    arguments = arguments.replacen("{\"input\":", "{ \"input\" :\n ", 1) + " ";
                }
                for size in 1..8 {
                    let (mut reader, mut read) = (FreeText::default(), String::new());
                    let letters: Vec<char> = arguments.chars().collect();
                    for piece in letters.chunks(size) {
                        read.push_str(&reader.push(&piece.iter().collect::<String>()));
                    }
                    read.push_str(&reader.end());
                    assert_eq!(read, text, "{arguments}");
                }
            }
        }
    }

    #[test]
    fn odd_arguments_lose_nothing() {
        for (arguments, wanted) in [
            ("{\"input\":\"\\ud83d\\ude00\\u00e9\\/\"}", "😀é/"),
            ("{\"input\":\"\\ud83dx\\ud83d\"}", "\u{fffd}x\u{fffd}"),
            ("{\"input\":\"\\ud83d", "\u{fffd}"),
            ("{\"input\":\"cut off", "cut off"),
            ("{\"other\":1}", "{\"other\":1}"),
            ("{\"input\":5}", "{\"input\":5}"),
            ("", ""),
        ] {
            let mut reader = FreeText::default();
            assert_eq!(reader.push(arguments) + &reader.end(), wanted, "{arguments}");
        }
    }

    #[test]
    fn kinds_become_functions_or_are_left_out() {
        let function = json!({ "type": "function", "function": { "name": "f" } });
        let grammar = json!({ "type": "grammar", "grammar": { "syntax": "regex", "definition": "a|b" } });
        let custom = json!({ "type": "custom", "custom": { "name": "c", "format": grammar } });
        let tools = vec![json!({ "type": "web_search" }), function.clone(), custom];
        let (functions, names, left_out) = functions(tools);
        assert_eq!((&functions[0], left_out), (&function, vec!["tools[0]:web_search".to_owned()]));
        let parameters = &functions[1]["function"]["parameters"];
        assert_eq!(parameters["properties"]["input"]["pattern"], "^(?:a|b)$");
        assert!(names["c"].is_free_text && !names.contains_key("f"));
        assert_eq!(full_name(Some("mcp__git__"), "log"), "mcp__git__log");
        assert_eq!(full_name(Some("agents"), "close"), "agents__close");
    }
}
