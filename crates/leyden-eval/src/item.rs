//! Questions and their outcomes.

use fancy_regex::Regex;
use leyden::Message;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One question.
#[derive(Clone, Debug)]
pub struct Item {
    /// Name in the data, or number.
    pub id: String,
    /// The question.
    pub ask: Ask,
}

/// Kind of a question.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ask {
    /// The most probable continuation of a context.
    Choices {
        /// Contexts and continuations.
        pairs: Vec<(String, String)>,
        /// Number of characters of each choice, by which its log probability is divided for `acc_norm`.
        characters: Vec<usize>,
        /// Index of the right choice.
        gold: usize,
    },
    /// A generated answer, with greedy decoding.
    Answer {
        /// Prompt.
        prompt: Prompt,
        /// Texts that end the answer.
        stop: Vec<String>,
        /// Maximum number of generated tokens.
        max_tokens: usize,
        /// Condition for a right answer.
        check: Check,
    },
    /// The best label of a text, by a classification model.
    Label {
        /// The text.
        text: String,
        /// Right label.
        label: String,
    },
}

/// A prompt.
#[derive(Clone, Debug)]
pub enum Prompt {
    /// Text, used unchanged.
    Text(String),
    /// Conversation, formatted with the model's chat template.
    Chat(Vec<Message>),
}

/// Condition for a right answer.
#[derive(Clone, Debug)]
pub enum Check {
    /// Equals one of these, ignoring white space around it.
    Exact(Vec<String>),
    /// Contains all of these.
    Contains(Vec<String>),
    /// Contains a match of the pattern.
    Regex(Box<Regex>),
    /// Its first JSON object has these fields; a dot in a name leads into a nested object.
    Json(Map<String, Value>),
    /// The number that solves a grade school problem, extracted as in lm-evaluation-harness: after `####`, or the
    /// last number.
    Number(String),
}

/// Outcome of a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Id of the question.
    pub id: String,
    /// True for each metric of the task by which the answer was right.
    pub hits: Vec<bool>,
    /// Log probabilities of the choices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logprobs: Vec<f32>,
    /// Generated answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

impl Check {
    /// Returns for each metric whether an answer is right.
    pub(crate) fn hits(&self, answer: &str) -> Vec<bool> {
        let trimmed = answer.trim();
        match self {
            Check::Exact(wanted) => vec![wanted.iter().any(|w| w.trim() == trimmed)],
            Check::Contains(wanted) => vec![wanted.iter().all(|w| answer.contains(w))],
            // A pattern whose search exceeds the limits counts as not found.
            Check::Regex(regex) => vec![regex.is_match(answer).unwrap_or(false)],
            Check::Json(wanted) => vec![has_fields(answer, wanted)],
            Check::Number(wanted) => {
                let wanted = plain(wanted);
                let strict = behind_marks(answer).map(|found| plain(&found));
                let flexible = last_number(answer).map(|found| plain(&found));
                vec![strict.as_ref() == Some(&wanted), flexible.as_ref() == Some(&wanted)]
            }
        }
    }
}

fn has_fields(answer: &str, wanted: &Map<String, Value>) -> bool {
    let Some(start) = answer.find('{') else { return false };
    let mut values = serde_json::Deserializer::from_str(&answer[start..]).into_iter::<Value>();
    let Some(Ok(object)) = values.next() else { return false };
    wanted.iter().all(|(path, wanted)| {
        let found = path.split('.').try_fold(&object, |at, key| at.get(key));
        found.is_some_and(|found| match (found.as_f64(), wanted.as_f64()) {
            (Some(a), Some(b)) => a == b,
            _ => found == wanted,
        })
    })
}

/// Normalises a number for comparison: removes text up to `#### `, commas, dollar signs, and a final full stop.
fn plain(text: &str) -> String {
    let text = text.rfind("#### ").map_or(text, |at| &text[at + 5..]);
    let kept: String = text.chars().filter(|c| !matches!(c, ',' | '$')).collect();
    kept.strip_suffix('.').unwrap_or(&kept).to_lowercase()
}

/// Returns the number after the first `#### `: `#### (\-?[0-9\.\,]+)`.
fn behind_marks(text: &str) -> Option<String> {
    text.match_indices("#### ").find_map(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        let digits = rest.strip_prefix('-').unwrap_or(rest);
        let end = digits.find(|c: char| !matches!(c, '0'..='9' | '.' | ',')).unwrap_or(digits.len());
        (end > 0).then(|| rest[..rest.len() - digits.len() + end].to_owned())
    })
}

/// Returns the last match of `(-?[$0-9.,]{2,})|(-?[0-9]+)`.
fn last_number(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut at, mut last) = (0, None);
    while at < bytes.len() {
        let start = at;
        let first = at + usize::from(bytes[at] == b'-');
        let wide =
            bytes[first..].iter().take_while(|b| matches!(b, b'0'..=b'9' | b'$' | b'.' | b',')).count();
        let digits = bytes[first..].iter().take_while(|b| b.is_ascii_digit()).count();
        let length = if wide >= 2 { wide } else { digits };
        at = if length > 0 { first + length } else { start + 1 };
        if length > 0 {
            // The match is ASCII.
            last = Some(String::from_utf8_lossy(&bytes[start..at]).into_owned());
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_checked() {
        let exact = Check::Exact(vec!["yes".to_owned(), "Yes".to_owned()]);
        assert_eq!((exact.hits(" Yes\n"), exact.hits("yes.")), (vec![true], vec![false]));
        let contains = Check::Contains(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!((contains.hits("xbya"), contains.hits("b")), (vec![true], vec![false]));
        let regex = Check::Regex(Box::new(Regex::new(r"(?i)\bparis\b").unwrap()));
        assert_eq!((regex.hits("in Paris."), regex.hits("comparison")), (vec![true], vec![false]));
        let Value::Object(fields) = json!({"a.b": 2, "c": "x"}) else { panic!() };
        let fields = Check::Json(fields);
        assert_eq!(fields.hits("Here: {\"a\": {\"b\": 2.0}, \"c\": \"x\"} done"), [true]);
        assert_eq!(fields.hits("{\"a\": {\"b\": 2}, \"c\": \"y\"}"), [false]);
        assert_eq!(fields.hits("{\"a\": {"), [false]);
    }

    /// Compares with the patterns of lm-evaluation-harness's `gsm8k.yaml` in Python.
    #[test]
    fn numbers_are_the_harnesss() {
        let check = Check::Number("1,018".to_owned());
        for (answer, hits) in [
            ("so 5+5=10\n#### 1018", [true, true]),
            ("#### $1018. And 7", [false, false]),
            ("#### 1,018.", [true, true]),
            ("The answer is $1,018.", [false, true]),
            ("1018 then - none", [false, true]),
            ("#### -1018", [false, false]),
            ("no number", [false, false]),
        ] {
            assert_eq!(check.hits(answer), hits, "{answer}");
        }
        assert_eq!(last_number("it costs -3, or 5."), Some("5.".to_owned()));
        assert_eq!(last_number("-7"), Some("-7".to_owned()));
    }
}
