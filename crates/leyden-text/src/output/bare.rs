//! Calls without the marks of the model's format: a whole answer that is a call of a declared tool, or several, as JSON,
//! bare or in a fenced block of code.
//!
//! Small models write them so though they were shown the marks. Text is held back only while it can still become such an
//! answer: from the first byte that no call has, it is content again.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::json_scan::{JsonScan, Step};
use super::tools::Tools;

/// The longest answer that is held back, in bytes.
const MOST_BYTES: usize = 64 << 10;
/// The most calls of an answer.
const MOST_CALLS: usize = 64;
/// The longest name of a language behind a fence, in bytes.
const MOST_INFO_BYTES: usize = 32;
const FENCE: &str = "```";

type Accepts = dyn Fn(&str, &Map<String, Json>) -> bool + Send + Sync;

/// Rules that make calls of an answer without marks.
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
    /// Calls of declared tools whose name and arguments `accepts` takes, as by the tool's schema. With `parallel` an answer
    /// may consist of several.
    #[must_use]
    pub fn new(
        accepts: impl Fn(&str, &Map<String, Json>) -> bool + Send + Sync + 'static,
        parallel: bool,
    ) -> BareCalls {
        BareCalls { accepts: Arc::new(accepts), parallel }
    }
}

/// A call that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BareCall {
    pub(super) name: String,
    /// A JSON object, as it is written.
    pub(super) arguments: String,
}

/// State of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The beginning of calls.
    More,
    /// Calls, and nothing else.
    Calls(Vec<BareCall>),
    /// Something else.
    Content,
}

/// The reading of an answer from its beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct BareReading {
    stage: Stage,
    /// How far the text has been looked at.
    at: usize,
    /// Where the object begins, and the key or value in it.
    from: usize,
    part: usize,
    /// The value that follows is that of the name.
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
    /// Behind the beginning of a fence, within its line.
    Info,
    Object,
}

/// Where the text is in a list of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum List {
    #[default]
    None,
    /// A call must come, or the list may end.
    Begun,
    /// A comma must come, or the list may end.
    Behind,
    /// A call must come.
    Comma,
}

impl BareReading {
    /// Goes on. `text` is the answer from its beginning and has grown since; `done` says that it has ended.
    pub(super) fn advance(&mut self, text: &str, tools: &Tools, rules: &BareCalls, done: bool) -> Verdict {
        if text.len() > MOST_BYTES {
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
                // It ends within a fence's mark.
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

    /// Between objects. Returns whether the text can go on so; `None` if more of it must be known.
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
            (b'{', List::None | List::Begun | List::Comma) if self.calls.len() < MOST_CALLS => {
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

    /// In the line of a fence's beginning: the name of a language, if there is one.
    fn info(&mut self, rest: &str) -> Option<bool> {
        let word =
            rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"_-+.".contains(byte)).count();
        if word > MOST_INFO_BYTES {
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

/// The keys of a call. Models confuse the two names of arguments, and write OpenAI's own form.
const KEYS: [&str; 6] = ["name", "arguments", "parameters", "type", "id", "function"];

/// The call that an object is; `None` if it is none that is accepted.
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

/// Arguments as an object: they may stand in a string.
fn written(value: &str) -> Option<String> {
    match value.as_bytes().first()? {
        b'{' => Some(value.to_owned()),
        b'"' => serde_json::from_str(value).ok(),
        _ => None,
    }
}

/// The members of an object, with their values as they are written; of numbers they are not told.
fn members(object: &str) -> Option<Vec<(String, Option<&str>)>> {
    let mut scan = JsonScan::default();
    let mut members: Vec<(String, Option<&str>)> = Vec::new();
    let mut from = 0;
    for (at, byte) in object.bytes().enumerate() {
        match scan.step(byte) {
            Step::KeyBegins | Step::ValueBegins => from = at,
            Step::KeyEnds => {
                let key: String = serde_json::from_str(&object[from..=at]).ok()?;
                // A key that comes twice says two things.
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

    /// The calls that a text is, however it is cut; and how many bytes had to be known to see that it is none.
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
        // Larger pieces are known later.
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

    /// Anything else is content, and is known to be as soon as it can be.
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
        // What the end cuts off is content, which its end shows.
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
        let long = format!("{{\"name\": \"now\", \"arguments\": {{\"a\": \"{}", "x".repeat(MOST_BYTES));
        assert!(matches!(read(&long, true), Err(known) if known <= MOST_BYTES + 7));
    }
}
