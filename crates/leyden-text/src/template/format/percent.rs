//! `'%s' % x`: conversions as of C's `printf`.

use std::iter::Peekable;
use std::str::CharIndices;

use super::field::{number, padded, unknown};
use super::spec::{Spec, count};
use crate::template::budget::{Result, fail};
use crate::template::mixed::{Mixed, Part};
use crate::template::print::Writer;
use crate::template::runtime::Runtime;
use crate::template::value::{Number, Text, Value};

/// Values to be consumed by the conversions in order.
struct Taken<'v> {
    arguments: &'v Value,
    next: usize,
}

impl<'v> Taken<'v> {
    fn next(&mut self) -> Result<&'v Value> {
        let at = self.next;
        self.next += 1;
        let found = match self.arguments {
            Value::Tuple(list) => list.items().get(at),
            one if at == 0 => Some(one),
            _ => None,
        };
        found.map_or_else(|| fail("there are fewer values than the format has conversions"), Ok)
    }

    /// Returns whether all values were used. A list or dictionary need not be.
    fn is_used_up(&self) -> bool {
        match self.arguments {
            Value::Tuple(list) => self.next >= list.items().len(),
            Value::List(_) | Value::Dict(_) | Value::Range(_) => true,
            _ => self.next > 0,
        }
    }
}

type Chars<'f> = Peekable<CharIndices<'f>>;

/// Formats values with a format string.
pub(crate) fn percent(runtime: &Runtime<'_>, format: &Text, arguments: &Value) -> Result<Value> {
    let text = format.as_str();
    runtime.budget().scan(text.len())?;
    let mut writer = Writer::new(runtime.budget());
    let mut taken = Taken { arguments, next: 0 };
    let (mut chars, mut from) = (text.char_indices().peekable(), 0);
    while let Some((at, c)) = chars.next() {
        if c != '%' {
            continue;
        }
        runtime.budget().steps(1)?;
        writer.push_part(format.part().range(from..at))?;
        let key = mapping_key(&mut chars, text)?;
        let named = match key {
            None => None,
            Some(key) => match arguments {
                Value::Dict(_) => {
                    let found = runtime.item(arguments, &runtime.maker.own(key)?)?;
                    if found.is_undefined() {
                        return fail(format!("there is no value {key:?} for the format"));
                    }
                    Some(found)
                }
                _ => return fail("a format with names needs a dictionary"),
            },
        };
        let spec = spec(&mut chars, &mut taken)?;
        let Some((end, kind)) = chars.next() else { return fail("the format ends within a conversion") };
        from = end + kind.len_utf8();
        if kind == '%' {
            writer.push_part(format.part().range(end..from))?;
            continue;
        }
        let value = match &named {
            Some(value) => value,
            None => taken.next()?,
        };
        convert(runtime, &mut writer, kind, value, spec, format.safe)?;
    }
    writer.push_part(format.part().range(from..text.len()))?;
    if !taken.is_used_up() {
        return fail("there are more values than the format has conversions");
    }
    runtime.maker.marked(writer.text, format.safe)
}

/// Parses the name in parentheses after a `%`, if there is one.
fn mapping_key<'f>(chars: &mut Chars<'f>, text: &'f str) -> Result<Option<&'f str>> {
    let Some((open, _)) = chars.next_if(|(_, c)| *c == '(') else { return Ok(None) };
    let mut depth = 1;
    for (at, c) in chars {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 {
            return Ok(Some(&text[open + 1..at]));
        }
    }
    fail("the format has a name without its `)`")
}

/// Parses flags, width, precision and length modifier of a conversion.
fn spec(chars: &mut Chars<'_>, taken: &mut Taken<'_>) -> Result<Spec> {
    let mut spec = Spec::default();
    let (mut left, mut zero) = (false, false);
    while let Some((_, flag)) = chars.next_if(|(_, c)| matches!(c, '-' | '+' | ' ' | '#' | '0')) {
        match flag {
            '-' => left = true,
            '0' => zero = true,
            '#' => spec.alternate = true,
            '+' => spec.sign = '+',
            _ if spec.sign == '-' => spec.sign = ' ',
            _ => {}
        }
    }
    if let Some(width) = size(chars, taken)? {
        left |= width < 0;
        spec.width = count(&width.unsigned_abs().to_string())?;
    }
    if chars.next_if(|(_, c)| *c == '.').is_some() {
        let digits = size(chars, taken)?.unwrap_or(0).max(0);
        spec.precision = Some(count(&digits.to_string())?);
    }
    while chars.next_if(|(_, c)| matches!(c, 'h' | 'l' | 'L')).is_some() {}
    if left {
        spec.align = Some('<');
    } else if zero {
        (spec.fill, spec.align) = ('0', Some('='));
    }
    Ok(spec)
}

/// Parses a number of the format, or takes it from the values if it is `*`.
fn size(chars: &mut Chars<'_>, taken: &mut Taken<'_>) -> Result<Option<i64>> {
    if chars.next_if(|(_, c)| *c == '*').is_some() {
        let value = taken.next()?;
        return match value {
            Value::Int(n) => Ok(Some(*n)),
            other => fail(format!("`*` in a format needs an int, not a {}", other.type_name())),
        };
    }
    let mut digits = String::new();
    while let Some((_, c)) = chars.next_if(|(_, c)| c.is_ascii_digit()) {
        digits.push(c);
    }
    if digits.is_empty() { Ok(None) } else { count(&digits).map(|n| Some(n as i64)) }
}

/// Writes one value.
fn convert(
    runtime: &Runtime<'_>,
    writer: &mut Writer<'_>,
    kind: char,
    value: &Value,
    mut spec: Spec,
    safe: bool,
) -> Result<()> {
    let text = |writer: &mut Writer<'_>, text: Mixed, mut spec: Spec| {
        if spec.fill == '0' {
            (spec.fill, spec.align) = (' ', Some('>'));
        }
        padded(writer, "", Part::new(&text.text, &text.content), &spec, '>')
    };
    match kind {
        's' => {
            let written = runtime.formatted(value, safe, spec.precision)?;
            text(writer, written, spec)
        }
        'r' | 'a' => {
            let written = runtime.represented(value, kind == 'a')?;
            let whole = runtime.maker.text(written)?;
            let written = runtime.formatted(&whole, safe, spec.precision)?;
            text(writer, written, spec)
        }
        'c' => {
            let one = match value {
                Value::Str(text) if text.as_str().chars().count() == 1 => {
                    runtime.formatted(value, safe, None)?
                }
                Value::Int(code) => {
                    let c = u32::try_from(*code).ok().and_then(char::from_u32);
                    let Some(c) = c else { return fail("`%c` needs the code of a character") };
                    Mixed { text: c.into(), content: Vec::new() }
                }
                other => return unknown('c', other),
            };
            text(writer, one, spec)
        }
        'd' | 'i' | 'u' | 'x' | 'X' | 'o' => {
            let digits = spec.precision.take().unwrap_or(0);
            let int = match (value.as_number(), value) {
                (_, Value::BigInt(_)) => return fail("a number is too large"),
                (Some(Number::Int(i)), _) => i,
                (Some(Number::Float(f)), _) if matches!(kind, 'd' | 'i' | 'u') && f.abs() < 9e18 => f as i64,
                _ => return unknown(kind, value),
            };
            spec.kind = Some(if matches!(kind, 'i' | 'u') { 'd' } else { kind });
            if digits == 0 {
                return number(writer, Number::Int(int), &spec);
            }
            // The precision is the minimum number of digits.
            runtime.budget().can_make(digits.saturating_add(spec.width))?;
            let (negative, plain) = super::numbers::integer(int, &Spec { alternate: false, ..spec.clone() })?;
            let prefix = if spec.alternate && matches!(kind, 'x' | 'X' | 'o') {
                format!("0{kind}")
            } else {
                String::new()
            };
            let body = prefix + &"0".repeat(digits.saturating_sub(plain.len())) + &plain;
            let sign = match (negative, spec.sign) {
                (true, _) => "-",
                (false, '+') => "+",
                (false, ' ') => " ",
                _ => "",
            };
            padded(writer, sign, Part::own(&body), &spec, '>')
        }
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => match value.as_number() {
            Some(found) => {
                spec.kind = Some(kind);
                number(writer, Number::Float(found.as_f64()), &spec)
            }
            None => unknown(kind, value),
        },
        other => fail(format!("the format has no conversion `%{}`", other.escape_default())),
    }
}
