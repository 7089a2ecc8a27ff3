//! Operators on values, with Python's semantics.

use std::cmp::Ordering;
use std::ops::Range;

use super::ast::{Arithmetic, Comparison};
use super::budget::{Failure, Result, fail};
use super::escape::escape_into;
use super::mixed::Mixed;
use super::runtime::Runtime;
use super::value::{Number, Value};

impl Runtime<'_> {
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
        if let (Arithmetic::Remainder, Value::Str(text)) = (operator, left) {
            return super::format::percent(self, text, right);
        }
        right.check_defined()?;
        if let (Some(a), Some(b)) = (left.as_number(), right.as_number()) {
            return numbers(operator, a, b);
        }
        match (operator, left, right) {
            (Arithmetic::Add, Value::Str(a), Value::Str(b)) => {
                let safe = a.safe || b.safe;
                let mut text = Mixed::default();
                for part in [a, b] {
                    self.budget().can_make(text.text.len() + part.as_str().len())?;
                    match safe && !part.safe {
                        true => escape_into(&mut text, part.part()),
                        false => text.push(part.part()),
                    }
                }
                self.maker.marked(text, safe)
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
                let ranges = text.part().runs().count().saturating_mul(size_of::<Range<usize>>());
                self.budget().can_make(total(text.as_str().len().saturating_add(ranges))?)?;
                let mut repeated = Mixed::default();
                (0..times).for_each(|_| repeated.push(text.part()));
                self.maker.marked(repeated, text.safe)
            }
            Value::List(list) | Value::Tuple(list) => {
                self.can_make_items(total(list.items().len())?)?;
                let items = (0..times).flat_map(|_| list.items().iter().cloned()).collect();
                if matches!(value, Value::List(_)) { self.maker.list(items) } else { self.maker.tuple(items) }
            }
            _ => Ok(Value::None),
        }
    }
}

pub(super) fn too_large<T>() -> Result<T> {
    fail("a number is too large")
}

fn numbers(operator: Arithmetic, a: Number, b: Number) -> Result<Value> {
    if let (Number::Int(a), Number::Int(b)) = (a, b) {
        let result = match operator {
            Arithmetic::Add => a.checked_add(b),
            Arithmetic::Subtract => a.checked_sub(b),
            Arithmetic::Multiply => a.checked_mul(b),
            Arithmetic::FloorDivide | Arithmetic::Remainder if b == 0 => return fail("division by zero"),
            // Division rounds towards minus infinity, and a remainder has the sign of the divisor.
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
