//! `'{}'.format(x)`: replacement fields in braces.

use super::field::{number, padded, unknown};
use super::spec::{Spec, count};
use crate::template::arguments::Arguments;
use crate::template::budget::{Result, fail};
use crate::template::mixed::{Mixed, Part};
use crate::template::print::Writer;
use crate::template::runtime::Runtime;
use crate::template::value::{Number, Text, Value};

/// Numbering of fields: automatic or explicit.
#[derive(Default)]
struct Counting {
    next: usize,
    /// True if fields have explicit numbers; `None` before the first field.
    numbered: Option<bool>,
}

impl Counting {
    fn index(&mut self, name: &str) -> Result<usize> {
        let numbered = !name.is_empty();
        if *self.numbered.get_or_insert(numbered) != numbered {
            return fail("some fields of the format have numbers and some have none");
        }
        if numbered {
            return count(name);
        }
        self.next += 1;
        Ok(self.next - 1)
    }
}

/// Formats values with a format string.
pub(crate) fn format(runtime: &Runtime<'_>, format: &Text, arguments: &Arguments<'_>) -> Result<Value> {
    let mut counting = Counting::default();
    let mut writer = Writer::new(runtime.budget());
    fields(runtime, format.part(), format.safe, arguments, &mut counting, &mut writer, true)?;
    runtime.maker.marked(writer.text, format.safe)
}

/// Writes a format string. The format specification of a field may contain fields itself, but only one level deep.
fn fields(
    runtime: &Runtime<'_>,
    format: Part<'_>,
    safe: bool,
    arguments: &Arguments<'_>,
    counting: &mut Counting,
    writer: &mut Writer<'_>,
    may_nest: bool,
) -> Result<()> {
    let text = format.as_str();
    runtime.budget().scan(text.len())?;
    let (mut at, mut from) = (0, 0);
    while let Some(found) = text[at..].find(['{', '}']) {
        let brace = at + found;
        runtime.budget().steps(1)?;
        let doubled = text[brace + 1..].starts_with(&text[brace..=brace]);
        writer.push_part(format.range(from..brace + usize::from(doubled)))?;
        if doubled {
            (at, from) = (brace + 2, brace + 2);
            continue;
        }
        if text[brace..].starts_with('}') {
            return fail("the format has a `}` without its `{`");
        }
        let end = field_end(text, brace + 1)?;
        let inner = &text[brace + 1..end];
        let colon = inner.find([':', '!']).map_or(inner.len(), |i| i);
        // A name may contain a colon in square brackets.
        let colon = match (inner.find('['), inner.find(']')) {
            (Some(open), Some(close)) if open < colon && colon < close => {
                inner[close..].find([':', '!']).map_or(inner.len(), |i| close + i)
            }
            _ => colon,
        };
        let (name, rest) = inner.split_at(colon);
        let (conversion, spec) = match rest.strip_prefix('!') {
            Some(rest) => {
                let mut chars = rest.chars();
                let conversion = chars.next();
                let spec = chars.as_str();
                if !spec.is_empty() && !spec.starts_with(':') {
                    return fail("the format has more than one letter after `!`");
                }
                (conversion.or(Some(' ')), spec)
            }
            None => (None, rest),
        };
        let value = value(runtime, name, arguments, counting)?;
        let mut written = Writer::new(runtime.budget());
        if let Some(spec) = spec.strip_prefix(':') {
            match may_nest {
                true => fields(runtime, format.of(spec), false, arguments, counting, &mut written, false)?,
                false if spec.contains('{') => {
                    return fail("the format has fields within fields within fields");
                }
                false => written.push(spec)?,
            }
        }
        let spec = parsed(&written.text.text)?;
        write(runtime, writer, &value, conversion, &spec, safe)?;
        (at, from) = (end + 1, end + 1);
    }
    writer.push_part(format.range(from..text.len()))
}

/// Returns the end of the field that begins at `from`.
fn field_end(text: &str, from: usize) -> Result<usize> {
    let mut depth = 1;
    for (at, c) in text[from..].char_indices() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if depth == 0 {
            return Ok(from + at);
        }
    }
    fail("the format has a `{` without its `}`")
}

/// Returns the value of a field: an argument, or a part of one.
fn value(
    runtime: &Runtime<'_>,
    name: &str,
    arguments: &Arguments<'_>,
    counting: &mut Counting,
) -> Result<Value> {
    let end = name.find(['.', '[']).unwrap_or(name.len());
    let (first, mut rest) = name.split_at(end);
    let mut value = if first.bytes().all(|byte| byte.is_ascii_digit()) {
        let index = counting.index(first)?;
        match arguments.positional.get(index) {
            Some(value) => value.clone(),
            None => return fail(format!("the format has no value {index}")),
        }
    } else {
        match arguments.named.iter().find(|(known, _)| &**known == first) {
            Some((_, value)) => value.clone(),
            None => return fail(format!("the format has no value {first:?}")),
        }
    };
    while !rest.is_empty() {
        runtime.budget().steps(1)?;
        if let Some(attribute) = rest.strip_prefix('.') {
            let end = attribute.find(['.', '[']).unwrap_or(attribute.len());
            value = runtime.attribute(&value, &attribute[..end])?;
            rest = &attribute[end..];
        } else if let Some((key, behind)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            let index = match key.parse() {
                Ok(index) if key.bytes().all(|byte| byte.is_ascii_digit()) => Value::Int(index),
                _ => runtime.maker.own(key)?,
            };
            value = runtime.item(&value, &index)?;
            rest = behind;
        } else {
            return fail("the format has a malformed field name");
        }
        if let Value::Undefined(name) = &value {
            return fail(format!("{name} is undefined"));
        }
    }
    Ok(value)
}

/// Parses `[[fill]align][sign][#][0][width][grouping][.precision][type]`.
fn parsed(text: &str) -> Result<Spec> {
    let mut spec = Spec::default();
    let mut rest = text;
    let is_align = |c: char| matches!(c, '<' | '>' | '^' | '=');
    let mut chars = rest.chars();
    match (chars.next(), chars.next()) {
        (Some(fill), Some(align)) if is_align(align) => {
            (spec.fill, spec.align) = (fill, Some(align));
            rest = chars.as_str();
        }
        (Some(align), _) if is_align(align) => {
            spec.align = Some(align);
            rest = &rest[1..];
        }
        _ => {}
    }
    let sign = rest.chars().next().filter(|c| matches!(c, '+' | '-' | ' '));
    if let Some(sign) = sign {
        spec.sign = sign;
        rest = &rest[1..];
    }
    if let Some(behind) = rest.strip_prefix('#') {
        (spec.alternate, rest) = (true, behind);
    }
    if let Some(behind) = rest.strip_prefix('0') {
        if spec.align.is_none() {
            (spec.fill, spec.align) = ('0', Some('='));
        }
        rest = behind;
    }
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (width, behind) = rest.split_at(digits(rest));
    rest = behind;
    if !width.is_empty() {
        spec.width = count(width)?;
    }
    if let Some(grouping) = rest.chars().next().filter(|c| matches!(c, ',' | '_')) {
        spec.grouping = Some(grouping);
        rest = &rest[1..];
    }
    if let Some(behind) = rest.strip_prefix('.') {
        let (precision, behind) = behind.split_at(digits(behind));
        if precision.is_empty() {
            return fail("the format lacks the digits after its point");
        }
        spec.precision = Some(count(precision)?);
        rest = behind;
    }
    let mut kinds = rest.chars();
    spec.kind = kinds.next();
    if kinds.next().is_some() {
        return fail(format!("the format `{}` is unknown", text.escape_default()));
    }
    Ok(spec)
}

/// Writes one value.
fn write(
    runtime: &Runtime<'_>,
    writer: &mut Writer<'_>,
    value: &Value,
    conversion: Option<char>,
    spec: &Spec,
    safe: bool,
) -> Result<()> {
    let text = match (conversion, value) {
        (None, Value::Str(_)) | (Some('s'), _) => runtime.formatted(value, safe, spec.precision)?,
        (Some(kind @ ('r' | 'a')), _) => {
            let written = runtime.represented(value, kind == 'a')?;
            runtime.formatted(&runtime.maker.text(written)?, safe, spec.precision)?
        }
        (Some(other), _) => {
            return fail(format!("the format has no conversion `!{}`", other.escape_default()));
        }
        (None, value) => return other(runtime, writer, value, spec, safe),
    };
    as_text(writer, &text, spec)
}

fn as_text(writer: &mut Writer<'_>, text: &Mixed, spec: &Spec) -> Result<()> {
    let fits = matches!(spec.kind, None | Some('s'))
        && spec.sign == '-'
        && !spec.alternate
        && spec.grouping.is_none()
        && (spec.align != Some('=') || spec.fill == '0');
    if !fits {
        return fail("the format does not fit a str");
    }
    // A zero before the width pads a text on its right.
    let align = if spec.align == Some('=') { Some('<') } else { spec.align };
    padded(writer, "", Part::new(&text.text, &text.content), &Spec { align, ..spec.clone() }, '<')
}

/// Writes a value that is not a text.
fn other(
    runtime: &Runtime<'_>,
    writer: &mut Writer<'_>,
    value: &Value,
    spec: &Spec,
    safe: bool,
) -> Result<()> {
    let is_plain = spec.kind.is_none()
        && spec.precision.is_none()
        && spec.width == 0
        && spec.align.is_none()
        && spec.grouping.is_none()
        && spec.sign == '-'
        && !spec.alternate;
    match (value, value.as_number()) {
        (Value::BigInt(_), _) if !is_plain => fail("a number is too large"),
        (
            Value::Bool(_)
            | Value::None
            | Value::List(_)
            | Value::Tuple(_)
            | Value::Dict(_)
            | Value::BigInt(_),
            _,
        )
        | (Value::Undefined(_) | Value::Range(_), _)
            if is_plain =>
        {
            let text = runtime.formatted(value, safe, None)?;
            writer.push_part(Part::new(&text.text, &text.content))
        }
        (_, Some(Number::Int(code))) if spec.kind == Some('c') => {
            let c = u32::try_from(code).ok().and_then(char::from_u32);
            let Some(c) = c else { return fail("the format `c` needs the code of a character") };
            padded(writer, "", Part::own(&c.to_string()), spec, '<')
        }
        (_, Some(Number::Int(_)))
            if spec.precision.is_some() && matches!(spec.kind, None | Some('d' | 'x' | 'X' | 'o' | 'b')) =>
        {
            fail("an int has no digits after a point")
        }
        (_, Some(found)) => number(writer, found, spec),
        _ => unknown(spec.kind.unwrap_or('s'), value),
    }
}
