//! Output of values: as text (Python's `str`), as source (`repr`) and as JSON.

use super::budget::{Budget, Result, fail};
use super::mixed::{Mixed, Part};
use super::value::Value;
use crate::tokenizer::classes::{Class, class};

/// Text under construction, limited by the budget.
pub(super) struct Writer<'b> {
    pub(super) text: Mixed,
    pub(super) budget: &'b Budget,
}

impl<'b> Writer<'b> {
    pub(super) fn new(budget: &'b Budget) -> Self {
        Writer { text: Mixed::default(), budget }
    }

    /// Writes text of the template.
    pub(super) fn push(&mut self, text: &str) -> Result<()> {
        self.push_as(text, false)
    }

    /// Writes a part of a text.
    pub(super) fn push_part(&mut self, part: Part<'_>) -> Result<()> {
        part.runs().try_for_each(|(run, is_content)| self.push_as(run, is_content))
    }

    fn push_as(&mut self, text: &str, is_content: bool) -> Result<()> {
        self.budget.scan(text.len())?;
        // The text is not counted as live yet, so its whole length is checked, but each byte is scanned once.
        let Mixed { text: written, content } = &self.text;
        let grows = written.len() + text.len() > written.capacity();
        if grows || (is_content && content.len() == content.capacity()) {
            let ranges = size_of_val(content.as_slice());
            self.budget.can_make((written.len() + text.len()).saturating_add(ranges))?;
        }
        self.text.push_as(text, is_content);
        Ok(())
    }

    /// Writes a value as `str` does.
    pub(super) fn str(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::Undefined(_) => Ok(()),
            Value::Str(text) => self.push_part(text.part()),
            other => self.repr(other),
        }
    }

    /// Writes a value as `repr` does.
    pub(super) fn repr(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::Undefined(_) => self.push("Undefined"),
            Value::None => self.push("None"),
            Value::Bool(true) => self.push("True"),
            Value::Bool(false) => self.push("False"),
            Value::Int(i) => self.push(&i.to_string()),
            Value::BigInt(digits) => self.push(digits.as_str()),
            Value::Float(f) => self.push(&float(*f)),
            Value::Str(text) if text.safe => {
                self.push("Markup(")?;
                self.quoted(text.part())?;
                self.push(")")
            }
            Value::Str(text) => self.quoted(text.part()),
            Value::List(list) => {
                self.push("[")?;
                self.items(list.items())?;
                self.push("]")
            }
            Value::Tuple(tuple) => {
                self.push("(")?;
                self.items(tuple.items())?;
                self.push(if tuple.items().len() == 1 { ",)" } else { ")" })
            }
            Value::Dict(dict) => {
                self.push("{")?;
                for (i, (key, value)) in dict.entries().iter().enumerate() {
                    if i > 0 {
                        self.push(", ")?;
                    }
                    self.repr(key)?;
                    self.push(": ")?;
                    self.repr(value)?;
                }
                self.push("}")
            }
            Value::Range(range) => {
                let end = i128::from(range.start) + i128::from(range.step) * range.len as i128;
                self.push(&format!("range({}, {end})", range.start))
            }
            other => fail(format!("a {} cannot be printed", other.type_name())),
        }
    }

    fn items(&mut self, items: &[Value]) -> Result<()> {
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.push(", ")?;
            }
            self.repr(item)?;
        }
        Ok(())
    }

    fn quoted(&mut self, part: Part<'_>) -> Result<()> {
        let text = part.as_str();
        let quote = if text.contains('\'') && !text.contains('"') { "\"" } else { "'" };
        self.push(quote)?;
        for (run, is_content) in part.runs() {
            self.budget.can_make(run.len())?;
            let mut quoted = String::with_capacity(run.len());
            for c in run.chars() {
                match c {
                    '\\' => quoted.push_str("\\\\"),
                    '\n' => quoted.push_str("\\n"),
                    '\r' => quoted.push_str("\\r"),
                    '\t' => quoted.push_str("\\t"),
                    c if quote.starts_with(c) => quoted.extend(['\\', c]),
                    c if c == ' ' || !matches!(class(c), Class::Other | Class::Control) => quoted.push(c),
                    c if (c as u32) < 0x100 => quoted.push_str(&format!("\\x{:02x}", c as u32)),
                    c if (c as u32) < 0x10000 => quoted.push_str(&format!("\\u{:04x}", c as u32)),
                    c => quoted.push_str(&format!("\\U{:08x}", c as u32)),
                }
            }
            self.push_as(&quoted, is_content)?;
        }
        self.push(quote)
    }
}

/// Formats a float as Python does: the shortest digits that round-trip, with an exponent for large and small
/// values.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) || value == 0.0 {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Layout of JSON.
#[derive(Debug)]
pub(super) struct JsonLayout {
    pub(super) indent: Option<String>,
    pub(super) item_separator: String,
    pub(super) key_separator: String,
    pub(super) ascii: bool,
    pub(super) sort_keys: bool,
}

impl Writer<'_> {
    /// Writes a value as JSON, at nesting level `level`.
    pub(super) fn json(&mut self, value: &Value, layout: &JsonLayout, level: usize) -> Result<()> {
        match value {
            Value::None => self.push("null"),
            Value::Bool(b) => self.push(if *b { "true" } else { "false" }),
            Value::Int(i) => self.push(&i.to_string()),
            Value::BigInt(digits) => self.push(digits.as_str()),
            Value::Float(f) if f.is_nan() => self.push("NaN"),
            Value::Float(f) if f.is_infinite() => self.push(if *f > 0.0 { "Infinity" } else { "-Infinity" }),
            Value::Float(f) => self.push(&float(*f)),
            Value::Str(text) => self.json_string(text.part(), layout.ascii),
            Value::List(list) | Value::Tuple(list) => {
                self.push("[")?;
                for (i, item) in list.items().iter().enumerate() {
                    self.json_between(i, layout, level + 1)?;
                    self.json(item, layout, level + 1)?;
                }
                self.json_close(list.items().is_empty(), layout, level, "]")
            }
            Value::Dict(dict) => {
                let mut entries: Vec<&(Value, Value)> = dict.entries().iter().collect();
                if layout.sort_keys {
                    self.budget.steps(entries.len() * 20)?;
                    if entries.iter().any(|(key, _)| key.as_str().is_none()) {
                        return fail("keys that are not text cannot be sorted");
                    }
                    entries.sort_by(|a, b| a.0.as_str().cmp(&b.0.as_str()));
                }
                self.push("{")?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    self.json_between(i, layout, level + 1)?;
                    match key {
                        Value::Str(text) => self.json_string(text.part(), layout.ascii)?,
                        Value::None | Value::Bool(_) | Value::Int(_) | Value::BigInt(_) | Value::Float(_) => {
                            self.push("\"")?;
                            self.json(key, layout, level + 1)?;
                            self.push("\"")?;
                        }
                        other => return fail(format!("a {} cannot be a key in JSON", other.type_name())),
                    }
                    self.push(&layout.key_separator)?;
                    self.json(value, layout, level + 1)?;
                }
                self.json_close(entries.is_empty(), layout, level, "}")
            }
            other => {
                other.check_defined()?;
                fail(format!("a {} cannot be written as JSON", other.type_name()))
            }
        }
    }

    fn json_between(&mut self, i: usize, layout: &JsonLayout, level: usize) -> Result<()> {
        if i > 0 {
            self.push(&layout.item_separator)?;
        }
        self.json_line(layout, level)
    }

    fn json_close(&mut self, is_empty: bool, layout: &JsonLayout, level: usize, close: &str) -> Result<()> {
        if !is_empty {
            self.json_line(layout, level)?;
        }
        self.push(close)
    }

    fn json_line(&mut self, layout: &JsonLayout, level: usize) -> Result<()> {
        let Some(indent) = &layout.indent else { return Ok(()) };
        self.push("\n")?;
        for _ in 0..level {
            self.push(indent)?;
        }
        Ok(())
    }

    fn json_string(&mut self, part: Part<'_>, ascii: bool) -> Result<()> {
        self.push("\"")?;
        for (run, is_content) in part.runs() {
            self.budget.can_make(run.len())?;
            let mut quoted = String::with_capacity(run.len());
            for c in run.chars() {
                match c {
                    '"' => quoted.push_str("\\\""),
                    '\\' => quoted.push_str("\\\\"),
                    '\n' => quoted.push_str("\\n"),
                    '\r' => quoted.push_str("\\r"),
                    '\t' => quoted.push_str("\\t"),
                    '\x08' => quoted.push_str("\\b"),
                    '\x0c' => quoted.push_str("\\f"),
                    c if (c as u32) < 0x20 => quoted.push_str(&format!("\\u{:04x}", c as u32)),
                    c if ascii && !c.is_ascii() => {
                        for unit in c.encode_utf16(&mut [0; 2]) {
                            quoted.push_str(&format!("\\u{unit:04x}"));
                        }
                    }
                    c => quoted.push(c),
                }
            }
            self.push_as(&quoted, is_content)?;
        }
        self.push("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_as_python_writes_them() {
        for (value, want) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5e-7, "-2.5e-07"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(float(value), want);
        }
    }
}
