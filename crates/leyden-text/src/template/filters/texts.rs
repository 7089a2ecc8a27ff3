//! Filters on text.

use crate::template::arguments::{Arguments, integer, is_true, text};
use crate::template::budget::{Result, fail};
use crate::template::escape::escape_into;
use crate::template::mixed::{Mixed, Part};
use crate::template::print::Writer;
use crate::template::runtime::Runtime;
use crate::template::strings::{self, Ends};
use crate::template::value::Value;

/// Converts a value to text, and counts the steps of reading it.
pub(super) fn as_text(runtime: &Runtime<'_>, value: &Value) -> Result<Value> {
    let value = runtime.to_text(value)?;
    runtime.budget().scan(value.as_str().map_or(0, str::len))?;
    Ok(value)
}

pub(super) fn map_text<'t>(
    runtime: &Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    change: fn(&str) -> String,
) -> Result<Value> {
    let [] = arguments.exactly("this filter", [])?;
    let value = as_text(runtime, value)?;
    let all = value.as_str().unwrap_or_default();
    // The change of case can make three characters of one.
    runtime.budget().can_make(all.len().saturating_mul(3))?;
    runtime.maker.text(Mixed::made_of(change(all), value.as_part()))
}

/// Capitalizes words. A word begins at the start and after white space, `-` and opening brackets.
pub(super) fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        if begins {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        begins = strings::is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
    }
    out
}

pub(super) fn escape<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("escape", [])?;
    if matches!(value, Value::Str(text) if text.safe) {
        return Ok(value.clone());
    }
    let value = as_text(runtime, value)?;
    let all = value.as_str().unwrap_or_default();
    runtime.budget().can_make(all.len().saturating_mul(5))?;
    let mut escaped = Mixed::default();
    escape_into(&mut escaped, value.as_part());
    runtime.maker.marked(escaped, true)
}

pub(super) fn safe<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("safe", [])?;
    let value = as_text(runtime, value)?;
    let mut same = Mixed::default();
    same.push(value.as_part());
    runtime.maker.marked(same, true)
}

pub(super) fn string<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("string", [])?;
    runtime.to_text(value)
}

pub(super) fn trim<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [chars] = arguments.bind("trim", ["chars"])?;
    let chars = match &chars {
        None | Some(Value::None) => None,
        Some(chars) => Some(text(chars, "the characters to trim")?),
    };
    let value = as_text(runtime, value)?;
    let all = value.as_str().unwrap_or_default();
    let trimmed = strings::strip(all, chars, Ends::Both);
    runtime.budget().scan((all.len() - trimmed.len()).saturating_mul(chars.map_or(1, str::len)))?;
    runtime.maker.part(value.as_part().of(trimmed))
}

pub(super) fn replace<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [old, new, count] = arguments.bind("replace", ["old", "new", "count"])?;
    let (Some(old), Some(new)) = (old, new) else { return fail("replace needs old and new") };
    let (old, new) = (runtime.to_text(&old)?, runtime.to_text(&new)?);
    let count = match count {
        None | Some(Value::None) => -1,
        Some(count) => integer(&count, "count")?,
    };
    let value = as_text(runtime, value)?;
    runtime.replace(&value, old.as_str().unwrap_or_default(), new.as_part(), count)
}

pub(super) fn indent<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [width, first, blank] = arguments.bind("indent", ["width", "first", "blank"])?;
    let mut indentation = Mixed::default();
    match &width {
        Some(Value::Str(text)) => indentation.push(text.part()),
        width => {
            let width =
                width.as_ref().map_or(Ok(4), |width| integer(width, "the width of an indentation"))?;
            let width = usize::try_from(width).unwrap_or(0);
            runtime.budget().can_make(width)?;
            indentation.push_own(&" ".repeat(width));
        }
    }
    let indentation = Part::new(&indentation.text, &indentation.content);
    let (first, blank) = (is_true(first), is_true(blank));
    let value = as_text(runtime, value)?;
    let mut all = Mixed::default();
    all.push(value.as_part());
    all.push_own("\n");
    let (part, all) = (Part::new(&all.text, &all.content), all.text.as_str());
    runtime.can_make_items(1 + all.chars().filter(|&c| strings::is_line_end(c)).count())?;
    let lines = strings::lines(all, false);
    let mut writer = Writer::new(runtime.budget());
    for (i, line) in lines.into_iter().enumerate() {
        if i > 0 {
            writer.push("\n")?;
        }
        if if i == 0 { first } else { blank || !line.is_empty() } {
            writer.push_part(indentation)?;
        }
        writer.push_part(part.of(line))?;
    }
    runtime.maker.text(writer.text)
}

/// Inserts values into a format: `'%s of %s' | format(a, b)`.
pub(super) fn format<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let Arguments { positional, named } = arguments;
    let values = match (positional.is_empty(), named.is_empty()) {
        (false, false) => return fail("format takes values with names or without, not both"),
        (_, true) => runtime.maker.tuple(positional)?,
        (true, false) => {
            let mut entries = Vec::new();
            for (name, value) in named {
                let name = runtime.maker.own(&name)?;
                runtime.maker.insert(&mut entries, name, value)?;
            }
            runtime.maker.dict(entries)?
        }
    };
    match as_text(runtime, value)? {
        Value::Str(format) => crate::template::format::percent(runtime, &format, &values),
        other => Ok(other),
    }
}

pub(super) fn count_words<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("wordcount", [])?;
    let value = as_text(runtime, value)?;
    let words = value.as_str().unwrap_or_default().split(|c: char| !c.is_alphanumeric() && c != '_');
    Ok(Value::Int(words.filter(|word| !word.is_empty()).count() as i64))
}
