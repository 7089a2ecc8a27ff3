//! Filters that read and write JSON.

use std::rc::Rc;

use super::is_true;
use crate::template::budget::{Failure, Result, fail};
use crate::template::functions::{Arguments, integer, text};
use crate::template::interpreter::Interpreter;
use crate::template::json_text;
use crate::template::print::{JsonLayout, Writer};
use crate::template::value::Value;

/// Parses JSON. Jinja has no such filter; templates made for llama.cpp use it.
pub(super) fn from_json<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("from_json", [])?;
    let json = text(value, "JSON")?;
    interpreter.budget().scan(json.len())?;
    json_text::read(json, &interpreter.maker).map_err(|stop| match stop {
        json_text::Stop::Text(error) => {
            Failure::Error(format!("not JSON: {} at byte {}", error.what, error.at))
        }
        json_text::Stop::Budget(failure) => failure,
    })
}

/// Writes JSON as Python's `json.dumps` does, without escaping non-ASCII characters or HTML.
pub(super) fn to_json<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let parameters = ["ensure_ascii", "indent", "separators", "sort_keys"];
    let [ascii, indent, separators, sort_keys] = arguments.bind("tojson", parameters)?;
    let indent = match &indent {
        None | Some(Value::None) => None,
        Some(Value::Str(text)) => Some(text.as_str().to_string()),
        Some(width) => {
            let width = usize::try_from(integer(width, "the width of an indentation")?).unwrap_or(0);
            interpreter.budget().can_make(width)?;
            Some(" ".repeat(width))
        }
    };
    let (item_separator, key_separator) = match &separators {
        None | Some(Value::None) => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
        Some(separators) => match interpreter.items(separators)?.items() {
            [item, key] => (text(item, "a separator")?.to_string(), text(key, "a separator")?.to_string()),
            _ => return fail("want two separators"),
        },
    };
    let layout = JsonLayout {
        indent,
        item_separator,
        key_separator,
        ascii: is_true(ascii),
        sort_keys: is_true(sort_keys),
    };
    let budget = Rc::clone(&interpreter.maker.0);
    let mut writer = Writer::new(&budget);
    writer.json(value, &layout, 0)?;
    interpreter.maker.text(writer.text)
}
