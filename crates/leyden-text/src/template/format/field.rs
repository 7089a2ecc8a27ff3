//! Output of formatted values, padded to their fields.

use super::numbers;
use super::spec::Spec;
use crate::template::budget::{Result, fail};
use crate::template::escape::escape_into;
use crate::template::mixed::{Mixed, Part};
use crate::template::print::Writer;
use crate::template::runtime::Runtime;
use crate::template::value::{Number, Value};

/// Writes a text padded to its field.
pub(super) fn padded(
    writer: &mut Writer<'_>,
    sign: &str,
    body: Part<'_>,
    spec: &Spec,
    align: char,
) -> Result<()> {
    let length = sign.chars().count() + body.as_str().chars().count();
    let missing = spec.width.saturating_sub(length);
    let align = spec.align.unwrap_or(align);
    let before = match align {
        '<' => 0,
        '^' => missing / 2,
        _ => missing,
    };
    let fill = |writer: &mut Writer<'_>, n: usize| {
        writer.budget.can_make(n.saturating_mul(spec.fill.len_utf8()))?;
        writer.push(&String::from(spec.fill).repeat(n))
    };
    if align == '=' {
        writer.push(sign)?;
        fill(writer, before)?;
    } else {
        fill(writer, before)?;
        writer.push(sign)?;
    }
    writer.push_part(body)?;
    fill(writer, missing - before)
}

/// Writes a number padded to its field.
pub(super) fn number(writer: &mut Writer<'_>, value: Number, spec: &Spec) -> Result<()> {
    let precision = spec.precision.unwrap_or(0);
    writer.budget.can_make(precision.saturating_add(spec.width).saturating_add(400))?;
    let (negative, mut digits) = match value {
        Number::Int(i) => numbers::integer(i, spec)?,
        Number::Float(f) => (f.is_sign_negative() && !f.is_nan(), numbers::float(f.abs(), spec)?),
    };
    let sign = match (negative, spec.sign) {
        (true, _) => "-",
        (false, '+') => "+",
        (false, ' ') => " ",
        _ => "",
    };
    let prefix = match (value, spec.kind) {
        (Number::Int(_), Some('b')) if spec.alternate => "0b",
        (Number::Int(_), Some('o')) if spec.alternate => "0o",
        (Number::Int(_), Some('x')) if spec.alternate => "0x",
        (Number::Int(_), Some('X')) if spec.alternate => "0X",
        _ => "",
    };
    let sign = &format!("{sign}{prefix}");
    if let Some(separator) = spec.grouping {
        let zeros = spec.fill == '0' && spec.align == Some('=');
        let width = if zeros { spec.width.saturating_sub(sign.len()) } else { 0 };
        digits = numbers::grouped(&digits, separator, spec.kind, width);
    }
    padded(writer, sign, Part::own(&digits), spec, '>')
}

impl Runtime<'_> {
    /// Converts a value to text of at most `precision` characters, escaped if the format string is marked as safe.
    pub(super) fn formatted(&self, value: &Value, safe: bool, precision: Option<usize>) -> Result<Mixed> {
        let value = self.to_text(value)?;
        let text = value.as_str().unwrap_or_default();
        self.budget().can_make(text.len().saturating_mul(if safe { 5 } else { 1 }))?;
        let end = precision.and_then(|n| text.char_indices().nth(n)).map_or(text.len(), |(at, _)| at);
        let part = value.as_part().range(0..end);
        let mut out = Mixed::default();
        match &value {
            Value::Str(text) if safe && !text.safe => escape_into(&mut out, part),
            _ => out.push(part),
        }
        Ok(out)
    }

    /// Returns a value as `repr` writes it, restricted to ASCII if `ascii` is true.
    pub(super) fn represented(&self, value: &Value, ascii: bool) -> Result<Mixed> {
        let mut writer = Writer::new(self.budget());
        writer.repr(value)?;
        if !ascii || writer.text.text.is_ascii() {
            return Ok(writer.text);
        }
        let mut out = Mixed::default();
        for (run, is_content) in Part::new(&writer.text.text, &writer.text.content).runs() {
            self.budget().can_make(run.len().saturating_mul(5))?;
            let escape = |c: char| match c as u32 {
                0..0x80 => c.to_string(),
                code @ 0x80..0x100 => format!("\\x{code:02x}"),
                code @ 0x100..0x10000 => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            };
            out.push_as(&run.chars().map(escape).collect::<String>(), is_content);
        }
        Ok(out)
    }
}

/// Returns an error that names a value's type that the format cannot write.
pub(super) fn unknown<T>(kind: char, value: &Value) -> Result<T> {
    fail(format!("the format `{}` does not fit a {}", kind.escape_default(), value.type_name()))
}
