//! Lookups of attributes, items and slices.

use std::rc::Rc;

use super::budget::{Result, fail};
use super::mixed::Mixed;
use super::runtime::Runtime;
use super::value::{Loop, Value};

/// Mutating methods of dictionaries and lists, which the sandbox forbids.
const FORBIDDEN_OF_DICT: [&str; 6] = ["pop", "clear", "update", "setdefault", "popitem", "fromkeys"];
const FORBIDDEN_OF_LIST: [&str; 8] =
    ["append", "extend", "insert", "pop", "remove", "reverse", "sort", "clear"];

/// Returns whether the value has a method of that name that must not be called.
fn is_forbidden(value: &Value, name: &str) -> bool {
    match value {
        Value::Dict(_) => FORBIDDEN_OF_DICT.contains(&name),
        Value::List(_) => FORBIDDEN_OF_LIST.contains(&name),
        _ => false,
    }
}

impl Runtime<'_> {
    /// Evaluates `value.name`: an attribute or method first, then an entry of a dictionary.
    pub(super) fn attribute(&self, value: &Value, name: &str) -> Result<Value> {
        value.check_defined()?;
        match value {
            Value::Namespace(id) => {
                let attributes = self.namespaces.get(*id).map_or(&[][..], Vec::as_slice);
                self.budget().steps(attributes.len() / 8)?;
                let found = attributes.iter().find(|(known, _)| **known == *name);
                Ok(found.map_or_else(|| Value::undefined(name), |(_, value)| value.clone()))
            }
            Value::Loop(state) if (self.names.method)(value, name).is_none() => {
                Ok(loop_attribute(state, name))
            }
            Value::Macro(id) => self.macro_attribute(*id, name),
            Value::Stateful(object) if (self.names.method)(value, name).is_none() => {
                Ok(object.attribute(name))
            }
            _ => {
                if let Some(method) = (self.names.method)(value, name) {
                    return Ok(Value::Method(Rc::new(value.clone()), method));
                }
                if let Value::Tuple(list) = value
                    && let Some(part) = list.part_of_group(name)
                {
                    return Ok(part.clone());
                }
                if is_forbidden(value, name) {
                    return Ok(Value::undefined(name));
                }
                if let Value::Dict(dict) = value {
                    self.budget().steps(dict.entries().len() / 8)?;
                    return Ok(dict.get(name).cloned().unwrap_or_else(|| Value::undefined(name)));
                }
                Ok(Value::undefined(name))
            }
        }
    }

    /// Evaluates `value[index]`: an entry or item first, then an attribute or method.
    pub(super) fn item(&self, value: &Value, index: &Value) -> Result<Value> {
        value.check_defined()?;
        let found = match value {
            Value::Dict(dict) => dict.lookup(index, self.budget())?.cloned(),
            Value::List(list) | Value::Tuple(list) => {
                index.as_int().and_then(|i| position(i, list.items().len())).map(|i| list.items()[i].clone())
            }
            Value::Range(range) => index
                .as_int()
                .and_then(|i| position(i, range.len))
                .and_then(|i| range.iter().nth(i))
                .map(Value::Int),
            Value::Str(text) => match index.as_int() {
                Some(i) => {
                    self.budget().scan(text.as_str().len())?;
                    let at = position(i, text.as_str().chars().count());
                    let found = at.and_then(|at| text.as_str().char_indices().nth(at));
                    let one = |(at, c): (usize, char)| text.part().range(at..at + c.len_utf8());
                    found.map(|found| self.maker.part(one(found))).transpose()?
                }
                None => None,
            },
            _ => None,
        };
        match (found, index.as_str()) {
            (Some(found), _) => Ok(found),
            (None, Some(name))
                if !matches!(value, Value::Dict(_)) || (self.names.method)(value, name).is_some() =>
            {
                self.attribute(value, name)
            }
            (None, Some(name)) => Ok(Value::undefined(name)),
            (None, None) => Ok(Value::undefined("an item")),
        }
    }

    pub(super) fn slice(&self, value: &Value, [start, stop, step]: [Option<i64>; 3]) -> Result<Value> {
        value.check_defined()?;
        let step = step.unwrap_or(1);
        if step == 0 {
            return fail("the step of a slice cannot be zero");
        }
        match value {
            Value::List(list) | Value::Tuple(list) => {
                let places = slice_places(list.items().len(), start, stop, step);
                self.can_make_items(places.len())?;
                let items = places.into_iter().map(|i| list.items()[i].clone()).collect();
                if matches!(value, Value::List(_)) { self.maker.list(items) } else { self.maker.tuple(items) }
            }
            Value::Str(text) if step == 1 => {
                self.budget().scan(text.as_str().len())?;
                let (start, stop) = slice_limits(text.as_str().chars().count(), start, stop, step);
                let byte = |place: i64| text.as_str().char_indices().nth(place as usize).map(|(at, _)| at);
                let end = byte(stop).unwrap_or(text.as_str().len());
                let start = byte(start).unwrap_or(end).min(end);
                self.maker.part(text.part().range(start..end))
            }
            Value::Str(text) => {
                self.budget().can_make(text.as_str().len().saturating_mul(size_of::<usize>() + 4))?;
                let chars: Vec<char> = text.as_str().chars().collect();
                let places = slice_places(chars.len(), start, stop, step);
                let taken = places.into_iter().map(|i| chars[i]).collect();
                self.maker.text(Mixed::made_of(taken, text.part()))
            }
            _ => Ok(Value::undefined("a slice")),
        }
    }
}

/// Resolves an index, which counts from the end if negative.
fn position(index: i64, len: usize) -> Option<usize> {
    let len = i64::try_from(len).ok()?;
    let index = if index < 0 { index + len } else { index };
    usize::try_from(index).ok().filter(|_| index < len)
}

/// Returns start and end of a slice as positions from 0; -1 is before the first.
fn slice_limits(len: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> (i64, i64) {
    let len = len as i64;
    let (lowest, highest) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let clamp =
        |bound: i64| if bound < 0 { (bound.saturating_add(len)).max(lowest) } else { bound.min(highest) };
    let (first, last) = if step > 0 { (lowest, highest) } else { (highest, lowest) };
    (start.map_or(first, clamp), stop.map_or(last, clamp))
}

/// Returns the positions that a slice selects, in its order.
fn slice_places(len: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<usize> {
    let (mut at, stop) = slice_limits(len, start, stop, step);
    let mut places = Vec::new();
    while if step > 0 { at < stop } else { at > stop } {
        places.push(at as usize);
        at = at.saturating_add(step);
    }
    places
}

fn loop_attribute(state: &Loop, name: &str) -> Value {
    let (index, items) = (state.index.get(), state.items.items());
    let int = |i: usize| Value::Int(i as i64);
    let item = |i: Option<usize>, what| {
        i.and_then(|i| items.get(i)).cloned().unwrap_or_else(|| Value::undefined(what))
    };
    match name {
        "index" => int(index + 1),
        "index0" => int(index),
        "revindex" => int(items.len() - index),
        "revindex0" => int(items.len() - index - 1),
        "first" => Value::Bool(index == 0),
        "last" => Value::Bool(index + 1 == items.len()),
        "length" => int(items.len()),
        "depth" => int(state.depth),
        "depth0" => int(state.depth - 1),
        "previtem" => item(index.checked_sub(1), "there is no previous item; loop.previtem"),
        "nextitem" => item(Some(index + 1), "there is no next item; loop.nextitem"),
        other => Value::undefined(other),
    }
}
