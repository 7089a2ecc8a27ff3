//! Objects with a counter: `cycler` and `joiner`.

use std::cell::Cell;
use std::rc::Rc;

use super::arguments::Arguments;
use super::budget::{Result, fail};
use super::runtime::Runtime;
use super::value::{Counted, Stateful, Value};

impl Stateful {
    /// Returns an attribute that is not a method.
    pub(super) fn attribute(&self, name: &str) -> Value {
        match (&self.kind, name) {
            (Counted::Cycler(_), "current") => self.turn(),
            (Counted::Cycler(items), "items") => Value::Tuple(Rc::clone(items)),
            (Counted::Cycler(items), "pos") => Value::Int((self.asked.get() % items.items().len()) as i64),
            (Counted::Joiner(separator), "sep") => separator.clone(),
            (Counted::Joiner(_), "used") => Value::Bool(self.asked.get() > 0),
            _ => Value::undefined(name),
        }
    }

    /// Returns the current item.
    fn turn(&self) -> Value {
        match &self.kind {
            Counted::Cycler(items) => items.items()[self.asked.get() % items.items().len()].clone(),
            Counted::Joiner(separator) => separator.clone(),
        }
    }

    /// Calls the object.
    pub(super) fn call(&self, runtime: &Runtime<'_>, arguments: Arguments<'_>) -> Result<Value> {
        let [] = arguments.exactly(self.type_name(), [])?;
        match &self.kind {
            Counted::Cycler(_) => fail("a cycler cannot be called"),
            Counted::Joiner(separator) if self.asked.replace(1) > 0 => Ok(separator.clone()),
            Counted::Joiner(_) => runtime.maker.own(""),
        }
    }
}

fn make(runtime: &Runtime<'_>, kind: Counted) -> Result<Value> {
    runtime.budget().make(size_of::<Stateful>())?;
    Ok(Value::Stateful(Rc::new(Stateful { kind, asked: Cell::new(0) })))
}

pub(super) fn cycler<'t>(runtime: &mut Runtime<'t>, arguments: Arguments<'t>) -> Result<Value> {
    if arguments.positional.is_empty() || !arguments.named.is_empty() {
        return fail("cycler needs values without names");
    }
    let items = runtime.maker.rc_list(arguments.positional)?;
    make(runtime, Counted::Cycler(items))
}

pub(super) fn joiner<'t>(runtime: &mut Runtime<'t>, arguments: Arguments<'t>) -> Result<Value> {
    let [separator] = arguments.bind("joiner", ["sep"])?;
    let separator = separator.map_or_else(|| runtime.maker.own(", "), Ok)?;
    make(runtime, Counted::Joiner(separator))
}

fn stateful(value: &Value) -> Result<&Stateful> {
    match value {
        Value::Stateful(object) => Ok(object),
        other => fail(format!("a {} has no turns", other.type_name())),
    }
}

pub(super) fn next<'t>(_: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("next", [])?;
    let object = stateful(value)?;
    let item = object.turn();
    object.asked.set(object.asked.get() + 1);
    Ok(item)
}

pub(super) fn reset<'t>(_: &mut Runtime<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("reset", [])?;
    stateful(value)?.asked.set(0);
    Ok(Value::None)
}
