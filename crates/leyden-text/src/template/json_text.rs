//! JSON texts, such as the arguments of a call, parsed as Python's `json.loads` does, with integers of any length.

use std::borrow::Cow;

use foldhash::{HashMap, HashMapExt};

use super::budget::Result;
use super::value::{Maker, Value};

/// Maximum nesting depth; values of templates may nest 200 levels in all.
const MAX_DEPTH: usize = 64;
/// Maximum number of values, so that memory stays in proportion to the request.
const MAX_VALUES: usize = 200_000;
/// Maximum number of digits of an integer, as in Python: its conversion to text is quadratic there.
const MAX_DIGITS: usize = 4300;

/// Error of a text that is not JSON, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonTextError {
    /// Byte offset in the text.
    pub at: usize,
    /// Description of the error.
    pub what: &'static str,
}

/// Error of the text, or of the budget.
pub(super) enum Stop {
    Text(JsonTextError),
    Budget(super::budget::Failure),
}

impl From<super::budget::Failure> for Stop {
    fn from(failure: super::budget::Failure) -> Self {
        Stop::Budget(failure)
    }
}

/// Parses a text to values.
pub(super) fn read(text: &str, maker: &Maker) -> std::result::Result<Value, Stop> {
    let mut reader = Reader { text, at: 0, values: MAX_VALUES, maker };
    let value = reader.value(MAX_DEPTH)?;
    reader.skip_space();
    if reader.at < text.len() { Err(reader.wrong("trailing characters")) } else { Ok(value) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Number of values that may still follow.
    values: usize,
    maker: &'a Maker,
}

type Read<T> = std::result::Result<T, Stop>;

impl Reader<'_> {
    fn wrong(&self, what: &'static str) -> Stop {
        Stop::Text(JsonTextError { at: self.at, what })
    }

    fn skip_space(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    fn peek(&mut self) -> Option<u8> {
        self.skip_space();
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips a byte if it is the next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Read<Value> {
        self.values = self.values.checked_sub(1).ok_or_else(|| self.wrong("too many values"))?;
        match self.peek() {
            None => Err(self.wrong("the text ends where a value is expected")),
            Some(b'{' | b'[') if depth == 0 => Err(self.wrong("nesting is too deep")),
            Some(b'{') => self.object(depth - 1),
            Some(b'[') => self.array(depth - 1),
            Some(b'"') => {
                let text = self.string()?;
                Ok(self.maker.content(&text)?)
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let words = [
                    ("null", Value::None),
                    ("true", Value::Bool(true)),
                    ("false", Value::Bool(false)),
                    ("NaN", Value::Float(f64::NAN)),
                    ("Infinity", Value::Float(f64::INFINITY)),
                ];
                let found = words.into_iter().find(|(word, _)| self.text[self.at..].starts_with(word));
                let (word, value) = found.ok_or_else(|| self.wrong("expected a value"))?;
                self.at += word.len();
                Ok(value)
            }
        }
    }

    fn array(&mut self, depth: usize) -> Read<Value> {
        self.at += 1;
        let mut items = Vec::new();
        if !self.take(b']') {
            loop {
                items.push(self.value(depth)?);
                if self.take(b']') {
                    break;
                }
                if !self.take(b',') {
                    return Err(self.wrong("expected `,` or `]`"));
                }
            }
        }
        Ok(self.maker.list(items)?)
    }

    /// Parses an object. Of equal keys the last value is used, at the position of the first.
    fn object(&mut self, depth: usize) -> Read<Value> {
        self.at += 1;
        let mut entries: Vec<(Value, Value)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        if !self.take(b'}') {
            loop {
                if self.peek() != Some(b'"') {
                    return Err(self.wrong("expected a key in quotation marks"));
                }
                let key = self.string()?.into_owned();
                if !self.take(b':') {
                    return Err(self.wrong("expected `:`"));
                }
                let value = self.value(depth)?;
                match places.get(&key) {
                    Some(&place) => entries[place].1 = value,
                    None => {
                        entries.push((self.maker.content(&key)?, value));
                        places.insert(key, entries.len() - 1);
                    }
                }
                if self.take(b'}') {
                    break;
                }
                if !self.take(b',') {
                    return Err(self.wrong("expected `,` or `}`"));
                }
            }
        }
        Ok(self.maker.dict(entries)?)
    }

    /// Parses a string, whose opening quotation mark is next.
    fn string(&mut self) -> Read<Cow<'static, str>> {
        let rest = &self.text[self.at..];
        let mut escaped = false;
        let end = rest.bytes().skip(1).position(|b| {
            let ends = b == b'"' && !escaped;
            escaped = b == b'\\' && !escaped;
            ends
        });
        let end = end.ok_or_else(|| self.wrong("a string is not closed"))? + 2;
        let Ok(text) = serde_json::from_str::<String>(&rest[..end]) else {
            return Err(self.wrong("a string has a control character or an invalid escape"));
        };
        self.at += end;
        Ok(Cow::Owned(text))
    }

    fn number(&mut self) -> Read<Value> {
        let rest = &self.text[self.at..];
        if rest.starts_with("-Infinity") {
            self.at += "-Infinity".len();
            return Ok(Value::Float(f64::NEG_INFINITY));
        }
        let part = |from: usize| from + rest[from..].bytes().take_while(u8::is_ascii_digit).count();
        let first = usize::from(rest.starts_with('-'));
        let mut end = part(first);
        let leading_zero = rest[first..].starts_with('0') && end > first + 1;
        if end == first || leading_zero {
            return Err(self.wrong("invalid number"));
        }
        let digits = end - first;
        let mut is_float = false;
        if rest[end..].starts_with('.') && part(end + 1) > end + 1 {
            (end, is_float) = (part(end + 1), true);
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            if part(end + 1 + sign) > end + 1 + sign {
                (end, is_float) = (part(end + 1 + sign), true);
            }
        }
        let text = &rest[..end];
        let value = if is_float {
            Value::Float(text.parse().unwrap_or(f64::NAN))
        } else if let Ok(int) = text.parse() {
            Value::Int(int)
        } else if digits > MAX_DIGITS {
            return Err(self.wrong("an integer of more than 4300 digits"));
        } else {
            self.maker.big_int(text)?
        };
        self.at += end;
        Ok(value)
    }
}

/// Checks that a text can be parsed as the arguments of a call.
///
/// # Errors
/// The text is not JSON, nests deeper than 64 levels, has more than 200,000 values or an integer of more than 4300
/// digits.
pub fn check_json_text(text: &str) -> std::result::Result<(), JsonTextError> {
    let maker = Maker(std::rc::Rc::new(super::budget::Budget::new()));
    match read(text, &maker) {
        Ok(_) => Ok(()),
        Err(Stop::Text(error)) => Err(error),
        Err(Stop::Budget(_)) => Err(JsonTextError { at: 0, what: "too large" }),
    }
}

/// Returns the value of a JSON text, or the text itself if it is not JSON.
pub(super) fn value_or_text(text: &str, maker: &Maker) -> Result<Value> {
    match read(text, maker) {
        Ok(value) => Ok(value),
        Err(Stop::Text(_)) => maker.content(text),
        Err(Stop::Budget(failure)) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_not_json_say_where() {
        for (text, at) in [
            ("", 0),
            (" {", 2),
            ("{\"a\":1,}", 7),
            ("[1,]", 3),
            ("[1 2]", 3),
            ("{a:1}", 1),
            ("{\"a\" 1}", 5),
            ("\"a", 0),
            ("\"\\ud800\"", 0),
            ("\"\n\"", 0),
            ("01", 0),
            ("-", 0),
            ("1.", 1),
            ("1e", 1),
            ("nul", 0),
            ("{} x", 3),
        ] {
            assert_eq!(check_json_text(text).err().map(|e| e.at), Some(at), "{text:?}");
        }
        assert!(check_json_text(&"[".repeat(65)).is_err_and(|e| e.what.contains("deep")));
        assert!(check_json_text(&"9".repeat(4301)).is_err_and(|e| e.what.contains("digits")));
        assert!(
            check_json_text(&format!("[{}0]", "0,".repeat(200_000))).is_err_and(|e| e.what.contains("many"))
        );
        for text in ["{}", " [1, -0, 1e400, NaN, -Infinity, \"\\u00e9\\ud83d\\ude00\"] ", "\"\"", "null"] {
            assert_eq!(check_json_text(text), Ok(()), "{text}");
        }
    }
}
