//! Filters on text.

use super::is_true;
use crate::template::budget::{Result, fail};
use crate::template::functions::{Arguments, integer, text};
use crate::template::interpreter::Interpreter;
use crate::template::mixed::{Mixed, Part};
use crate::template::print::Writer;
use crate::template::strings::{self, Ends};
use crate::template::value::Value;

/// Converts a value to text, and counts the steps of reading it.
pub(super) fn as_text(interpreter: &Interpreter<'_>, value: &Value) -> Result<Value> {
    let value = interpreter.to_text(value)?;
    interpreter.budget().scan(value.as_str().map_or(0, str::len))?;
    Ok(value)
}

pub(super) fn map_text<'t>(
    interpreter: &Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    change: fn(&str) -> String,
) -> Result<Value> {
    let [] = arguments.exactly("this filter", [])?;
    let value = as_text(interpreter, value)?;
    let all = value.as_str().unwrap_or_default();
    // The change of case can make three characters of one.
    interpreter.budget().can_make(all.len().saturating_mul(3))?;
    interpreter.maker.text(Mixed::made_of(change(all), value.as_part()))
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

/// Appends a text with the special characters of HTML escaped.
pub(in crate::template) fn escape_into(out: &mut Mixed, part: Part<'_>) {
    for (run, is_content) in part.runs() {
        let mut rest = run;
        while let Some(at) = rest.find(['&', '<', '>', '\'', '"']) {
            out.push_as(&rest[..at], is_content);
            let entity = match rest.as_bytes()[at] {
                b'&' => "&amp;",
                b'<' => "&lt;",
                b'>' => "&gt;",
                b'\'' => "&#39;",
                _ => "&#34;",
            };
            out.push_as(entity, is_content);
            rest = &rest[at + 1..];
        }
        out.push_as(rest, is_content);
    }
}

pub(super) fn escape<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("escape", [])?;
    if matches!(value, Value::Str(text) if text.safe) {
        return Ok(value.clone());
    }
    let value = as_text(interpreter, value)?;
    let all = value.as_str().unwrap_or_default();
    interpreter.budget().can_make(all.len().saturating_mul(5))?;
    let mut escaped = Mixed::default();
    escape_into(&mut escaped, value.as_part());
    interpreter.maker.marked(escaped, true)
}

pub(super) fn safe<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("safe", [])?;
    let value = as_text(interpreter, value)?;
    let mut same = Mixed::default();
    same.push(value.as_part());
    interpreter.maker.marked(same, true)
}

pub(super) fn string<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("string", [])?;
    interpreter.to_text(value)
}

pub(super) fn trim<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [chars] = arguments.bind("trim", ["chars"])?;
    let chars = match &chars {
        None | Some(Value::None) => None,
        Some(chars) => Some(text(chars, "the characters to trim")?),
    };
    let value = as_text(interpreter, value)?;
    let all = value.as_str().unwrap_or_default();
    let trimmed = strings::strip(all, chars, Ends::Both);
    interpreter.budget().scan((all.len() - trimmed.len()).saturating_mul(chars.map_or(1, str::len)))?;
    interpreter.maker.part(value.as_part().of(trimmed))
}

pub(super) fn replace<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [old, new, count] = arguments.bind("replace", ["old", "new", "count"])?;
    let (Some(old), Some(new)) = (old, new) else { return fail("replace needs old and new") };
    let (old, new) = (interpreter.to_text(&old)?, interpreter.to_text(&new)?);
    let count = match count {
        None | Some(Value::None) => -1,
        Some(count) => integer(&count, "count")?,
    };
    let value = as_text(interpreter, value)?;
    interpreter.replace(&value, old.as_str().unwrap_or_default(), new.as_part(), count)
}

pub(super) fn indent<'t>(
    interpreter: &mut Interpreter<'t>,
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
            interpreter.budget().can_make(width)?;
            indentation.push_own(&" ".repeat(width));
        }
    }
    let indentation = Part::new(&indentation.text, &indentation.content);
    let (first, blank) = (is_true(first), is_true(blank));
    let value = as_text(interpreter, value)?;
    let mut all = Mixed::default();
    all.push(value.as_part());
    all.push_own("\n");
    let (part, all) = (Part::new(&all.text, &all.content), all.text.as_str());
    interpreter.can_make_items(1 + all.chars().filter(|&c| strings::is_line_end(c)).count())?;
    let lines = strings::lines(all, false);
    let mut writer = Writer::new(interpreter.budget());
    for (i, line) in lines.into_iter().enumerate() {
        if i > 0 {
            writer.push("\n")?;
        }
        if if i == 0 { first } else { blank || !line.is_empty() } {
            writer.push_part(indentation)?;
        }
        writer.push_part(part.of(line))?;
    }
    interpreter.maker.text(writer.text)
}

/// Inserts values into a format: `'%s of %s' | format(a, b)`.
pub(super) fn format<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let Arguments { positional, named } = arguments;
    let values = match (positional.is_empty(), named.is_empty()) {
        (false, false) => return fail("format takes values with names or without, not both"),
        (_, true) => interpreter.maker.tuple(positional)?,
        (true, false) => {
            let mut entries = Vec::new();
            for (name, value) in named {
                let name = interpreter.maker.own(&name)?;
                interpreter.maker.insert(&mut entries, name, value)?;
            }
            interpreter.maker.dict(entries)?
        }
    };
    match as_text(interpreter, value)? {
        Value::Str(format) => crate::template::format::percent(interpreter, &format, &values),
        other => Ok(other),
    }
}

pub(super) fn count_words<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("wordcount", [])?;
    let value = as_text(interpreter, value)?;
    let words = value.as_str().unwrap_or_default().split(|c: char| !c.is_alphanumeric() && c != '_');
    Ok(Value::Int(words.filter(|word| !word.is_empty()).count() as i64))
}
