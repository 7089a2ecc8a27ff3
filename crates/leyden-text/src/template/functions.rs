//! Global functions of templates.

use super::arguments::{Arguments, integer, text};
use super::budget::{Result, fail};
use super::clock;
use super::mixed::Mixed;
use super::runtime::Runtime;
use super::stateful;
use super::value::{Range, Value};
use crate::error::Quoted;

/// Function with its name.
#[derive(Debug)]
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) call: for<'t> fn(&mut Runtime<'t>, Arguments<'t>) -> Result<Value>,
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

/// Maximum length of a range; Jinja's sandbox has the same limit.
const MAX_RANGE: i128 = 100_000;

fn range<'t>(_: &mut Runtime<'t>, arguments: Arguments<'t>) -> Result<Value> {
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
fn entries<'t>(runtime: &Runtime<'t>, arguments: Arguments<'t>, what: &str) -> Result<Vec<(Value, Value)>> {
    let mut entries = match &arguments.positional[..] {
        [] => Vec::new(),
        [Value::Dict(dict)] => dict.entries().to_vec(),
        [pairs] => {
            let mut entries = Vec::new();
            for pair in runtime.items(pairs)?.items() {
                match runtime.items(pair)?.items() {
                    [key, value] => runtime.maker.insert(&mut entries, key.clone(), value.clone())?,
                    _ => return fail(format!("{what} needs pairs")),
                }
            }
            entries
        }
        _ => return fail(format!("{what} takes one argument without a name")),
    };
    for (name, value) in arguments.named {
        let name = runtime.maker.own(&name)?;
        runtime.maker.insert(&mut entries, name, value)?;
    }
    Ok(entries)
}

fn dict<'t>(runtime: &mut Runtime<'t>, arguments: Arguments<'t>) -> Result<Value> {
    let entries = entries(runtime, arguments, "dict")?;
    runtime.maker.dict(entries)
}

fn namespace<'t>(runtime: &mut Runtime<'t>, arguments: Arguments<'t>) -> Result<Value> {
    let entries = entries(runtime, arguments, "namespace")?;
    runtime.maker.0.make(size_of::<Vec<(std::rc::Rc<str>, Value)>>())?;
    runtime.namespaces.push(Vec::new());
    let namespace = runtime.namespaces.len() - 1;
    for (name, value) in entries {
        let name = text(&name, "the name of an attribute")?;
        runtime.set_attribute(namespace, name, value)?;
    }
    Ok(Value::Namespace(namespace))
}

fn raise_exception<'t>(runtime: &mut Runtime<'t>, arguments: Arguments<'t>) -> Result<Value> {
    let [message] = arguments.exactly("raise_exception", ["message"])?;
    let message = runtime.to_text(&message)?;
    runtime.raise(message.as_str().unwrap_or_default().to_string())
}

fn strftime_now<'t>(runtime: &mut Runtime<'t>, arguments: Arguments<'t>) -> Result<Value> {
    let [value] = arguments.exactly("strftime_now", ["format"])?;
    let format = text(&value, "the format of strftime_now")?;
    runtime.budget().can_make(format.len().saturating_mul(10))?;
    match clock::strftime(runtime.now, format) {
        Ok(text) => runtime.maker.text(Mixed::made_of(text, value.as_part())),
        Err(directive) => fail(format!("strftime_now does not know %{directive}")),
    }
}
