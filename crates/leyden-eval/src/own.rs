//! The user's own questions: JSON objects, one per line.
//!
//! The question is in `prompt`, or in `messages` for the chat template; the right answer in one of `exact`,
//! `contains`, `regex`, `json`, or in `choices` and `answer`; or the row has a `text` and its `label`.

use crate::item::{Ask, Check, Item, Prompt};
use crate::task::continuations;
use fancy_regex::Regex;
use leyden::Message;
use serde_json::{Map, Value};

/// Default maximum number of tokens of an answer.
const MAX_TOKENS: usize = 256;

/// Field names that a line may have.
const KNOWN: &[&str] = &[
    "id",
    "prompt",
    "messages",
    "text",
    "label",
    "exact",
    "contains",
    "regex",
    "json",
    "choices",
    "answer",
    "max_tokens",
    "stop",
];

/// Parses a row as a question. A table may have other columns; elsewhere an unknown field is an error, since it may
/// be misspelt.
///
/// # Errors
/// The reason why the row is not a question.
pub(crate) fn item(number: usize, value: &Value, table: bool) -> Result<Item, String> {
    let object = value.as_object().ok_or("want a JSON object")?;
    if let Some(key) = object.keys().find(|key| !table && !KNOWN.contains(&&key[..])) {
        return Err(format!("{key}: not known; known are {}", KNOWN.join(", ")));
    }
    let id = match object.get("id") {
        None => number.to_string(),
        Some(Value::String(id)) => id.clone(),
        Some(other) => other.to_string(),
    };
    Ok(Item { id, ask: ask(object)? })
}

fn ask(object: &Map<String, Value>) -> Result<Ask, String> {
    let text = |key: &str| match object.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("{key}: want a text")),
    };
    if let Some(label) = text("label")? {
        return Ok(Ask::Label { text: text("text")?.ok_or("text: missing beside `label`")?, label });
    }
    if let Some(all) = object.get("choices") {
        let all = texts("choices", all)?;
        let prompt = text("prompt")?.filter(|p| !p.is_empty()).ok_or("prompt: missing beside `choices`")?;
        let gold = match object.get("answer") {
            // A table has numbers as texts.
            Some(Value::String(answer)) => {
                all.iter().position(|choice| choice == answer).or_else(|| answer.trim().parse().ok())
            }
            Some(answer) => answer.as_u64().and_then(|n| usize::try_from(n).ok()),
            None => None,
        };
        let gold = gold.ok_or("answer: want one of `choices`, or its number from 0")?;
        if let Some(i) = all.iter().position(String::is_empty) {
            return Err(format!("choices: number {i} is empty"));
        }
        return continuations(&prompt, &all, gold);
    }
    let prompt = match (text("prompt")?, object.get("messages")) {
        (Some(text), None) => Prompt::Text(text),
        (None, Some(messages)) => {
            let messages: Vec<Message> =
                serde_json::from_value(messages.clone()).map_err(|error| format!("messages: {error}"))?;
            Prompt::Chat(messages)
        }
        _ => return Err("want either `prompt` or `messages`".to_owned()),
    };
    let mut checks = Vec::new();
    for (key, value) in object {
        checks.extend(match &key[..] {
            "exact" => Some(Check::Exact(texts(key, value)?)),
            "contains" => Some(Check::Contains(texts(key, value)?)),
            "regex" => {
                let pattern = value.as_str().ok_or("regex: want a text")?;
                let regex = Regex::new(pattern).map_err(|error| format!("regex: {error}"))?;
                Some(Check::Regex(Box::new(regex)))
            }
            "json" => Some(Check::Json(value.as_object().ok_or("json: want an object of fields")?.clone())),
            _ => None,
        });
    }
    let check = match <[Check; 1]>::try_from(checks) {
        Ok([check]) => check,
        Err(_) => {
            return Err("want one of `exact`, `contains`, `regex`, `json`, `choices`, `label`".to_owned());
        }
    };
    let max_tokens = match object.get("max_tokens") {
        None => MAX_TOKENS,
        Some(n) => n
            .as_u64()
            .or_else(|| n.as_str()?.trim().parse().ok())
            .and_then(|n| usize::try_from(n).ok())
            .filter(|n| *n > 0)
            .ok_or("max_tokens: want a number from 1")?,
    };
    let stop = object.get("stop").map_or(Ok(Vec::new()), |stop| texts("stop", stop))?;
    Ok(Ask::Answer { prompt, stop, max_tokens, check })
}

/// Reads a text, or a list of texts.
fn texts(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let wrong = || format!("{key}: want a text, or a list of texts");
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Array(all) if !all.is_empty() => {
            all.iter().map(|text| text.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_line_lacks_is_named() {
        assert!(item(1, &json!({"prompt": "p", "choices": ["a", ""], "answer": 0}), false).is_err());
        for (line, words) in [
            (json!([]), "want a JSON object"),
            (json!({"prompt": "p"}), "want one of"),
            (json!({"prompt": "p", "exact": "a", "regex": "b"}), "want one of"),
            (json!({"exact": "a"}), "either `prompt` or `messages`"),
            (json!({"prompt": "p", "regex": "("}), "regex: "),
            (json!({"prompt": "p", "exact": 3}), "exact: want a text"),
            (json!({"prompt": "p", "choices": ["a", "b"], "answer": "c"}), "answer: want one of"),
            (json!({"prompt": "p", "choices": ["a", "b"], "answer": 2}), "answer 2 of 2 choices"),
            (json!({"prompt": "p", "exact": "a", "max_tokens": 0}), "max_tokens: "),
            (json!({"promt": "p", "exact": "a"}), "promt: not known"),
            (json!({"label": "x"}), "text: missing"),
            (json!({"messages": [{"content": 1}], "exact": "a"}), "messages: "),
        ] {
            let told = item(1, &line, false).unwrap_err();
            assert!(told.contains(words), "{line}: {told}");
        }
        assert!(item(1, &json!({"prompt": "p", "exact": "a", "source": "x"}), true).is_ok());
        // Choices are continuations, used unchanged.
        let own = item(1, &json!({"prompt": "是", "choices": ["巴黎", " b"], "answer": "1"}), true).unwrap();
        let Ask::Choices { pairs, characters, gold } = own.ask else { panic!("choices") };
        let given = ["巴黎", " b"].map(|text| ("是".to_owned(), text.to_owned()));
        assert_eq!((pairs, characters, gold), (given.to_vec(), vec![2, 2], 1));
        assert!(
            item(1, &json!({"id": 7, "prompt": "p", "contains": ["a", "b"]}), false)
                .is_ok_and(|i| i.id == "7")
        );
    }
}
