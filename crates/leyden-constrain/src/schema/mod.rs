//! JSON schemas, rewritten into the part of the language that is enforced.

mod keywords;
mod lower;
mod one_of;
mod work;

pub(crate) use lower::lower;

use serde_json::{Value, json};

/// What may stand between the tokens of JSON: nothing, a space, or line breaks with an indent. It is bounded, because
/// weak models write blanks for ever where nothing stops them.
const WHITESPACE: &str = r"[ ]|\n{1,2}[ \t]{0,20}";

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
