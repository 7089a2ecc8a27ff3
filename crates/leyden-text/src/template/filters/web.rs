//! Filters for URLs and HTML.

use super::texts::{as_text, escape};
use crate::template::arguments::Arguments;
use crate::template::budget::{Result, fail};
use crate::template::escape::escape_into;
use crate::template::mixed::{Mixed, Part};
use crate::template::print::Writer;
use crate::template::runtime::Runtime;
use crate::template::strings;
use crate::template::value::Value;

/// Writes a text percent-encoded; in a query, `/` is encoded too, and spaces become `+`.
fn quoted(writer: &mut Writer<'_>, part: Part<'_>, in_query: bool) -> Result<()> {
    for (run, is_content) in part.runs() {
        writer.budget.can_make(run.len().saturating_mul(3))?;
        let mut out = String::with_capacity(run.len());
        for byte in run.bytes() {
            match byte {
                b'_' | b'.' | b'-' | b'~' => out.push(char::from(byte)),
                b'/' if !in_query => out.push('/'),
                b' ' if in_query => out.push('+'),
                byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
                byte => out.push_str(&format!("%{byte:02X}")),
            }
        }
        let text = Mixed::made_of(out, Part::own(""));
        let all = 0..text.text.len();
        let content: &[_] =
            if is_content && !text.text.is_empty() { std::slice::from_ref(&all) } else { &[] };
        writer.push_part(Part::new(&text.text, content))?;
    }
    Ok(())
}

pub(super) fn url_encode<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("urlencode", [])?;
    let pairs = match value {
        Value::Dict(_) => runtime.entries(value)?,
        Value::List(_) | Value::Tuple(_) => value.clone(),
        other => {
            let text = as_text(runtime, other)?;
            let mut writer = Writer::new(runtime.budget());
            quoted(&mut writer, text.as_part(), false)?;
            return runtime.maker.text(writer.text);
        }
    };
    let mut writer = Writer::new(runtime.budget());
    for (i, pair) in runtime.items(&pairs)?.items().iter().enumerate() {
        let pair = runtime.items(pair)?;
        let [key, value] = pair.items() else { return fail("urlencode needs pairs") };
        if i > 0 {
            writer.push("&")?;
        }
        quoted(&mut writer, runtime.to_text(key)?.as_part(), true)?;
        writer.push("=")?;
        quoted(&mut writer, runtime.to_text(value)?.as_part(), true)?;
    }
    runtime.maker.text(writer.text)
}

/// Escapes as `escape` does, also text that is marked as safe.
pub(super) fn force_escape<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let text = as_text(runtime, value)?;
    let mut plain = Mixed::default();
    plain.push(text.as_part());
    let plain = runtime.maker.text(plain)?;
    escape(runtime, &plain, arguments)
}

/// Writes the entries of a dictionary as attributes of an XML element.
pub(super) fn attributes<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [space] = arguments.bind("xmlattr", ["autospace"])?;
    let space = space.is_none_or(|flag| flag.is_true());
    let Value::Dict(dict) = value else {
        return fail(format!("xmlattr needs a dict, not a {}", value.type_name()));
    };
    let mut all = Mixed::default();
    for (key, value) in dict.entries() {
        if matches!(value, Value::None | Value::Undefined(_)) {
            continue;
        }
        let key = runtime.to_text(key)?;
        if key.as_str().is_some_and(|key| key.contains([' ', '\t', '\n', '\x0c', '\r', '/', '>', '='])) {
            return fail("the name of an attribute has a character that ends it");
        }
        let value = runtime.to_text(value)?;
        let lengths = [&key, &value].map(|text| text.as_str().map_or(0, str::len));
        runtime
            .budget()
            .can_make(all.text.len() + lengths[0].saturating_add(lengths[1]).saturating_mul(5))?;
        if !all.text.is_empty() || space {
            all.push_own(" ");
        }
        for (text, behind) in [(&key, "=\""), (&value, "\"")] {
            match text {
                Value::Str(safe) if safe.safe => all.push(safe.part()),
                text => escape_into(&mut all, text.as_part()),
            }
            all.push_own(behind);
        }
    }
    runtime.maker.marked(all, true)
}

/// Removes comments and tags, and collapses white space.
pub(super) fn strip_tags<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("striptags", [])?;
    let value = as_text(runtime, value)?;
    let text = value.as_str().unwrap_or_default();
    runtime.budget().can_make(text.len().saturating_mul(2))?;
    let mut kept = Mixed::default();
    for (open, close) in [("<!--", "-->"), ("<", ">")] {
        let (part, text) = match kept.text.is_empty() {
            true if open == "<!--" => (value.as_part(), text.to_owned()),
            _ => (Part::new(&kept.text, &kept.content), kept.text.clone()),
        };
        let mut out = Mixed::default();
        let mut from = 0;
        while let Some(start) = text[from..].find(open).map(|at| from + at) {
            let Some(end) = text[start..].find(close).map(|at| start + at + close.len()) else { break };
            out.push(part.range(from..start));
            from = end;
        }
        out.push(part.range(from..text.len()));
        kept = out;
    }
    let part = Part::new(&kept.text, &kept.content);
    let mut out = Mixed::default();
    for (i, word) in kept.text.split(strings::is_space).filter(|word| !word.is_empty()).enumerate() {
        if i > 0 {
            out.push_own(" ");
        }
        unescape_into(&mut out, part.of(word));
    }
    runtime.maker.text(out)
}

/// Entities that are decoded; others are left as they are.
const ENTITIES: [(&str, &str); 8] = [
    ("amp", "&"),
    ("lt", "<"),
    ("gt", ">"),
    ("quot", "\""),
    ("apos", "'"),
    ("nbsp", "\u{a0}"),
    ("hellip", "…"),
    ("mdash", "—"),
];

fn unescape_into(out: &mut Mixed, part: Part<'_>) {
    for (run, is_content) in part.runs() {
        let mut rest = run;
        while let Some(at) = rest.find('&') {
            out.push_as(&rest[..at], is_content);
            rest = &rest[at..];
            let entity = rest[1..].split_once(';').map(|(name, _)| name).filter(|name| name.len() <= 10);
            let found = entity.and_then(|name| {
                let code = name.strip_prefix('#').and_then(|digits| match digits.strip_prefix(['x', 'X']) {
                    Some(hex) => u32::from_str_radix(hex, 16).ok(),
                    None => digits.parse().ok(),
                });
                match code.and_then(char::from_u32) {
                    Some(c) => Some((c.to_string(), name.len())),
                    None => ENTITIES
                        .iter()
                        .find(|(known, _)| *known == name)
                        .map(|(_, c)| ((*c).to_owned(), name.len())),
                }
            });
            match found {
                Some((text, length)) => {
                    out.push_as(&text, is_content);
                    rest = &rest[length + 2..];
                }
                None => {
                    out.push_as("&", is_content);
                    rest = &rest[1..];
                }
            }
        }
        out.push_as(rest, is_content);
    }
}
