//! The filters that stand behind `|`.

use std::cmp::Ordering;
use std::rc::Rc;

use super::budget::{Result, fail};
use super::functions::{Arguments, integer, text};
use super::interpreter::Interpreter;
use super::predicates;
use super::print::{JsonLayout, Writer};
use super::strings::{self, Ends};
use super::value::{List, Number, Value};
use crate::error::Quoted;

/// A filter by its names.
#[derive(Debug)]
pub(super) struct Filter {
    names: &'static [&'static str],
    pub(super) call: for<'t> fn(&mut Interpreter<'t>, &Value, Arguments<'t>) -> Result<Value>,
}

static FILTERS: &[Filter] = &[
    Filter { names: &["abs"], call: absolute },
    Filter { names: &["attr"], call: attribute },
    Filter { names: &["capitalize"], call: |i, v, args| map_text(i, v, args, strings::capitalize) },
    Filter { names: &["count", "length"], call: length },
    Filter { names: &["d", "default"], call: default },
    Filter { names: &["dictsort"], call: sort_dict },
    Filter { names: &["e", "escape"], call: escape },
    Filter { names: &["first"], call: |i, v, args| end(i, v, args, true) },
    Filter { names: &["float"], call: float },
    Filter { names: &["indent"], call: indent },
    Filter { names: &["int"], call: int },
    Filter { names: &["items"], call: items },
    Filter { names: &["join"], call: join },
    Filter { names: &["last"], call: |i, v, args| end(i, v, args, false) },
    Filter { names: &["list"], call: list },
    Filter { names: &["lower"], call: |i, v, args| map_text(i, v, args, str::to_lowercase) },
    Filter { names: &["map"], call: map },
    Filter { names: &["max"], call: |i, v, args| extreme(i, v, args, Ordering::Greater) },
    Filter { names: &["min"], call: |i, v, args| extreme(i, v, args, Ordering::Less) },
    Filter { names: &["reject"], call: |i, v, args| select(i, v, args, false, false) },
    Filter { names: &["rejectattr"], call: |i, v, args| select(i, v, args, true, false) },
    Filter { names: &["replace"], call: replace },
    Filter { names: &["reverse"], call: reverse },
    Filter { names: &["round"], call: round },
    Filter { names: &["safe"], call: safe },
    Filter { names: &["select"], call: |i, v, args| select(i, v, args, false, true) },
    Filter { names: &["selectattr"], call: |i, v, args| select(i, v, args, true, true) },
    Filter { names: &["sort"], call: sort },
    Filter { names: &["string"], call: string },
    Filter { names: &["sum"], call: sum },
    Filter { names: &["title"], call: |i, v, args| map_text(i, v, args, title) },
    Filter { names: &["tojson"], call: to_json },
    Filter { names: &["trim"], call: trim },
    Filter { names: &["unique"], call: unique },
    Filter { names: &["upper"], call: |i, v, args| map_text(i, v, args, str::to_uppercase) },
    Filter { names: &["wordcount"], call: count_words },
];

pub(super) fn named(name: &str) -> Option<&'static Filter> {
    FILTERS.iter().find(|filter| filter.names.contains(&name))
}

fn is_true(value: Option<Value>) -> bool {
    value.is_some_and(|value| value.is_true())
}

/// The value as text, counted as looked at.
fn as_text(interpreter: &Interpreter<'_>, value: &Value) -> Result<Value> {
    let value = interpreter.to_text(value)?;
    interpreter.budget().scan(value.as_str().map_or(0, str::len))?;
    Ok(value)
}

fn map_text<'t>(
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
fn title(text: &str) -> String {
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

fn absolute<'t>(_: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("abs", [])?;
    match value.as_number() {
        Some(Number::Int(i)) => {
            i.checked_abs().map_or_else(|| fail("a number is too large"), |i| Ok(Value::Int(i)))
        }
        Some(Number::Float(f)) => Ok(Value::Float(f.abs())),
        None => fail(format!("a {} is not a number", value.type_name())),
    }
}

fn attribute<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [name] = arguments.exactly("attr", ["name"])?;
    let name = text(&name, "the name of an attribute")?;
    // Unlike `.`, it does not look at the entries of a dictionary.
    match value {
        Value::Dict(_) if super::methods::named(value, name).is_none() => Ok(Value::undefined(name)),
        value => interpreter.attribute(value, name),
    }
}

fn length<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("length", [])?;
    let length = match value {
        Value::Undefined(_) => 0,
        Value::Str(text) => {
            interpreter.budget().scan(text.as_str().len())?;
            text.as_str().chars().count()
        }
        Value::List(list) | Value::Tuple(list) => list.items().len(),
        Value::Dict(dict) => dict.entries().len(),
        Value::Range(range) => range.len,
        other => return fail(format!("a {} has no length", other.type_name())),
    };
    Ok(Value::Int(length as i64))
}

fn default<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [default, boolean] = arguments.bind("default", ["default_value", "boolean"])?;
    if !value.is_undefined() && (!is_true(boolean) || value.is_true()) {
        return Ok(value.clone());
    }
    default.map_or_else(|| interpreter.maker.str(""), Ok)
}

/// The text with what HTML gives a meaning replaced.
pub(super) fn escaped(text: &str) -> String {
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

fn escape<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("escape", [])?;
    if matches!(value, Value::Str(text) if text.safe) {
        return Ok(value.clone());
    }
    let value = as_text(interpreter, value)?;
    let all = value.as_str().unwrap_or_default();
    interpreter.budget().can_make(all.len().saturating_mul(5))?;
    interpreter.maker.text(escaped(all).into(), true)
}

fn safe<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("safe", [])?;
    let value = as_text(interpreter, value)?;
    interpreter.maker.text(value.as_str().unwrap_or_default().into(), true)
}

fn string<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("string", [])?;
    interpreter.to_text(value)
}

fn trim<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
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

fn replace<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
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

fn indent<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
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
    interpreter.can_make_items(all.len())?;
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

fn count_words<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("wordcount", [])?;
    let value = as_text(interpreter, value)?;
    let words = value.as_str().unwrap_or_default().split(|c: char| !c.is_alphanumeric() && c != '_');
    Ok(Value::Int(words.filter(|word| !word.is_empty()).count() as i64))
}

fn int<'t>(_: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [default, base] = arguments.bind("int", ["default", "base"])?;
    let default = default.unwrap_or(Value::Int(0));
    let base = base.map_or(Ok(10), |base| integer(&base, "a base"))?;
    let Some(base) = u32::try_from(base).ok().filter(|base| (2..=36).contains(base)) else {
        return fail("a base must be from 2 to 36");
    };
    let truncated = |f: f64| (f.abs() < 9.0e18).then_some(f as i64);
    let int = match value {
        Value::Float(f) => truncated(*f),
        Value::Str(text) => {
            let text = text.as_str().trim().replace('_', "");
            let prefix = match base {
                2 => "0b",
                8 => "0o",
                16 => "0x",
                _ => "",
            };
            let digits = text.strip_prefix(prefix).unwrap_or(&text);
            let int = i64::from_str_radix(digits, base).ok();
            int.or_else(|| text.parse().ok().and_then(truncated))
        }
        other => other.as_int(),
    };
    Ok(int.map_or(default, Value::Int))
}

fn float<'t>(_: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [default] = arguments.bind("float", ["default"])?;
    let float = match value {
        Value::Str(text) => text.as_str().trim().parse().ok(),
        other => other.as_number().map(Number::as_f64),
    };
    Ok(float.map_or_else(|| default.unwrap_or(Value::Float(0.0)), Value::Float))
}

fn round<'t>(_: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [precision, method] = arguments.bind("round", ["precision", "method"])?;
    let precision = precision.map_or(Ok(0), |precision| integer(&precision, "a precision"))?;
    let Some(number) = value.as_number() else {
        return fail(format!("a {} is not a number", value.type_name()));
    };
    let scale = 10f64.powi(precision.clamp(-300, 300) as i32);
    let scaled = number.as_f64() * scale;
    let rounded = match method.as_ref().map_or(Ok("common"), |method| text(method, "a method"))? {
        "common" if matches!(number, Number::Int(_)) && precision >= 0 => return Ok(value.clone()),
        // Decimal digits decide: 2.675 is a little less than what it is written as.
        "common" if precision >= 0 => {
            let digits = format!("{:.*}", precision.min(300) as usize, number.as_f64());
            return Ok(Value::Float(digits.parse().unwrap_or(f64::NAN)));
        }
        "common" => scaled.round_ties_even(),
        "ceil" => scaled.ceil(),
        "floor" => scaled.floor(),
        other => return fail(format!("there is no method {} of rounding", Quoted(other))),
    };
    Ok(Value::Float(rounded / scale))
}

fn items<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("items", [])?;
    if value.is_undefined() {
        return interpreter.maker.list(Vec::new());
    }
    interpreter.entries(value)
}

fn list<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("list", [])?;
    interpreter.items(value).map(Value::List)
}

fn end<'t>(
    interpreter: &Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    first: bool,
) -> Result<Value> {
    let [] = arguments.exactly("first or last", [])?;
    let items = interpreter.items(value)?;
    let item = if first { items.items().first() } else { items.items().last() };
    Ok(item.cloned().unwrap_or_else(|| Value::undefined("an item of an empty sequence")))
}

fn reverse<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("reverse", [])?;
    if let Some(text) = value.as_str() {
        interpreter.budget().can_make(text.len())?;
        return interpreter.maker.str(text.chars().rev().collect::<String>());
    }
    let items = interpreter.items(value)?;
    interpreter.can_make_items(items.items().len())?;
    interpreter.maker.list(items.items().iter().rev().cloned().collect())
}

/// What `attribute=` names in an item: keys, attributes or indices with dots between them.
fn by_path(interpreter: &Interpreter<'_>, item: &Value, path: &Value) -> Result<Value> {
    let Some(path) = path.as_str() else { return interpreter.item(item, path) };
    interpreter.budget().scan(path.len())?;
    let mut value = item.clone();
    for part in path.split('.') {
        let index = match part.parse() {
            Ok(index) => Value::Int(index),
            Err(_) => interpreter.maker.str(part)?,
        };
        value = interpreter.item(&value, &index)?;
    }
    Ok(value)
}

/// The items that `map` and `select` go through; what counts as false has none, also if it is no sequence.
fn items_or_none(interpreter: &Interpreter<'_>, value: &Value) -> Result<Rc<List>> {
    if value.is_true() { interpreter.items(value) } else { interpreter.maker.rc_list(Vec::new()) }
}

/// The items, or what `attribute` names in each.
fn columns(interpreter: &Interpreter<'_>, items: &List, attribute: Option<&Value>) -> Result<Vec<Value>> {
    interpreter.can_make_items(items.items().len())?;
    match attribute {
        None | Some(Value::None) => Ok(items.items().to_vec()),
        Some(path) => items.items().iter().map(|item| by_path(interpreter, item, path)).collect(),
    }
}

fn join<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [separator, attribute] = arguments.bind("join", ["d", "attribute"])?;
    let items = interpreter.items(value)?;
    let items = columns(interpreter, &items, attribute.as_ref())?;
    let separator = separator.map(|separator| interpreter.to_text(&separator)).transpose()?;
    interpreter.join(&items, separator.as_ref().and_then(Value::as_str).unwrap_or_default())
}

fn map<'t>(interpreter: &mut Interpreter<'t>, value: &Value, mut arguments: Arguments<'t>) -> Result<Value> {
    let items = items_or_none(interpreter, value)?;
    let mut mapped = Vec::new();
    if arguments.positional.is_empty() {
        let [attribute, default] = arguments.bind("map", ["attribute", "default"])?;
        let Some(attribute) = attribute else { return fail("map needs a filter or an attribute") };
        for item in items.items() {
            let value = by_path(interpreter, item, &attribute)?;
            mapped.push(match &default {
                Some(default) if value.is_undefined() => default.clone(),
                _ => value,
            });
        }
    } else {
        let name = arguments.positional.remove(0);
        let name = text(&name, "the name of a filter")?;
        let Some(filter) = named(name) else { return fail(format!("there is no filter {}", Quoted(name))) };
        for item in items.items() {
            interpreter.budget().steps(1 + arguments.positional.len())?;
            let (positional, named) = (arguments.positional.clone(), arguments.named.clone());
            interpreter.budget().enter()?;
            mapped.push((filter.call)(interpreter, item, Arguments { positional, named })?);
            interpreter.budget().leave();
        }
    }
    interpreter.maker.list(mapped)
}

/// The items for which a test holds or does not hold, on themselves or on an attribute.
fn select<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    mut arguments: Arguments<'t>,
    has_attribute: bool,
    wanted: bool,
) -> Result<Value> {
    let items = items_or_none(interpreter, value)?;
    if has_attribute && arguments.positional.is_empty() {
        return fail("the name of an attribute is needed");
    }
    let attribute = has_attribute.then(|| arguments.positional.remove(0));
    let test = if arguments.positional.is_empty() { None } else { Some(arguments.positional.remove(0)) };
    let test = match &test {
        None => None,
        Some(name) => {
            let name = text(name, "the name of a test")?;
            match predicates::named(name) {
                Some(test) => Some(test),
                None => return fail(format!("there is no test {}", Quoted(name))),
            }
        }
    };
    let mut selected = Vec::new();
    for item in items.items() {
        interpreter.budget().steps(1 + arguments.positional.len())?;
        let value = match &attribute {
            Some(path) => by_path(interpreter, item, path)?,
            None => item.clone(),
        };
        let holds = match test {
            Some(test) => {
                let (positional, named) = (arguments.positional.clone(), arguments.named.clone());
                (test.holds)(interpreter, &value, Arguments { positional, named })?
            }
            None => value.is_true(),
        };
        if holds == wanted {
            selected.push(item.clone());
        }
    }
    interpreter.maker.list(selected)
}

/// What values are ordered and told apart by: text without its case, unless case matters.
fn key(interpreter: &Interpreter<'_>, value: &Value, case_sensitive: bool) -> Result<Value> {
    match value.as_str() {
        Some(text) if !case_sensitive => {
            interpreter.budget().can_make(text.len().saturating_mul(3))?;
            interpreter.maker.str(text.to_lowercase())
        }
        _ => Ok(value.clone()),
    }
}

/// Sorts items by keys. The order of equal ones stays, also in reverse.
fn sorted(interpreter: &Interpreter<'_>, items: Vec<(Value, Value)>, reverse: bool) -> Result<Vec<Value>> {
    let mut items = items;
    let mut failure = None;
    items.sort_by(|a, b| {
        if failure.is_some() {
            return Ordering::Equal;
        }
        match a.0.compare(&b.0, interpreter.budget()) {
            Ok(order) => {
                let order = order.unwrap_or(Ordering::Equal);
                if reverse { order.reverse() } else { order }
            }
            Err(error) => {
                failure = Some(error);
                Ordering::Equal
            }
        }
    });
    match failure {
        Some(failure) => Err(failure),
        None => Ok(items.into_iter().map(|(_, item)| item).collect()),
    }
}

fn sort<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [reverse, case_sensitive, attribute] =
        arguments.bind("sort", ["reverse", "case_sensitive", "attribute"])?;
    let case_sensitive = is_true(case_sensitive);
    let items = interpreter.items(value)?;
    let keys = columns(interpreter, &items, attribute.as_ref())?;
    let mut pairs = Vec::with_capacity(keys.len());
    for (k, item) in keys.iter().zip(items.items()) {
        pairs.push((key(interpreter, k, case_sensitive)?, item.clone()));
    }
    let sorted = sorted(interpreter, pairs, is_true(reverse))?;
    interpreter.maker.list(sorted)
}

fn sort_dict<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [case_sensitive, by, reverse] = arguments.bind("dictsort", ["case_sensitive", "by", "reverse"])?;
    let case_sensitive = is_true(case_sensitive);
    let column = match by.as_ref().map_or(Ok("key"), |by| text(by, "by"))? {
        "key" => 0,
        "value" => 1,
        _ => return fail("dictsort sorts by key or value"),
    };
    let entries = interpreter.entries(value)?;
    let mut pairs = Vec::new();
    for pair in interpreter.items(&entries)?.items() {
        let by = interpreter.items(pair)?.items()[column].clone();
        pairs.push((key(interpreter, &by, case_sensitive)?, pair.clone()));
    }
    let sorted = sorted(interpreter, pairs, is_true(reverse))?;
    interpreter.maker.list(sorted)
}

fn extreme<'t>(
    interpreter: &Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    wanted: Ordering,
) -> Result<Value> {
    let [case_sensitive, attribute] = arguments.bind("min or max", ["case_sensitive", "attribute"])?;
    let case_sensitive = is_true(case_sensitive);
    let items = interpreter.items(value)?;
    let keys = columns(interpreter, &items, attribute.as_ref())?;
    let mut best: Option<(Value, &Value)> = None;
    for (k, item) in keys.iter().zip(items.items()) {
        let k = key(interpreter, k, case_sensitive)?;
        let better = match &best {
            Some((best, _)) => k.compare(best, interpreter.budget())? == Some(wanted),
            None => true,
        };
        if better {
            best = Some((k, item));
        }
    }
    Ok(best.map_or_else(|| Value::undefined("an item of an empty sequence"), |(_, item)| item.clone()))
}

fn unique<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [case_sensitive, attribute] = arguments.bind("unique", ["case_sensitive", "attribute"])?;
    let case_sensitive = is_true(case_sensitive);
    let items = interpreter.items(value)?;
    let keys = columns(interpreter, &items, attribute.as_ref())?;
    let (mut seen, mut kept): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    for (k, item) in keys.iter().zip(items.items()) {
        let k = key(interpreter, k, case_sensitive)?;
        let mut is_new = true;
        for other in &seen {
            is_new &= !k.equals(other, interpreter.budget())?;
        }
        if is_new {
            seen.push(k);
            kept.push(item.clone());
        }
    }
    interpreter.maker.list(kept)
}

fn sum<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [attribute, start] = arguments.bind("sum", ["attribute", "start"])?;
    let items = interpreter.items(value)?;
    let mut total = start.unwrap_or(Value::Int(0));
    for value in columns(interpreter, &items, attribute.as_ref())? {
        total = interpreter.arithmetic(super::ast::Arithmetic::Add, &total, &value)?;
    }
    Ok(total)
}

/// JSON as Python's `json.dumps` writes it, with text as it is and without escapes for HTML.
fn to_json<'t>(interpreter: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
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
    interpreter.maker.str(writer.text)
}
