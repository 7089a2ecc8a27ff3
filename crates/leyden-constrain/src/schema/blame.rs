//! Which keyword of a schema an error of compiling is about.

use serde_json::Value;

use super::Lowered;
use super::keywords::{Keyword, keyword};
use crate::error::Error;

/// An error of llguidance, tied to a place of the schema it is about, as far as it says. Nothing if it names none.
pub(crate) fn blame(schema: &Lowered, message: &str) -> Option<Error> {
    // A definition in which it was met.
    let within = message.rsplit_once("/$defs/r").and_then(|(_, rest)| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<usize>().ok()
    });
    let start = match within {
        Some(index) => schema.value.get("$defs")?.get(format!("r{index}"))?,
        None => &schema.value,
    };
    let prefix = match within {
        Some(index) => format!("/$defs/r{index}"),
        None => String::new(),
    };
    let (pointer, name) =
        if message.contains("intersection stack level") || message.contains("circular reference") {
            find(&schema.value, "", &|map, name| name == "$ref" && map.len() > 1)
                .or_else(|| find(&schema.value, "", &|_, name| name == "$ref"))?
        } else if message.contains("patternProperty") {
            find(&schema.value, "", &|_, name| name == "patternProperties")?
        } else if message.contains("incompatible types") {
            find(start, &prefix, &|_, name| name == "type")?
        } else {
            find(start, &prefix, &|_, name| name.len() > 4 && message.contains(name))
                .or_else(|| find(start, &prefix, &|_, _| message.contains("nsatisfiable")))?
        };
    Some(Error::schema(&schema.origin(&pointer), &name, message))
}

/// The first keyword for which `is` holds, of the schemas in order.
fn find(
    schema: &Value,
    pointer: &str,
    is: &dyn Fn(&serde_json::Map<String, Value>, &str) -> bool,
) -> Option<(String, String)> {
    let Value::Object(map) = schema else { return None };
    let enforced = |name: &&String| !matches!(keyword(name), Keyword::Annotation | Keyword::Unsupported);
    if let Some(name) = map.keys().filter(enforced).find(|name| is(map, name)) {
        return Some((pointer.to_owned(), name.clone()));
    }
    for (name, value) in map {
        let escaped = |name: &str| name.replace('~', "~0").replace('/', "~1");
        let parts: Vec<(String, &Value)> = match (name.as_str(), value) {
            ("const" | "enum", _) => continue,
            ("properties" | "patternProperties" | "$defs", Value::Object(schemas)) => schemas
                .iter()
                .map(|(key, schema)| (format!("{pointer}/{name}/{}", escaped(key)), schema))
                .collect(),
            (_, Value::Array(items)) => {
                items.iter().enumerate().map(|(i, item)| (format!("{pointer}/{name}/{i}"), item)).collect()
            }
            _ => vec![(format!("{pointer}/{name}"), value)],
        };
        if let Some(found) = parts.iter().find_map(|(pointer, part)| find(part, pointer, is)) {
            return Some(found);
        }
    }
    None
}
