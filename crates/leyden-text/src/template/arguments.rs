//! [`Arguments`]: arguments of a call.

use std::borrow::Cow;

use super::budget::{Result, fail};
use super::value::Value;

/// Arguments of a call.
#[derive(Debug, Default)]
pub(super) struct Arguments<'t> {
    pub(super) positional: Vec<Value>,
    pub(super) named: Vec<(Cow<'t, str>, Value)>,
}

impl Arguments<'_> {
    /// Assigns the arguments to the parameters of `what`.
    pub(super) fn bind<const N: usize>(
        self,
        what: &str,
        parameters: [&str; N],
    ) -> Result<[Option<Value>; N]> {
        let mut bound = [const { None }; N];
        if self.positional.len() > N {
            return fail(format!("too many arguments for {what}"));
        }
        for (slot, value) in bound.iter_mut().zip(self.positional) {
            *slot = Some(value);
        }
        for (name, value) in self.named {
            match parameters.iter().position(|parameter| name == *parameter) {
                Some(i) if bound[i].is_none() => bound[i] = Some(value),
                Some(_) => return fail(format!("{what} is given {name} twice")),
                None => return fail(format!("{what} has no parameter {name}")),
            }
        }
        Ok(bound)
    }

    /// Assigns the arguments to the parameters of `what`, all of which are required.
    pub(super) fn exactly<const N: usize>(self, what: &str, parameters: [&str; N]) -> Result<[Value; N]> {
        let mut missing = None;
        let values = self.bind(what, parameters)?;
        let values = values.into_iter().zip(parameters).map(|(value, name)| {
            value.unwrap_or_else(|| {
                missing = Some(name);
                Value::None
            })
        });
        let values: Vec<Value> = values.collect();
        match (missing, values.try_into()) {
            (None, Ok(values)) => Ok(values),
            (missing, _) => fail(format!("{what} needs {}", missing.unwrap_or("arguments"))),
        }
    }
}

/// Returns an argument that must be an integer.
pub(super) fn integer(value: &Value, what: &str) -> Result<i64> {
    match value.as_int() {
        Some(i) => Ok(i),
        None => fail(format!("{what} must be an int, not a {}", value.type_name())),
    }
}

/// Returns an argument that must be a text.
pub(super) fn text<'v>(value: &'v Value, what: &str) -> Result<&'v str> {
    match value.as_str() {
        Some(text) => Ok(text),
        None => fail(format!("{what} must be a str, not a {}", value.type_name())),
    }
}

/// Returns whether a flag argument is given and true.
pub(super) fn is_true(value: Option<Value>) -> bool {
    value.is_some_and(|value| value.is_true())
}
