//! JSON schemas, rewritten into the part of the language that is enforced.

mod blame;
mod check;
mod keywords;
mod lower;
mod one_of;
mod rewrite;
mod work;

pub(crate) use blame::blame;
pub(crate) use lower::lower;

use serde_json::{Value, json};

/// What may stand between the tokens of JSON: nothing, a space, or line breaks with an indent. It is bounded, because
/// weak models write blanks for ever where nothing stops them.
const WHITESPACE: &str = r"[ ]|\n{1,2}[ \t]{0,20}";

/// A schema that says only what is enforced.
#[derive(Clone, Debug)]
pub(crate) struct Lowered {
    pub(crate) value: Value,
    /// Where each definition stood.
    origins: Vec<String>,
}

impl Lowered {
    /// A schema that needs no rewriting.
    pub(crate) fn as_is(value: Value) -> Lowered {
        Lowered { value, origins: Vec::new() }
    }

    /// The place in the schema as it was given.
    fn origin(&self, pointer: &str) -> String {
        let in_definition = pointer.strip_prefix("/$defs/r").and_then(|rest| {
            let digits = rest.find('/').unwrap_or(rest.len());
            let origin = self.origins.get(rest[..digits].parse::<usize>().ok()?)?;
            Some(format!("{origin}{}", &rest[digits..]))
        });
        in_definition.unwrap_or_else(|| pointer.to_owned())
    }
}

/// A lowered schema with the options that llguidance reads from it.
pub(crate) fn with_options(schema: &Value) -> Value {
    let options = json!({ "whitespace_pattern": WHITESPACE, "coerce_one_of": false });
    match schema {
        Value::Object(map) => {
            let mut map = map.clone();
            map.insert("x-guidance".into(), options);
            Value::Object(map)
        }
        // `true` and `false`; there is no object to put options in.
        _ => json!({ "allOf": [schema], "x-guidance": options }),
    }
}
