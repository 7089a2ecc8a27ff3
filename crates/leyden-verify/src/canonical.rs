//! One form of a JSON document, over whose bytes its signature is made.
//!
//! Keys are sorted by their bytes, there is no white space, and numbers that are not whole have at most 9 significant
//! digits, so that every correct parser reads and writes them without a change.

use serde_json::{Number, Value};

/// Returns the value with its numbers rounded.
pub(crate) fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => round(&number),
        Value::Array(all) => Value::Array(all.into_iter().map(rounded).collect()),
        Value::Object(all) => {
            Value::Object(all.into_iter().map(|(key, value)| (key, rounded(value))).collect())
        }
        other => other,
    }
}

fn round(number: &Number) -> Value {
    /// Smaller numbers become 0.
    const MIN: f64 = 1e-12;
    let x = number.as_f64().filter(|x| x.abs() >= MIN).unwrap_or_default();
    let rounded = format!("{x:.8e}").parse().unwrap_or(x);
    Number::from_f64(rounded).map_or(Value::Null, Value::Number)
}

/// Returns the canonical bytes.
pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    let mut text = String::new();
    write(value, &mut text);
    text.into_bytes()
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Array(all) => {
            out.push('[');
            for (i, value) in all.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(value, out);
            }
            out.push(']');
        }
        Value::Object(all) => {
            let mut keys: Vec<&String> = all.keys().collect();
            keys.sort();
            out.push('{');
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                *out += &Value::from(key.as_str()).to_string();
                out.push(':');
                write(&all[key], out);
            }
            out.push('}');
        }
        other => *out += &other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use serde_json::json;

    #[test]
    fn keys_are_sorted_and_numbers_rounded() {
        let value = rounded(json!({"b": [1, 0.1234567891234, true, null], "a": {"z": "é\"", "y": 1e-20}}));
        let text = String::from_utf8(bytes(&value)).unwrap();
        assert_eq!(text, r#"{"a":{"y":0.0,"z":"é\""},"b":[1,0.123456789,true,null]}"#);
    }

    /// A document that was written and read has the same bytes.
    #[test]
    fn numbers_survive_writing_and_reading() {
        let mut random = Random::new(1);
        for _ in 0..50_000 {
            let x = (random.unit() - 0.5) * 10_f64.powf(20.0 * random.unit() - 11.0);
            let value = rounded(json!(x));
            let read: Value = serde_json::from_str(&serde_json::to_string_pretty(&value).unwrap()).unwrap();
            assert_eq!(bytes(&read), bytes(&value), "{x}");
        }
    }
}
