//! Filters on iterables.

use std::cmp::Ordering;
use std::rc::Rc;

use super::is_true;
use crate::template::ast::Arithmetic;
use crate::template::budget::{Result, fail};
use crate::template::functions::{Arguments, text};
use crate::template::interpreter::Interpreter;
use crate::template::mixed::{Mixed, Part};
use crate::template::predicates;
use crate::template::value::{List, Value};

pub(super) fn items<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("items", [])?;
    if value.is_undefined() {
        return interpreter.maker.list(Vec::new());
    }
    interpreter.entries(value)
}

pub(super) fn list<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("list", [])?;
    interpreter.items(value).map(Value::List)
}

pub(super) fn end<'t>(
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

pub(super) fn reverse<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("reverse", [])?;
    if let Some(text) = value.as_str() {
        interpreter.budget().can_make(text.len())?;
        let reversed = Mixed::made_of(text.chars().rev().collect(), value.as_part());
        return interpreter.maker.text(reversed);
    }
    let items = interpreter.items(value)?;
    interpreter.can_make_items(items.items().len())?;
    interpreter.maker.list(items.items().iter().rev().cloned().collect())
}

/// Looks up the path given as `attribute=` in an item: keys, attributes or indices separated by dots.
pub(super) fn by_path(interpreter: &Interpreter<'_>, item: &Value, path: &Value) -> Result<Value> {
    let path_part = path.as_part();
    let Some(path) = path.as_str() else { return interpreter.item(item, path) };
    interpreter.budget().scan(path.len())?;
    let mut value = item.clone();
    for part in path.split('.') {
        let index = match part.parse() {
            Ok(index) => Value::Int(index),
            Err(_) => interpreter.maker.part(path_part.of(part))?,
        };
        value = interpreter.item(&value, &index)?;
    }
    Ok(value)
}

/// Returns the items for `map` and `select`; a value that is false has none, even if it is not a sequence.
fn items_or_none(interpreter: &Interpreter<'_>, value: &Value) -> Result<Rc<List>> {
    if value.is_true() { interpreter.items(value) } else { interpreter.maker.rc_list(Vec::new()) }
}

/// Returns the items, or the value of `attribute` of each.
fn columns(interpreter: &Interpreter<'_>, items: &List, attribute: Option<&Value>) -> Result<Vec<Value>> {
    interpreter.can_make_items(items.items().len())?;
    match attribute {
        None | Some(Value::None) => Ok(items.items().to_vec()),
        Some(path) => items.items().iter().map(|item| by_path(interpreter, item, path)).collect(),
    }
}

pub(super) fn join<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [separator, attribute] = arguments.bind("join", ["d", "attribute"])?;
    let items = interpreter.items(value)?;
    let items = columns(interpreter, &items, attribute.as_ref())?;
    let separator = separator.map(|separator| interpreter.to_text(&separator)).transpose()?;
    interpreter.join(&items, separator.as_ref().map_or(Part::own(""), Value::as_part))
}

pub(super) fn map<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    mut arguments: Arguments<'t>,
) -> Result<Value> {
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
        let Some(filter) = super::named(name) else {
            return fail(super::unknown(name));
        };
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

/// Selects the items for which a test of the item or of its attribute gives `wanted`.
pub(super) fn select<'t>(
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
                None => return fail(predicates::unknown(name)),
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

/// Returns the key by which values are sorted and compared: lower-case text, unless case matters.
pub(super) fn key(interpreter: &Interpreter<'_>, value: &Value, case_sensitive: bool) -> Result<Value> {
    match value.as_str() {
        Some(text) if !case_sensitive => {
            interpreter.budget().can_make(text.len().saturating_mul(3))?;
            interpreter.maker.text(Mixed::made_of(text.to_lowercase(), value.as_part()))
        }
        _ => Ok(value.clone()),
    }
}

/// Sorts items by keys. The sort is stable, also in reverse.
pub(super) fn sorted(
    interpreter: &Interpreter<'_>,
    items: Vec<(Value, Value)>,
    reverse: bool,
) -> Result<Vec<Value>> {
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

pub(super) fn sort<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
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

pub(super) fn sort_dict<'t>(
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

pub(super) fn extreme<'t>(
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

pub(super) fn unique<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
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

pub(super) fn sum<'t>(
    interpreter: &mut Interpreter<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [attribute, start] = arguments.bind("sum", ["attribute", "start"])?;
    let items = interpreter.items(value)?;
    let mut total = start.unwrap_or(Value::Int(0));
    for value in columns(interpreter, &items, attribute.as_ref())? {
        total = interpreter.arithmetic(Arithmetic::Add, &total, &value)?;
    }
    Ok(total)
}
