//! Evaluation of expressions: calls, filters and tests; `operators` and `lookup` have the rest.

use std::borrow::Cow;

use super::arguments::{Arguments, text};
use super::ast::{Expr, Postfix};
use super::budget::{Result, fail};
use super::filters;
use super::functions;
use super::interpreter::Interpreter;
use super::methods;
use super::mixed::Part;
use super::operators::too_large;
use super::predicates;
use super::value::{Number, Value};
use crate::error::Quoted;

impl<'t> Interpreter<'t> {
    pub(super) fn expression(&mut self, expr: &'t Expr) -> Result<Value> {
        match expr {
            Expr::None => Ok(Value::None),
            Expr::Bool(b) => Ok(Value::Bool(*b)),
            Expr::Int(i) => Ok(Value::Int(*i)),
            Expr::Float(f) => Ok(Value::Float(*f)),
            Expr::Str(text) => self.runtime.maker.own(text),
            Expr::Name(id) => self.variable(*id),
            Expr::List(items) => {
                let items = self.eval_all(items)?;
                self.runtime.maker.list(items)
            }
            Expr::Tuple(items) => {
                let items = self.eval_all(items)?;
                self.runtime.maker.tuple(items)
            }
            Expr::Dict(items) => {
                let mut entries = Vec::with_capacity(items.len());
                for (key, value) in items {
                    let (key, value) = (self.eval(key)?, self.eval(value)?);
                    self.runtime.maker.insert(&mut entries, key, value)?;
                }
                self.runtime.maker.dict(entries)
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
                    if !self.runtime.compare(*comparison, &left, &right)? {
                        return Ok(Value::Bool(false));
                    }
                    left = right;
                }
                Ok(Value::Bool(true))
            }
            Expr::Concat(items) => {
                let values = self.eval_all(items)?;
                self.runtime.join(&values, Part::own(""))
            }
            Expr::Arithmetic(first, rest) => {
                let mut left = self.eval(first)?;
                let mut name = self.name_of(first);
                for (operator, expr) in rest {
                    let right = self.eval(expr)?;
                    left = self.runtime.arithmetic(*operator, &left, &right).map_err(|failure| {
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
            Expr::Name(id) => self.runtime.name(*id).to_owned(),
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

    pub(super) fn postfix(&mut self, value: &Value, postfix: &'t Postfix) -> Result<Value> {
        self.runtime.budget().steps(1)?;
        match postfix {
            Postfix::Attribute(name) => self.runtime.attribute(value, name),
            Postfix::Item(index) => {
                let index = self.eval(index)?;
                self.runtime.item(value, &index)
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
                self.runtime.slice(value, bounds)
            }
            Postfix::Call(arguments) => {
                let arguments = self.arguments(arguments)?;
                self.call(value, arguments)
            }
            Postfix::Filter(name, filter, arguments) => {
                let Some(index) = filter else {
                    return fail(filters::unknown(name));
                };
                let arguments = self.arguments(arguments)?;
                (filters::at(*index).call)(&mut self.runtime, value, arguments)
            }
            Postfix::Test { name, test, arguments, negated } => {
                let Some(test) = test else { return fail(predicates::unknown(name)) };
                let arguments = self.arguments(arguments)?;
                Ok(Value::Bool(
                    (predicates::at(*test).holds)(&mut self.runtime, value, arguments)? != *negated,
                ))
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
            let items = self.runtime.items(&items)?;
            self.runtime.can_make_items(items.items().len())?;
            positional.extend(items.items().iter().cloned());
        }
        if let Some(entries) = &arguments.entries {
            match self.eval(entries)? {
                Value::Dict(dict) => {
                    self.runtime.can_make_items(dict.entries().len().saturating_mul(2))?;
                    for (key, value) in dict.entries() {
                        let name = text(key, "the name of an argument")?;
                        self.runtime.budget().can_make(name.len())?;
                        if named.iter().any(|(known, _)| known == name) {
                            return fail(format!("an argument is given twice: {}", Quoted(name)));
                        }
                        named.push((Cow::Owned(name.to_owned()), value.clone()));
                    }
                    // Each name was compared with the previous ones.
                    self.runtime.budget().steps(named.len().saturating_mul(named.len()) / 8)?;
                }
                other => return fail(format!("`**` needs a dict, not a {}", other.type_name())),
            }
        }
        Ok(Arguments { positional, named })
    }

    /// Calls a value.
    pub(super) fn call(&mut self, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
        match value {
            Value::Function(name) => match functions::named(name) {
                Some(function) => (function.call)(&mut self.runtime, arguments),
                None => fail(functions::unknown(name)),
            },
            Value::Macro(id) => self.call_macro(*id, arguments),
            Value::Method(receiver, name) => match methods::named(receiver, name) {
                Some(method) => (method.call)(&mut self.runtime, receiver, arguments),
                None => fail(format!("there is no method {}", Quoted(name))),
            },
            Value::Loop(state) => self.call_loop(state, arguments),
            Value::Stateful(object) => object.call(&self.runtime, arguments),
            Value::Undefined(name) => fail(format!("{name} is undefined")),
            other => fail(format!("a {} cannot be called", other.type_name())),
        }
    }
}
