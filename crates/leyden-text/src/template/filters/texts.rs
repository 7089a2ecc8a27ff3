//! Filters on text.

use super::is_true;
use crate::template::budget::{Result, fail};
use crate::template::functions::{Arguments, integer, text};
use crate::template::interpreter::Interpreter;
use crate::template::print::Writer;
use crate::template::strings::{self, Ends};
use crate::template::value::Value;

/// The value as text, counted as looked at.
fn as_text(interpreter: &Interpreter<'_>, value: &Value) -> Result<Value> {
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
    // A character can become three.
    interpreter.budget().can_make(all.len().saturating_mul(3))?;
    interpreter.maker.str(change(all))
}

/// A word begins at the start and behind white space, `-` and opening brackets.
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

/// The text with what HTML gives a meaning replaced.
pub(in crate::template) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '\'' => out += "&#39;",
            '"' => out += "&#34;",
            c => out.push(c),
        }
    }
    out
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
    interpreter.maker.text(escaped(all).into(), true)
}

pub(super) fn safe<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("safe", [])?;
    let value = as_text(interpreter, value)?;
    interpreter.maker.text(value.as_str().unwrap_or_default().into(), true)
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
    interpreter.maker.str(trimmed)
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
    interpreter.replace(&value, old.as_str().unwrap_or_default(), new.as_str().unwrap_or_default(), count)
}

pub(super) fn indent<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [width, first, blank] = arguments.bind("indent", ["width", "first", "blank"])?;
    let indentation = match &width {
        Some(Value::Str(text)) => text.as_str().to_string(),
        width => {
            let width =
                width.as_ref().map_or(Ok(4), |width| integer(width, "the width of an indentation"))?;
            let width = usize::try_from(width).unwrap_or(0);
            interpreter.budget().can_make(width)?;
            " ".repeat(width)
        }
    };
    let (first, blank) = (is_true(first), is_true(blank));
    let value = as_text(interpreter, value)?;
    let all = value.as_str().unwrap_or_default().to_string() + "\n";
    interpreter.can_make_items(1 + all.chars().filter(|&c| strings::is_line_end(c)).count())?;
    let lines = strings::lines(&all, false);
    let mut writer = Writer::new(interpreter.budget());
    for (i, line) in lines.into_iter().enumerate() {
        if i > 0 {
            writer.push("\n")?;
        }
        if if i == 0 { first } else { blank || !line.is_empty() } {
            writer.push(&indentation)?;
        }
        writer.push(line)?;
    }
    let text = writer.text;
    interpreter.maker.str(text)
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
