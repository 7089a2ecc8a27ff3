//! Expressions: operators, look-ups, calls, filters and tests.

use std::cmp::Ordering;
use std::rc::Rc;

use super::ast::{Arithmetic, Comparison, Expr, Postfix};
use super::budget::{Failure, Result, fail};
use super::filters;
use super::functions::Arguments;
use super::interpreter::Interpreter;
use super::methods;
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
            Expr::Str(text) => self.maker.str(text.clone()),
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
                self.join(&values, "")
            }
            Expr::Arithmetic(first, rest) => {
                let mut left = self.eval(first)?;
                for (operator, right) in rest {
                    let right = self.eval(right)?;
                    left = self.arithmetic(*operator, &left, &right)?;
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
                for postfix in postfixes {
                    value = self.postfix(&value, postfix)?;
                }
                Ok(value)
            }
        }
    }

    fn eval_all(&mut self, exprs: &'t [Expr]) -> Result<Vec<Value>> {
        exprs.iter().map(|expr| self.eval(expr)).collect()
    }

    /// The first value that `wanted` takes, or the last.
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

    /// The values as text with `separator` between them.
    pub(super) fn join(&self, values: &[Value], separator: &str) -> Result<Value> {
        let mut writer = Writer::new(self.budget());
        for (i, value) in values.iter().enumerate() {
            if i > 0 {
                writer.push(separator)?;
            }
            writer.str(value)?;
        }
        let text = writer.text;
        self.maker.str(text)
    }

    /// A value as text: itself if it is one.
    pub(super) fn to_text(&self, value: &Value) -> Result<Value> {
        match value {
            Value::Str(_) => Ok(value.clone()),
            other => self.join(std::slice::from_ref(other), ""),
        }
    }

    pub(super) fn compare(&self, comparison: Comparison, left: &Value, right: &Value) -> Result<bool> {
        let budget = self.budget();
        let order = |wanted: fn(Ordering) -> bool| Ok(left.compare(right, budget)?.is_some_and(wanted));
        match comparison {
            Comparison::Equal => left.equals(right, budget),
            Comparison::NotEqual => left.equals(right, budget).map(|equal| !equal),
            Comparison::Less => order(Ordering::is_lt),
            Comparison::LessOrEqual => order(Ordering::is_le),
            Comparison::Greater => order(Ordering::is_gt),
            Comparison::GreaterOrEqual => order(Ordering::is_ge),
            Comparison::In => self.contains(right, left),
            Comparison::NotIn => self.contains(right, left).map(|found| !found),
        }
    }

    pub(super) fn contains(&self, container: &Value, item: &Value) -> Result<bool> {
        let budget = self.budget();
        match container {
            Value::Str(text) => match item.as_str() {
                Some(part) => {
                    budget.scan(text.as_str().len() + part.len())?;
                    Ok(text.as_str().contains(part))
                }
                None => fail(format!("a {} cannot be in a str", item.type_name())),
            },
            Value::Dict(dict) => Ok(dict.lookup(item, budget)?.is_some()),
            Value::List(_) | Value::Tuple(_) | Value::Range(_) | Value::Undefined(_) => {
                for candidate in self.items(container)?.items() {
                    if candidate.equals(item, budget)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            other => fail(format!("a {} cannot contain anything", other.type_name())),
        }
    }

    pub(super) fn arithmetic(&self, operator: Arithmetic, left: &Value, right: &Value) -> Result<Value> {
        left.check_defined()?;
        right.check_defined()?;
        if let (Some(a), Some(b)) = (left.as_number(), right.as_number()) {
            return numbers(operator, a, b);
        }
        match (operator, left, right) {
            (Arithmetic::Add, Value::Str(a), Value::Str(b)) => {
                let safe = a.safe || b.safe;
                let part = |text: &super::value::Text| match safe && !text.safe {
                    true => filters::escaped(text.as_str()),
                    false => text.as_str().to_string(),
                };
                self.budget().can_make(a.as_str().len() + b.as_str().len())?;
                let text = if safe { part(a) + &part(b) } else { [a.as_str(), b.as_str()].concat() };
                self.maker.text(text.into(), safe)
            }
            (Arithmetic::Add, Value::List(a), Value::List(b)) => {
                self.can_make_items(a.items().len() + b.items().len())?;
                self.maker.list([a.items(), b.items()].concat())
            }
            (Arithmetic::Add, Value::Tuple(a), Value::Tuple(b)) => {
                self.can_make_items(a.items().len() + b.items().len())?;
                self.maker.tuple([a.items(), b.items()].concat())
            }
            (Arithmetic::Multiply, Value::Str(_) | Value::List(_) | Value::Tuple(_), _)
                if right.as_int().is_some() =>
            {
                self.repeat(left, right.as_int().unwrap_or(0))
            }
            (Arithmetic::Multiply, _, Value::Str(_) | Value::List(_) | Value::Tuple(_))
                if left.as_int().is_some() =>
            {
                self.repeat(right, left.as_int().unwrap_or(0))
            }
            _ => fail(format!("cannot compute with {} and {}", left.type_name(), right.type_name())),
        }
    }

    fn repeat(&self, value: &Value, times: i64) -> Result<Value> {
        let times = usize::try_from(times).unwrap_or(0);
        let total = |len: usize| len.checked_mul(times).ok_or(Failure::Limit("it needs too much memory"));
        match value {
            Value::Str(text) => {
                self.budget().can_make(total(text.as_str().len())?)?;
                self.maker.text(text.as_str().repeat(times).into(), text.safe)
            }
            Value::List(list) | Value::Tuple(list) => {
                self.can_make_items(total(list.items().len())?)?;
                let items = (0..times).flat_map(|_| list.items().iter().cloned()).collect();
                if matches!(value, Value::List(_)) { self.maker.list(items) } else { self.maker.tuple(items) }
            }
            _ => Ok(Value::None),
        }
    }

    /// Checks that a list of `n` items can be made.
    pub(super) fn can_make_items(&self, n: usize) -> Result<()> {
        self.budget().can_make(n.saturating_mul(size_of::<Value>()))
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
                    return fail(format!("there is no filter {}", Quoted(name)));
                };
                let arguments = self.arguments(arguments)?;
                (filter.call)(self, value, arguments)
            }
            Postfix::Test { name, test, arguments, negated } => {
                let Some(test) = test else { return fail(format!("there is no test {}", Quoted(name))) };
                let arguments = self.arguments(arguments)?;
                Ok(Value::Bool((test.holds)(self, value, arguments)? != *negated))
            }
        }
    }

    fn arguments(&mut self, arguments: &'t super::ast::Arguments) -> Result<Arguments<'t>> {
        let positional = self.eval_all(&arguments.positional)?;
        let mut named = Vec::with_capacity(arguments.named.len());
        for (name, expr) in &arguments.named {
            named.push((&**name, self.eval(expr)?));
        }
        Ok(Arguments { positional, named })
    }

    /// Calls a value.
    pub(super) fn call(&mut self, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
        match value {
            Value::Function(function) => (function.call)(self, arguments),
            Value::Macro(id) => self.call_macro(*id, arguments),
            Value::Method(receiver, method) => (method.call)(self, receiver, arguments),
            Value::Undefined(name) => fail(format!("{name} is undefined")),
            other => fail(format!("a {} cannot be called", other.type_name())),
        }
    }

    /// `value.name`: an attribute or method first, then an entry of a dictionary.
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
            _ => {
                if let Some(method) = methods::named(value, name) {
                    return Ok(Value::Method(Rc::new(value.clone()), method));
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

    /// `value[index]`: an entry or item first, then an attribute or method.
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
                    let c = at.and_then(|at| text.as_str().chars().nth(at));
                    c.map(|c| self.maker.str(c.to_string())).transpose()?
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
            Value::Str(text) => {
                self.budget().can_make(text.as_str().len().saturating_mul(size_of::<usize>() + 4))?;
                let chars: Vec<char> = text.as_str().chars().collect();
                let places = slice_places(chars.len(), start, stop, step);
                self.maker.str(places.into_iter().map(|i| chars[i]).collect::<String>())
            }
            _ => Ok(Value::undefined("a slice")),
        }
    }
}

/// The place of an index that counts from the end if it is negative.
pub(super) fn position(index: i64, len: usize) -> Option<usize> {
    let len = i64::try_from(len).ok()?;
    let index = if index < 0 { index + len } else { index };
    usize::try_from(index).ok().filter(|_| index < len)
}

/// The places that a slice takes, in its order.
fn slice_places(len: usize, start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<usize> {
    let len = len as i64;
    let (lowest, highest) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let clamp =
        |bound: i64| if bound < 0 { (bound.saturating_add(len)).max(lowest) } else { bound.min(highest) };
    let (first, last) = if step > 0 { (lowest, highest) } else { (highest, lowest) };
    let (start, stop) = (start.map_or(first, clamp), stop.map_or(last, clamp));
    let mut places = Vec::new();
    let mut at = start;
    while if step > 0 { at < stop } else { at > stop } {
        places.push(at as usize);
        at = at.saturating_add(step);
    }
    places
}

fn too_large<T>() -> Result<T> {
    fail("a number is too large")
}

fn numbers(operator: Arithmetic, a: Number, b: Number) -> Result<Value> {
    if let (Number::Int(a), Number::Int(b)) = (a, b) {
        let result = match operator {
            Arithmetic::Add => a.checked_add(b),
            Arithmetic::Subtract => a.checked_sub(b),
            Arithmetic::Multiply => a.checked_mul(b),
            Arithmetic::FloorDivide | Arithmetic::Remainder if b == 0 => return fail("division by zero"),
            // Rounding is towards minus infinity, and a remainder has the sign of the divisor.
            Arithmetic::FloorDivide => {
                let down = a.checked_rem(b).is_some_and(|rest| rest != 0 && (rest < 0) != (b < 0));
                a.checked_div(b).and_then(|quotient| quotient.checked_sub(i64::from(down)))
            }
            Arithmetic::Remainder => match a.checked_rem(b) {
                Some(rest) if rest != 0 && (rest < 0) != (b < 0) => rest.checked_add(b),
                Some(rest) => Some(rest),
                None => Some(0),
            },
            Arithmetic::Power if b >= 0 => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
            Arithmetic::Power | Arithmetic::Divide => return floats(operator, a as f64, b as f64),
        };
        return result.map_or_else(too_large, |result| Ok(Value::Int(result)));
    }
    floats(operator, a.as_f64(), b.as_f64())
}

fn floats(operator: Arithmetic, a: f64, b: f64) -> Result<Value> {
    if b == 0.0 && matches!(operator, Arithmetic::Divide | Arithmetic::FloorDivide | Arithmetic::Remainder) {
        return fail("division by zero");
    }
    let remainder = |a: f64, b: f64| {
        let rest = a % b;
        if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
    };
    Ok(Value::Float(match operator {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide => a / b,
        Arithmetic::FloorDivide => ((a - remainder(a, b)) / b).round(),
        Arithmetic::Remainder => remainder(a, b),
        Arithmetic::Power => a.powf(b),
    }))
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
        // It counts how often a loop has called itself, which is not supported.
        "depth" => int(1),
        "depth0" => int(0),
        "previtem" => item(index.checked_sub(1), "there is no previous item; loop.previtem"),
        "nextitem" => item(Some(index + 1), "there is no next item; loop.nextitem"),
        other => Value::undefined(other),
    }
}
