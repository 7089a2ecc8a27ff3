//! Evaluation of expressions: lookups, calls, filters and tests; `operators` has the operators.

use std::borrow::Cow;
use std::rc::Rc;

use super::ast::{Expr, Postfix};
use super::budget::{Result, fail};
use super::filters;
use super::functions::{Arguments, text};
use super::interpreter::Interpreter;
use super::methods;
use super::mixed::{Mixed, Part};
use super::operators::too_large;
use super::predicates;
use super::print::Writer;
use super::value::{Loop, Number, Value};
use crate::error::Quoted;

impl<'t> Interpreter<'t> {
    pub(super) fn expression(&mut self, expr: &'t Expr) -> Result<Value> {
        match expr {
            Expr::None => Ok(Value::None),
            Expr::Bool(b) => Ok(Value::Bool(*b)),
            Expr::Int(i) => Ok(Value::Int(*i)),
            Expr::Float(f) => Ok(Value::Float(*f)),
            Expr::Str(text) => self.maker.own(text),
            Expr::Name(id) => self.variable(*id),
            Expr::List(items) => {
                let items = self.eval_all(items)?;
                self.maker.list(items)
            }
            Expr::Tuple(items) => {
                let items = self.eval_all(items)?;
                self.maker.tuple(items)
            }
            Expr::Dict(items) => {
                let mut entries = Vec::with_capacity(items.len());
                for (key, value) in items {
                    let (key, value) = (self.eval(key)?, self.eval(value)?);
                    self.maker.insert(&mut entries, key, value)?;
                }
                self.maker.dict(entries)
            }
            Expr::Not(inner) => Ok(Value::Bool(!self.eval(inner)?.is_true())),
            Expr::Negative(inner) => match self.number(inner)? {
                Number::Int(i) => i.checked_neg().map_or_else(too_large, |i| Ok(Value::Int(i))),
                Number::Float(f) => Ok(Value::Float(-f)),
            },
            Expr::Positive(inner) => Ok(match self.number(inner)? {
                Number::Int(i) => Value::Int(i),
                Number::Float(f) => Value::Float(f),
            }),
            Expr::And(items) => self.first(items, |value| !value.is_true()),
            Expr::Or(items) => self.first(items, Value::is_true),
            Expr::Compare(first, rest) => {
                let mut left = self.eval(first)?;
                for (comparison, right) in rest {
                    let right = self.eval(right)?;
                    if !self.compare(*comparison, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Ok(Value::Bool(true))
            }
            Expr::Concat(items) => {
                let values = self.eval_all(items)?;
                self.join(&values, Part::own(""))
            }
            Expr::Arithmetic(first, rest) => {
                let mut left = self.eval(first)?;
                let mut name = self.name_of(first);
                for (operator, expr) in rest {
                    let right = self.eval(expr)?;
                    left = self.arithmetic(*operator, &left, &right).map_err(|failure| {
                        let operands = [(name.take(), &left), (self.name_of(expr), &right)];
                        failure.about(
                            operands
                                .into_iter()
                                .find_map(|(name, value)| name.filter(|_| value.as_str().is_none())),
                        )
                    })?;
                    name = None;
                }
                Ok(left)
            }
            Expr::Conditional(branches, otherwise) => {
                for (condition, value) in branches {
                    if self.eval(condition)?.is_true() {
                        return self.eval(value);
                    }
                }
                match otherwise {
                    Some(otherwise) => self.eval(otherwise),
                    None => Ok(Value::undefined("the value of a condition without else")),
                }
            }
            Expr::Postfix(operand, postfixes) => {
                let mut value = self.eval(operand)?;
                for (i, postfix) in postfixes.iter().enumerate() {
                    value = self
                        .postfix(&value, postfix)
                        .map_err(|failure| failure.about(Some(self.path_of(operand, &postfixes[..=i]))))?;
                }
                Ok(value)
            }
        }
    }

    /// Returns the source form of an expression for error messages; `None` if it is not a variable or a part of
    /// one.
    fn name_of(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Name(_) => Some(self.path_of(expr, &[])),
            Expr::Postfix(operand, postfixes) => Some(self.path_of(operand, postfixes)),
            _ => None,
        }
    }

    /// Returns the source form of an operand with postfixes for error messages, truncated if long.
    fn path_of(&self, operand: &Expr, postfixes: &[Postfix]) -> String {
        const MAX: usize = 80;
        let mut path = match operand {
            Expr::Name(id) => self.name(*id).to_owned(),
            _ => "…".to_owned(),
        };
        for postfix in postfixes {
            match postfix {
                Postfix::Attribute(name) => path.extend([".", name]),
                Postfix::Item(Expr::Str(name)) => path.extend(["['", name, "']"]),
                Postfix::Item(_) | Postfix::Slice(_) => path += "[…]",
                Postfix::Call(_) => path += "(…)",
                Postfix::Filter(name, ..) => path.extend([" | ", name]),
                Postfix::Test { name, .. } => path.extend([" is ", name]),
            }
            if path.len() > MAX {
                path.truncate(path.floor_char_boundary(MAX));
                path.push('…');
                break;
            }
        }
        path
    }

    fn eval_all(&mut self, exprs: &'t [Expr]) -> Result<Vec<Value>> {
        exprs.iter().map(|expr| self.eval(expr)).collect()
    }

    /// Returns the first value for which `wanted` is true, or the last value.
    fn first(&mut self, items: &'t [Expr], wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        let mut value = Value::None;
        for item in items {
            value = self.eval(item)?;
            if wanted(&value) {
                break;
            }
        }
        Ok(value)
    }

    fn number(&mut self, expr: &'t Expr) -> Result<Number> {
        let value = self.eval(expr)?;
        value.check_defined()?;
        match value.as_number() {
            Some(number) => Ok(number),
            None => fail(format!("a {} is not a number", value.type_name())),
        }
    }

    /// Joins the values as text with `separator` between them.
    pub(super) fn join(&self, values: &[Value], separator: Part<'_>) -> Result<Value> {
        let mut writer = Writer::new(self.budget());
        for (i, value) in values.iter().enumerate() {
            if i > 0 {
                writer.push_part(separator)?;
            }
            writer.str(value)?;
        }
        self.maker.text(writer.text)
    }

    /// Converts a value to text; a text is returned as it is.
    pub(super) fn to_text(&self, value: &Value) -> Result<Value> {
        match value {
            Value::Str(_) => Ok(value.clone()),
            other => self.join(std::slice::from_ref(other), Part::own("")),
        }
    }

    pub(super) fn postfix(&mut self, value: &Value, postfix: &'t Postfix) -> Result<Value> {
        self.budget().steps(1)?;
        match postfix {
            Postfix::Attribute(name) => self.attribute(value, name),
            Postfix::Item(index) => {
                let index = self.eval(index)?;
                self.item(value, &index)
            }
            Postfix::Slice(parts) => {
                let mut bounds = [None; 3];
                for (bound, part) in bounds.iter_mut().zip(parts.iter()) {
                    if let Some(part) = part {
                        *bound = match self.eval(part)? {
                            Value::None => None,
                            value => match value.as_int() {
                                Some(i) => Some(i),
                                None => return fail(format!("a {} cannot bound a slice", value.type_name())),
                            },
                        };
                    }
                }
                self.slice(value, bounds)
            }
            Postfix::Call(arguments) => {
                let arguments = self.arguments(arguments)?;
                self.call(value, arguments)
            }
            Postfix::Filter(name, filter, arguments) => {
                let Some(filter) = filter else {
                    return fail(filters::unknown(name));
                };
                let arguments = self.arguments(arguments)?;
                (filter.call)(self, value, arguments)
            }
            Postfix::Test { name, test, arguments, negated } => {
                let Some(test) = test else { return fail(predicates::unknown(name)) };
                let arguments = self.arguments(arguments)?;
                Ok(Value::Bool((test.holds)(self, value, arguments)? != *negated))
            }
        }
    }

    pub(super) fn arguments(&mut self, arguments: &'t super::ast::Arguments) -> Result<Arguments<'t>> {
        let mut positional = self.eval_all(&arguments.positional)?;
        let mut named = Vec::with_capacity(arguments.named.len());
        for (name, expr) in &arguments.named {
            named.push((Cow::Borrowed(&**name), self.eval(expr)?));
        }
        if let Some(items) = &arguments.items {
            let items = self.eval(items)?;
            let items = self.items(&items)?;
            self.can_make_items(items.items().len())?;
            positional.extend(items.items().iter().cloned());
        }
        if let Some(entries) = &arguments.entries {
            match self.eval(entries)? {
                Value::Dict(dict) => {
                    self.can_make_items(dict.entries().len().saturating_mul(2))?;
                    for (key, value) in dict.entries() {
                        let name = text(key, "the name of an argument")?;
                        self.budget().can_make(name.len())?;
                        if named.iter().any(|(known, _)| known == name) {
                            return fail(format!("an argument is given twice: {}", Quoted(name)));
                        }
                        named.push((Cow::Owned(name.to_owned()), value.clone()));
                    }
                    // Each name was compared with the previous ones.
                    self.budget().steps(named.len().saturating_mul(named.len()) / 8)?;
                }
                other => return fail(format!("`**` needs a dict, not a {}", other.type_name())),
            }
        }
        Ok(Arguments { positional, named })
    }

    /// Calls a value.
    pub(super) fn call(&mut self, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
        match value {
            Value::Function(function) => (function.call)(self, arguments),
            Value::Macro(id) => self.call_macro(*id, arguments),
            Value::Method(receiver, method) => (method.call)(self, receiver, arguments),
            Value::Loop(state) => self.call_loop(state, arguments),
            Value::Stateful(object) => object.call(self, arguments),
            Value::Undefined(name) => fail(format!("{name} is undefined")),
            other => fail(format!("a {} cannot be called", other.type_name())),
        }
    }

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
            Value::Loop(state) if methods::named(value, name).is_none() => Ok(loop_attribute(state, name)),
            Value::Macro(id) => self.macro_attribute(*id, name),
            Value::Stateful(object) if methods::named(value, name).is_none() => Ok(object.attribute(name)),
            _ => {
                if let Some(method) = methods::named(value, name) {
                    return Ok(Value::Method(Rc::new(value.clone()), method));
                }
                if let Value::Tuple(list) = value
                    && let Some(part) = list.part_of_group(name)
                {
                    return Ok(part.clone());
                }
                if methods::is_forbidden(value, name) {
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
                if !matches!(value, Value::Dict(_)) || methods::named(value, name).is_some() =>
            {
                self.attribute(value, name)
            }
            (None, Some(name)) => Ok(Value::undefined(name)),
            (None, None) => Ok(Value::undefined("an item")),
        }
    }

    fn slice(&self, value: &Value, [start, stop, step]: [Option<i64>; 3]) -> Result<Value> {
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
pub(super) fn position(index: i64, len: usize) -> Option<usize> {
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
