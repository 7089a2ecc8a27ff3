//! Tests: the predicates after `is`.

use super::arguments::{Arguments, integer};
use super::ast::Comparison;
use super::budget::{Result, fail};
use super::runtime::Runtime;
use super::value::Value;
use crate::error::Quoted;

/// Test with its names.
#[derive(Debug)]
pub(super) struct Predicate {
    names: &'static [&'static str],
    pub(super) holds: for<'t> fn(&mut Runtime<'t>, &Value, Arguments<'t>) -> Result<bool>,
}

static PREDICATES: &[Predicate] = &[
    Predicate { names: &["defined"], holds: |_, value, args| no(args, !value.is_undefined()) },
    Predicate { names: &["undefined"], holds: |_, value, args| no(args, value.is_undefined()) },
    Predicate { names: &["none"], holds: |_, value, args| no(args, matches!(value, Value::None)) },
    Predicate { names: &["boolean"], holds: |_, value, args| no(args, matches!(value, Value::Bool(_))) },
    Predicate { names: &["true"], holds: |_, value, args| no(args, matches!(value, Value::Bool(true))) },
    Predicate { names: &["false"], holds: |_, value, args| no(args, matches!(value, Value::Bool(false))) },
    Predicate { names: &["integer"], holds: |_, value, args| no(args, value.type_name() == "int") },
    Predicate { names: &["float"], holds: |_, value, args| no(args, matches!(value, Value::Float(_))) },
    Predicate { names: &["number"], holds: |_, value, args| no(args, value.as_number().is_some()) },
    Predicate { names: &["string"], holds: |_, value, args| no(args, value.as_str().is_some()) },
    Predicate { names: &["mapping"], holds: |_, value, args| no(args, matches!(value, Value::Dict(_))) },
    Predicate { names: &["sequence"], holds: |_, value, args| no(args, is_container(value)) },
    Predicate { names: &["iterable"], holds: |_, value, args| no(args, is_container(value)) },
    Predicate { names: &["callable"], holds: |_, value, args| no(args, value.type_name() == "function") },
    Predicate {
        names: &["escaped"],
        holds: |_, value, args| no(args, matches!(value, Value::Str(text) if text.safe)),
    },
    Predicate { names: &["filter"], holds: |i, value, args| no(args, names(value, i.names.is_filter)) },
    Predicate {
        names: &["test"],
        holds: |_, value, args| no(args, names(value, |name| named(name).is_some())),
    },
    Predicate { names: &["lower"], holds: |_, value, args| no(args, has_case(value, char::is_lowercase)) },
    Predicate { names: &["upper"], holds: |_, value, args| no(args, has_case(value, char::is_uppercase)) },
    Predicate { names: &["odd"], holds: |_, value, args| no(args, integer(value, "what is odd")? % 2 != 0) },
    Predicate {
        names: &["even"],
        holds: |_, value, args| no(args, integer(value, "what is even")? % 2 == 0),
    },
    Predicate { names: &["divisibleby"], holds: divisible },
    Predicate { names: &["sameas"], holds: same },
    Predicate { names: &["in"], holds: |i, value, args| compared(i, Comparison::In, value, args) },
    Predicate {
        names: &["eq", "equalto", "=="],
        holds: |i, value, args| compared(i, Comparison::Equal, value, args),
    },
    Predicate {
        names: &["ne", "!="],
        holds: |i, value, args| compared(i, Comparison::NotEqual, value, args),
    },
    Predicate {
        names: &["lt", "lessthan", "<"],
        holds: |i, value, args| compared(i, Comparison::Less, value, args),
    },
    Predicate {
        names: &["le", "<="],
        holds: |i, value, args| compared(i, Comparison::LessOrEqual, value, args),
    },
    Predicate {
        names: &["gt", "greaterthan", ">"],
        holds: |i, value, args| compared(i, Comparison::Greater, value, args),
    },
    Predicate {
        names: &["ge", ">="],
        holds: |i, value, args| compared(i, Comparison::GreaterOrEqual, value, args),
    },
];

pub(super) fn named(name: &str) -> Option<&'static Predicate> {
    index(name).map(at)
}

/// Returns the index of a test in the table.
pub(super) fn index(name: &str) -> Option<usize> {
    PREDICATES.iter().position(|predicate| predicate.names.contains(&name))
}

/// Returns the test at an index of the table.
pub(super) fn at(index: usize) -> &'static Predicate {
    &PREDICATES[index]
}

/// Returns the error message for an unknown test.
pub(super) fn unknown(name: &str) -> String {
    format!("there is no test {}", Quoted(name))
}

/// Returns whether a value is a text for which `is_known` is true.
fn names(value: &Value, is_known: fn(&str) -> bool) -> bool {
    value.as_str().is_some_and(is_known)
}

/// Returns the result of a test that takes no arguments.
fn no(arguments: Arguments<'_>, answer: bool) -> Result<bool> {
    let [] = arguments.exactly("this test", [])?;
    Ok(answer)
}

fn compared<'t>(
    runtime: &Runtime<'t>,
    comparison: Comparison,
    value: &Value,
    arguments: Arguments<'t>,
) -> Result<bool> {
    let [other] = arguments.exactly("this test", ["other"])?;
    runtime.compare(comparison, value, &other)
}

/// Returns whether a value is iterable; an undefined value is, without items.
fn is_container(value: &Value) -> bool {
    matches!(
        value,
        Value::Undefined(_)
            | Value::Str(_)
            | Value::List(_)
            | Value::Tuple(_)
            | Value::Dict(_)
            | Value::Range(_)
    )
}

/// Returns whether a text has letters of one case and none of the other.
fn has_case(value: &Value, wanted: fn(char) -> bool) -> bool {
    let text = value.as_str().unwrap_or_default();
    let mut cased = text.chars().filter(|c| c.is_lowercase() || c.is_uppercase()).peekable();
    cased.peek().is_some() && cased.all(wanted)
}

fn divisible<'t>(_: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<bool> {
    let [divisor] = arguments.exactly("divisibleby", ["num"])?;
    match integer(&divisor, "a divisor")? {
        0 => fail("division by zero"),
        divisor => Ok(integer(value, "what is divided")?.checked_rem(divisor).is_none_or(|rest| rest == 0)),
    }
}

fn same<'t>(runtime: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<bool> {
    let [other] = arguments.exactly("sameas", ["other"])?;
    Ok(value.type_name() == other.type_name() && value.equals(&other, runtime.budget())?)
}
