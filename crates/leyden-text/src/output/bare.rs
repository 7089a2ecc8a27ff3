//! Tool calls without the model's markers: a whole answer that is one or several calls of declared tools as JSON,
//! bare or in a fenced code block.
//!
//! Small models write such answers even when the prompt shows the markers. Text is held back only while it can
//! still become such an answer; from the first byte that rules it out, it is content again.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::json_scan::{JsonScan, Step};
use super::tools::Tools;

/// Maximum length in bytes of an answer that is held back.
const MAX_BYTES: usize = 64 << 10;
/// Maximum number of calls in an answer.
const MAX_CALLS: usize = 64;
/// Maximum length in bytes of the language name after a fence.
const MAX_INFO_BYTES: usize = 32;
const FENCE: &str = "```";

type Accepts = dyn Fn(&str, &Map<String, Json>) -> bool + Send + Sync;

/// Rules for accepting an answer without markers as tool calls.
#[derive(Clone)]
pub struct BareCalls {
    accepts: Arc<Accepts>,
    parallel: bool,
}

impl fmt::Debug for BareCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BareCalls").field("parallel", &self.parallel).finish_non_exhaustive()
    }
}

impl BareCalls {
    /// Creates rules under which a call of a declared tool counts if `accepts` returns true for its name and
    /// arguments, for instance by the tool's schema. With `parallel`, an answer may consist of several calls.
    #[must_use]
    pub fn new(
        accepts: impl Fn(&str, &Map<String, Json>) -> bool + Send + Sync + 'static,
        parallel: bool,
    ) -> BareCalls {
        BareCalls { accepts: Arc::new(accepts), parallel }
    }
}

/// Parsed tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BareCall {
    pub(super) name: String,
    /// Text of a JSON object.
    pub(super) arguments: String,
}

/// State of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A prefix of calls.
    More,
    /// Calls, and nothing else.
    Calls(Vec<BareCall>),
    /// Anything else.
    Content,
}

/// Parser of an answer from its beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct BareReading {
    stage: Stage,
    /// Number of bytes of the text that were examined.
    at: usize,
    /// Start of the object; `part` is the start of the current key or value in it.
    from: usize,
    part: usize,
    /// True if the next value is that of `name`.
    in_name: bool,
    scan: JsonScan,
    fenced: bool,
    list: List,
    calls: Vec<BareCall>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Between,
    /// After an opening fence, within its line.
    Info,
    Object,
}

/// Position in a list of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum List {
    #[default]
    None,
    /// After `[`: a call or the end of the list is expected.
    Begun,
    /// After a call: a comma or the end of the list is expected.
    Behind,
    /// After a comma: a call is expected.
    Comma,
}

impl BareReading {
    /// Continues parsing. `text` is the answer from its beginning and has grown since the last call; `done` is true
    /// if it has ended.
    pub(super) fn advance(&mut self, text: &str, tools: &Tools, rules: &BareCalls, done: bool) -> Verdict {
        if text.len() > MAX_BYTES {
            return Verdict::Content;
        }
        while self.at < text.len() {
            let goes_on = match self.stage {
                Stage::Between => self.between(&text[self.at..]),
                Stage::Info => self.info(&text[self.at..]),
                Stage::Object => self.object(text, tools, rules),
            };
            match goes_on {
                Some(true) => {}
                Some(false) => return Verdict::Content,
                // The text ends within a fence.
                None => break,
            }
        }
        if !done {
            return Verdict::More;
        }
        let whole = self.at == text.len() && self.stage == Stage::Between && self.list == List::None;
        match self.calls.len() {
            0 => Verdict::Content,
            n if !whole || n > 1 && !rules.parallel => Verdict::Content,
            _ => Verdict::Calls(std::mem::take(&mut self.calls)),
        }
    }

    /// Reads the text between objects. Returns whether the text is valid so far; `None` if more of it is needed.
    fn between(&mut self, rest: &str) -> Option<bool> {
        let text = rest.trim_ascii_start();
        self.at += rest.len() - text.len();
        let Some(first) = text.bytes().next() else { return Some(true) };
        match (first, self.list) {
            (b'`', List::None) if text.starts_with(FENCE) => {
                self.at += FENCE.len();
                if !self.fenced {
                    self.stage = Stage::Info;
                }
                self.fenced = !self.fenced;
            }
            (b'`', List::None) if FENCE.starts_with(text) => return None,
            (b'{', List::None | List::Begun | List::Comma) if self.calls.len() < MAX_CALLS => {
                (self.stage, self.from, self.scan) = (Stage::Object, self.at, JsonScan::default());
                self.in_name = false;
            }
            (b'[', List::None) => self.list_goes_on(List::Begun),
            (b',', List::Behind) => self.list_goes_on(List::Comma),
            (b']', List::Begun | List::Behind) => self.list_goes_on(List::None),
            _ => return Some(false),
        }
        Some(true)
    }

    fn list_goes_on(&mut self, list: List) {
        self.list = list;
        self.at += 1;
    }

    /// Reads the rest of an opening fence's line: the optional name of a language.
    fn info(&mut self, rest: &str) -> Option<bool> {
        let word =
            rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"_-+.".contains(byte)).count();
        if word > MAX_INFO_BYTES {
            return Some(false);
        }
        if word == rest.len() {
            return None;
        }
        self.at += word;
        self.stage = Stage::Between;
        Some(true)
    }

    fn object(&mut self, text: &str, tools: &Tools, rules: &BareCalls) -> Option<bool> {
        while let Some(byte) = text.as_bytes().get(self.at) {
            let at = self.at;
            self.at += 1;
            match self.scan.step(*byte) {
                Step::KeyBegins | Step::ValueBegins => self.part = at,
                Step::KeyEnds => {
                    let key = serde_json::from_str::<String>(&text[self.part..=at]).ok();
                    let Some(key) = key.filter(|key| KEYS.contains(&key.as_str())) else {
                        return Some(false);
                    };
                    self.in_name = key == "name";
                }
                Step::ValueEnds if self.in_name => {
                    let name = serde_json::from_str::<String>(&text[self.part..=at]).ok();
                    if !name.is_some_and(|name| tools.has(&name)) {
                        return Some(false);
                    }
                }
                Step::Whole => {
                    let Some(call) = call(&text[self.from..=at], rules) else { return Some(false) };
                    self.calls.push(call);
                    self.stage = Stage::Between;
                    if self.list != List::None {
                        self.list = List::Behind;
                    }
                    return Some(true);
                }
                Step::Wrong => return Some(false),
                Step::ValueEnds | Step::More => {}
            }
        }
        Some(true)
    }
}

/// Keys of a call. Models confuse `arguments` with `parameters`, and some write OpenAI's nested form.
const KEYS: [&str; 6] = ["name", "arguments", "parameters", "type", "id", "function"];

/// Parses an object as a call; `None` if it is not an accepted one.
fn call(object: &str, rules: &BareCalls) -> Option<BareCall> {
    let members = members(object)?;
    let value = |key: &str| members.iter().find(|(known, _)| known == key).map(|(_, value)| *value);
    if let Some(function) = value("function") {
        let alone = ["name", "arguments", "parameters"].iter().all(|key| value(key).is_none());
        return call(function?, rules).filter(|_| alone);
    }
    if value("type").is_some_and(|kind| kind != Some("\"function\"")) {
        return None;
    }
    let name: String = serde_json::from_str(value("name")??).ok()?;
    let arguments = match (value("arguments"), value("parameters")) {
        (Some(_), Some(_)) => return None,
        (Some(value), None) | (None, Some(value)) => written(value?)?,
        (None, None) => "{}".to_owned(),
    };
    let Ok(Json::Object(map)) = serde_json::from_str(&arguments) else { return None };
    (rules.accepts)(&name, &map).then_some(BareCall { name, arguments })
}

/// Returns the text of the arguments object, which may be encoded in a string.
fn written(value: &str) -> Option<String> {
    match value.as_bytes().first()? {
        b'{' => Some(value.to_owned()),
        b'"' => serde_json::from_str(value).ok(),
        _ => None,
    }
}

/// Returns the members of an object with the source text of their values; `None` for values that are numbers.
fn members(object: &str) -> Option<Vec<(String, Option<&str>)>> {
    let mut scan = JsonScan::default();
    let mut members: Vec<(String, Option<&str>)> = Vec::new();
    let mut from = 0;
    for (at, byte) in object.bytes().enumerate() {
        match scan.step(byte) {
            Step::KeyBegins | Step::ValueBegins => from = at,
            Step::KeyEnds => {
                let key: String = serde_json::from_str(&object[from..=at]).ok()?;
                // A duplicate key is ambiguous.
                if members.iter().any(|(known, _)| *known == key) {
                    return None;
                }
                members.push((key, None));
            }
            Step::ValueEnds => members.last_mut()?.1 = Some(&object[from..=at]),
            Step::Whole => return Some(members),
            Step::Wrong => return None,
            Step::More => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the calls in a text, however it is split, or the number of bytes after which it was known to have
    /// none.
    fn read(text: &str, parallel: bool) -> Result<Vec<(String, String)>, usize> {
        let tools = json!([{ "function": { "name": "add" } }, { "function": { "name": "now" } }]);
        let tools = Tools::new(Some(&tools));
        let fits = |name: &str, arguments: &Map<String, Json>| name == "now" || arguments.contains_key("a");
        let rules = BareCalls::new(fits, parallel);
        let mut all = Vec::new();
        for step in [1, 2, 3, 7, text.len().max(1)] {
            let mut reading = BareReading::default();
            let mut known = 0;
            let mut verdict = Verdict::More;
            while known < text.len() && verdict == Verdict::More {
                known = text.len().min(known + step);
                verdict = reading.advance(&text[..known], &tools, &rules, false);
            }
            if verdict == Verdict::More {
                verdict = reading.advance(text, &tools, &rules, true);
                known += usize::from(verdict == Verdict::Content);
            }
            all.push(match verdict {
                Verdict::Calls(calls) => Ok(calls.into_iter().map(|c| (c.name, c.arguments)).collect()),
                _ => Err(known),
            });
        }
        // Pieces of several bytes delay the verdict.
        assert!(all.iter().all(|one| one.as_ref().ok() == all[0].as_ref().ok()), "{text}: {all:?}");
        all.remove(0)
    }

    #[test]
    fn whole_answers_are_calls() {
        let add = |arguments: &str| Ok(vec![("add".to_owned(), arguments.to_owned())]);
        for (text, arguments) in [
            ("{\"name\": \"add\", \"arguments\": {\"a\": 1}}", "{\"a\": 1}"),
            (" \n{\"name\":\"add\",\"parameters\":{\"a\":[\"}\"]}}\n", "{\"a\":[\"}\"]}"),
            ("```json\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n```", "{\"a\": 1}"),
            ("```\n{\"arguments\": {\"a\": 1.0}, \"name\": \"add\"}```\n", "{\"a\": 1.0}"),
            ("```json {\"name\": \"add\", \"arguments\": {\"a\": 1}}", "{\"a\": 1}"),
            ("{\"name\": \"add\", \"arguments\": \"{\\\"a\\\": 1}\"}", "{\"a\": 1}"),
            (
                "{\"type\": \"function\", \"function\": {\"name\": \"add\", \"arguments\": {\"a\": 2}}}",
                "{\"a\": 2}",
            ),
            ("[{\"id\": \"x\", \"name\": \"add\", \"arguments\": {\"a\": 1}}]", "{\"a\": 1}"),
        ] {
            assert_eq!(read(text, false), add(arguments), "{text}");
        }
        assert_eq!(read("{\"name\": \"now\"}", false), Ok(vec![("now".into(), "{}".into())]));
    }

    #[test]
    fn several_calls_need_parallel() {
        let now = "{\"name\": \"now\"}";
        for text in [
            format!("{now}\n{now}"),
            format!("[{now}, {now}]"),
            format!("```json\n{now}\n{now}\n```"),
            format!("```json\n{now}\n```\n\n```json\n{now}\n```"),
        ] {
            assert_eq!(read(&text, true).map(|calls| calls.len()), Ok(2), "{text}");
            assert!(read(&text, false).is_err(), "{text}");
        }
    }

    /// Checks that anything else is content, as early as possible.
    #[test]
    fn other_answers_are_content_at_once() {
        for (text, known) in [
            ("Hello", 1),
            ("{\"answer\": 1}", 9),
            ("{\"name\": \"other\", \"arguments\": {}}", 16),
            ("{\"name\": \"add\", \"arguments\": {\"b\": 1}} ", 38),
            ("{\"name\": \"now\"} is a call", 17),
            ("```python\nprint(1)", 11),
            ("```json\n{\"name\": \"now\"}\n``` So", 29),
            ("[1, 2]", 2),
            ("{'name': 'now'}", 2),
            ("{\"name\": \"now\", \"arguments\": {}, \"arguments\": {}}", 49),
            ("{\"name\": \"now\", \"arguments\": [1]}", 33),
        ] {
            assert_eq!(read(text, true), Err(known), "{text}");
        }
        // A truncated call is known to be content only at the end of the answer.
        for text in [
            "",
            "`",
            "```",
            "```json\n",
            "{\"name\": \"now\"",
            "[{\"name\": \"now\"}",
            "[]",
            "{\"name\": \"now\"}\n``",
        ] {
            assert_eq!(read(text, true), Err(text.len() + 1), "{text}");
        }
        let long = format!("{{\"name\": \"now\", \"arguments\": {{\"a\": \"{}", "x".repeat(MAX_BYTES));
        assert!(matches!(read(&long, true), Err(known) if known <= MAX_BYTES + 7));
    }
}
