//! Filters that read and write JSON.

use std::rc::Rc;

use crate::template::arguments::{Arguments, integer, is_true, text};
use crate::template::budget::{Failure, Result, fail};
use crate::template::json_text;
use crate::template::print::{JsonLayout, Writer};
use crate::template::runtime::Runtime;
use crate::template::value::Value;

/// Parses JSON. Jinja has no such filter; templates made for llama.cpp use it.
pub(super) fn from_json<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("from_json", [])?;
    let json = text(value, "JSON")?;
    runtime.budget().scan(json.len())?;
    json_text::read(json, &runtime.maker).map_err(|stop| match stop {
        json_text::Stop::Text(error) => {
            Failure::Error(format!("not JSON: {} at byte {}", error.what, error.at))
        }
        json_text::Stop::Budget(failure) => failure,
    })
}

/// Writes JSON as Python's `json.dumps` does, without escaping non-ASCII characters or HTML.
pub(super) fn to_json<'t>(
    runtime: &mut Runtime<'t>,
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
            runtime.budget().can_make(width)?;
            Some(" ".repeat(width))
        }
    };
    let (item_separator, key_separator) = match &separators {
        None | Some(Value::None) => (if indent.is_some() { "," } else { ", " }.to_string(), ": ".to_string()),
        Some(separators) => match runtime.items(separators)?.items() {
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
    let budget = Rc::clone(&runtime.maker.0);
    let mut writer = Writer::new(&budget);
    writer.json(value, &layout, 0)?;
    runtime.maker.text(writer.text)
}
