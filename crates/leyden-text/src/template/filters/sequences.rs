//! Filters on iterables.

use std::cmp::Ordering;
use std::rc::Rc;

use crate::template::arguments::{Arguments, is_true, text};
use crate::template::ast::Arithmetic;
use crate::template::budget::{Result, fail};
use crate::template::mixed::{Mixed, Part};
use crate::template::predicates;
use crate::template::runtime::Runtime;
use crate::template::value::{List, Value};

pub(super) fn items<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("items", [])?;
    if value.is_undefined() {
        return runtime.maker.list(Vec::new());
    }
    runtime.entries(value)
}

pub(super) fn list<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("list", [])?;
    runtime.items(value).map(Value::List)
}

pub(super) fn end<'t>(
    runtime: &Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    first: bool,
) -> Result<Value> {
    let [] = arguments.exactly("first or last", [])?;
    let items = runtime.items(value)?;
    let item = if first { items.items().first() } else { items.items().last() };
    Ok(item.cloned().unwrap_or_else(|| Value::undefined("an item of an empty sequence")))
}

pub(super) fn reverse<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [] = arguments.exactly("reverse", [])?;
    if let Some(text) = value.as_str() {
        runtime.budget().can_make(text.len())?;
        let reversed = Mixed::made_of(text.chars().rev().collect(), value.as_part());
        return runtime.maker.text(reversed);
    }
    let items = runtime.items(value)?;
    runtime.can_make_items(items.items().len())?;
    runtime.maker.list(items.items().iter().rev().cloned().collect())
}

/// Looks up the path given as `attribute=` in an item: keys, attributes or indices separated by dots.
pub(super) fn by_path(runtime: &Runtime<'_>, item: &Value, path: &Value) -> Result<Value> {
    let path_part = path.as_part();
    let Some(path) = path.as_str() else { return runtime.item(item, path) };
    runtime.budget().scan(path.len())?;
    let mut value = item.clone();
    for part in path.split('.') {
        let index = match part.parse() {
            Ok(index) => Value::Int(index),
            Err(_) => runtime.maker.part(path_part.of(part))?,
        };
        value = runtime.item(&value, &index)?;
    }
    Ok(value)
}

/// Returns the items for `map` and `select`; a value that is false has none, even if it is not a sequence.
pub(super) fn items_or_none(runtime: &Runtime<'_>, value: &Value) -> Result<Rc<List>> {
    if value.is_true() { runtime.items(value) } else { runtime.maker.rc_list(Vec::new()) }
}

/// Returns the items, or the value of `attribute` of each.
fn columns(runtime: &Runtime<'_>, items: &List, attribute: Option<&Value>) -> Result<Vec<Value>> {
    runtime.can_make_items(items.items().len())?;
    match attribute {
        None | Some(Value::None) => Ok(items.items().to_vec()),
        Some(path) => items.items().iter().map(|item| by_path(runtime, item, path)).collect(),
    }
}

pub(super) fn join<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [separator, attribute] = arguments.bind("join", ["d", "attribute"])?;
    let items = runtime.items(value)?;
    let items = columns(runtime, &items, attribute.as_ref())?;
    let separator = separator.map(|separator| runtime.to_text(&separator)).transpose()?;
    runtime.join(&items, separator.as_ref().map_or(Part::own(""), Value::as_part))
}

/// Selects the items for which a test of the item or of its attribute gives `wanted`.
pub(super) fn select<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    mut arguments: Arguments<'t>,
    has_attribute: bool,
    wanted: bool,
) -> Result<Value> {
    let items = items_or_none(runtime, value)?;
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
        runtime.budget().steps(1 + arguments.positional.len())?;
        let value = match &attribute {
            Some(path) => by_path(runtime, item, path)?,
            None => item.clone(),
        };
        let holds = match test {
            Some(test) => {
                let (positional, named) = (arguments.positional.clone(), arguments.named.clone());
                (test.holds)(runtime, &value, Arguments { positional, named })?
            }
            None => value.is_true(),
        };
        if holds == wanted {
            selected.push(item.clone());
        }
    }
    runtime.maker.list(selected)
}

/// Returns the key by which values are sorted and compared: lower-case text, unless case matters.
pub(super) fn key(runtime: &Runtime<'_>, value: &Value, case_sensitive: bool) -> Result<Value> {
    match value.as_str() {
        Some(text) if !case_sensitive => {
            runtime.budget().can_make(text.len().saturating_mul(3))?;
            runtime.maker.text(Mixed::made_of(text.to_lowercase(), value.as_part()))
        }
        _ => Ok(value.clone()),
    }
}

/// Sorts items by keys. The sort is stable, also in reverse.
pub(super) fn sorted(runtime: &Runtime<'_>, items: Vec<(Value, Value)>, reverse: bool) -> Result<Vec<Value>> {
    let mut items = items;
    let mut failure = None;
    items.sort_by(|a, b| {
        if failure.is_some() {
            return Ordering::Equal;
        }
        match a.0.compare(&b.0, runtime.budget()) {
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

pub(super) fn sort<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [reverse, case_sensitive, attribute] =
        arguments.bind("sort", ["reverse", "case_sensitive", "attribute"])?;
    let case_sensitive = is_true(case_sensitive);
    let items = runtime.items(value)?;
    let keys = columns(runtime, &items, attribute.as_ref())?;
    let mut pairs = Vec::with_capacity(keys.len());
    for (k, item) in keys.iter().zip(items.items()) {
        pairs.push((key(runtime, k, case_sensitive)?, item.clone()));
    }
    let sorted = sorted(runtime, pairs, is_true(reverse))?;
    runtime.maker.list(sorted)
}

pub(super) fn sort_dict<'t>(
    runtime: &mut Runtime<'t>,
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
    let entries = runtime.entries(value)?;
    let mut pairs = Vec::new();
    for pair in runtime.items(&entries)?.items() {
        let by = runtime.items(pair)?.items()[column].clone();
        pairs.push((key(runtime, &by, case_sensitive)?, pair.clone()));
    }
    let sorted = sorted(runtime, pairs, is_true(reverse))?;
    runtime.maker.list(sorted)
}

pub(super) fn extreme<'t>(
    runtime: &Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
    wanted: Ordering,
) -> Result<Value> {
    let [case_sensitive, attribute] = arguments.bind("min or max", ["case_sensitive", "attribute"])?;
    let case_sensitive = is_true(case_sensitive);
    let items = runtime.items(value)?;
    let keys = columns(runtime, &items, attribute.as_ref())?;
    let mut best: Option<(Value, &Value)> = None;
    for (k, item) in keys.iter().zip(items.items()) {
        let k = key(runtime, k, case_sensitive)?;
        let better = match &best {
            Some((best, _)) => k.compare(best, runtime.budget())? == Some(wanted),
            None => true,
        };
        if better {
            best = Some((k, item));
        }
    }
    Ok(best.map_or_else(|| Value::undefined("an item of an empty sequence"), |(_, item)| item.clone()))
}

pub(super) fn unique<'t>(
    runtime: &mut Runtime<'t>,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<Value> {
    let [case_sensitive, attribute] = arguments.bind("unique", ["case_sensitive", "attribute"])?;
    let case_sensitive = is_true(case_sensitive);
    let items = runtime.items(value)?;
    let keys = columns(runtime, &items, attribute.as_ref())?;
    let (mut seen, mut kept): (Vec<Value>, Vec<Value>) = (Vec::new(), Vec::new());
    for (k, item) in keys.iter().zip(items.items()) {
        let k = key(runtime, k, case_sensitive)?;
        let mut is_new = true;
        for other in &seen {
            is_new &= !k.equals(other, runtime.budget())?;
        }
        if is_new {
            seen.push(k);
            kept.push(item.clone());
        }
    }
    runtime.maker.list(kept)
}

pub(super) fn sum<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [attribute, start] = arguments.bind("sum", ["attribute", "start"])?;
    let items = runtime.items(value)?;
    let mut total = start.unwrap_or(Value::Int(0));
    for value in columns(runtime, &items, attribute.as_ref())? {
        total = runtime.arithmetic(Arithmetic::Add, &total, &value)?;
    }
    Ok(total)
}
