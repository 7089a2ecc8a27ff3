//! Global functions of templates.

use std::borrow::Cow;

use super::budget::{Result, fail};
use super::clock;
use super::interpreter::Interpreter;
use super::mixed::Mixed;
use super::stateful;
use super::value::{Range, Value};
use crate::error::Quoted;

/// Function with its name.
#[derive(Debug)]
pub(super) struct Function {
    name: &'static str,
    pub(super) call: for<'t> fn(&mut Interpreter<'t>, Arguments<'t>) -> Result<Value>,
}

static FUNCTIONS: &[Function] = &[
    Function { name: "range", call: range },
    Function { name: "cycler", call: stateful::cycler },
    Function { name: "dict", call: dict },
    Function { name: "joiner", call: stateful::joiner },
    Function { name: "namespace", call: namespace },
    Function { name: "raise_exception", call: raise_exception },
    Function { name: "strftime_now", call: strftime_now },
];

pub(super) fn named(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// Returns the error message for an unknown function.
pub(super) fn unknown(name: &str) -> String {
    let why = if name == "lipsum" { ": rendering is deterministic" } else { "" };
    format!("there is no function {}{why}", Quoted(name))
}

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

/// Maximum length of a range; Jinja's sandbox has the same limit.
const MAX_RANGE: i128 = 100_000;

fn range<'t>(_: &mut Interpreter<'t>, arguments: Arguments<'t>) -> Result<Value> {
    let [first, second, step] = arguments.bind("range", ["start", "stop", "step"])?;
    let number =
        |value: Option<Value>| value.map(|value| integer(&value, "an argument of range")).transpose();
    let step = number(step)?.unwrap_or(1);
    let (start, stop) = match (number(first)?, number(second)?) {
        (Some(start), Some(stop)) => (start, stop),
        (Some(stop), None) => (0, stop),
        (None, _) => return fail("range needs an argument"),
    };
    if step == 0 {
        return fail("the step of a range cannot be zero");
    }
    let (distance, step_wide) = (i128::from(stop) - i128::from(start), i128::from(step));
    let len = (distance + step_wide - step_wide.signum()) / step_wide;
    match len.max(0) {
        len if len > MAX_RANGE => fail(format!("a range of {len} is too long, the maximum is {MAX_RANGE}")),
        len => Ok(Value::Range(Range { start, step, len: len as usize })),
    }
}

/// Returns the entries of `dict(…)` and `namespace(…)`: those of a dictionary, then the named arguments.
fn entries<'t>(
    interpreter: &Interpreter<'t>,
    arguments: Arguments<'t>,
    what: &str,
) -> Result<Vec<(Value, Value)>> {
    let mut entries = match &arguments.positional[..] {
        [] => Vec::new(),
        [Value::Dict(dict)] => dict.entries().to_vec(),
        [pairs] => {
            let mut entries = Vec::new();
            for pair in interpreter.items(pairs)?.items() {
                match interpreter.items(pair)?.items() {
                    [key, value] => interpreter.maker.insert(&mut entries, key.clone(), value.clone())?,
                    _ => return fail(format!("{what} needs pairs")),
                }
            }
            entries
        }
        _ => return fail(format!("{what} takes one argument without a name")),
    };
    for (name, value) in arguments.named {
        let name = interpreter.maker.own(&name)?;
        interpreter.maker.insert(&mut entries, name, value)?;
    }
    Ok(entries)
}

fn dict<'t>(interpreter: &mut Interpreter<'t>, arguments: Arguments<'t>) -> Result<Value> {
    let entries = entries(interpreter, arguments, "dict")?;
    interpreter.maker.dict(entries)
}

fn namespace<'t>(interpreter: &mut Interpreter<'t>, arguments: Arguments<'t>) -> Result<Value> {
    let entries = entries(interpreter, arguments, "namespace")?;
    interpreter.maker.0.make(size_of::<Vec<(std::rc::Rc<str>, Value)>>())?;
    interpreter.namespaces.push(Vec::new());
    let namespace = interpreter.namespaces.len() - 1;
    for (name, value) in entries {
        let name = text(&name, "the name of an attribute")?;
        interpreter.set_attribute(namespace, name, value)?;
    }
    Ok(Value::Namespace(namespace))
}

fn raise_exception<'t>(interpreter: &mut Interpreter<'t>, arguments: Arguments<'t>) -> Result<Value> {
    let [message] = arguments.exactly("raise_exception", ["message"])?;
    let message = interpreter.to_text(&message)?;
    interpreter.raise(message.as_str().unwrap_or_default().to_string())
}

fn strftime_now<'t>(interpreter: &mut Interpreter<'t>, arguments: Arguments<'t>) -> Result<Value> {
    let [value] = arguments.exactly("strftime_now", ["format"])?;
    let format = text(&value, "the format of strftime_now")?;
    interpreter.budget().can_make(format.len().saturating_mul(10))?;
    match clock::strftime(interpreter.now, format) {
        Ok(text) => interpreter.maker.text(Mixed::made_of(text, value.as_part())),
        Err(directive) => fail(format!("strftime_now does not know %{directive}")),
    }
}
