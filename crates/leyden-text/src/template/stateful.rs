//! Objects with a counter: `cycler` and `joiner`.

use std::cell::Cell;
use std::rc::Rc;

use super::budget::{Result, fail};
use super::functions::Arguments;
use super::interpreter::Interpreter;
use super::methods::Method;
use super::value::{List, Value};

/// Object with a counter.
#[derive(Debug)]
pub(super) struct Stateful {
    kind: Kind,
    asked: Cell<usize>,
}

#[derive(Debug)]
enum Kind {
    /// Cycles through its items.
    Cycler(Rc<List>),
    /// Yields an empty text at first and this separator afterwards.
    Joiner(Value),
}

pub(super) static METHODS: &[Method] = &[Method::new("next", next), Method::new("reset", reset)];

impl Stateful {
    pub(super) fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Cycler(_) => "cycler",
            Kind::Joiner(_) => "joiner",
        }
    }

    pub(super) fn is_cycler(&self) -> bool {
        matches!(self.kind, Kind::Cycler(_))
    }

    /// Returns an attribute that is not a method.
    pub(super) fn attribute(&self, name: &str) -> Value {
        match (&self.kind, name) {
            (Kind::Cycler(_), "current") => self.turn(),
            (Kind::Cycler(items), "items") => Value::Tuple(Rc::clone(items)),
            (Kind::Cycler(items), "pos") => Value::Int((self.asked.get() % items.items().len()) as i64),
            (Kind::Joiner(separator), "sep") => separator.clone(),
            (Kind::Joiner(_), "used") => Value::Bool(self.asked.get() > 0),
            _ => Value::undefined(name),
        }
    }

    /// Returns the current item.
    fn turn(&self) -> Value {
        match &self.kind {
            Kind::Cycler(items) => items.items()[self.asked.get() % items.items().len()].clone(),
            Kind::Joiner(separator) => separator.clone(),
        }
    }

    /// Calls the object.
    pub(super) fn call(&self, interpreter: &Interpreter<'_>, arguments: Arguments<'_>) -> Result<Value> {
        let [] = arguments.exactly(self.type_name(), [])?;
        match &self.kind {
            Kind::Cycler(_) => fail("a cycler cannot be called"),
            Kind::Joiner(separator) if self.asked.replace(1) > 0 => Ok(separator.clone()),
            Kind::Joiner(_) => interpreter.maker.own(""),
        }
    }
}

fn make(interpreter: &Interpreter<'_>, kind: Kind) -> Result<Value> {
    interpreter.budget().make(size_of::<Stateful>())?;
    Ok(Value::Stateful(Rc::new(Stateful { kind, asked: Cell::new(0) })))
}

pub(super) fn cycler<'t>(interpreter: &mut Interpreter<'t>, arguments: Arguments<'t>) -> Result<Value> {
    if arguments.positional.is_empty() || !arguments.named.is_empty() {
        return fail("cycler needs values without names");
    }
    let items = interpreter.maker.rc_list(arguments.positional)?;
    make(interpreter, Kind::Cycler(items))
}

pub(super) fn joiner<'t>(interpreter: &mut Interpreter<'t>, arguments: Arguments<'t>) -> Result<Value> {
    let [separator] = arguments.bind("joiner", ["sep"])?;
    let separator = separator.map_or_else(|| interpreter.maker.own(", "), Ok)?;
    make(interpreter, Kind::Joiner(separator))
}

fn stateful(value: &Value) -> Result<&Stateful> {
    match value {
        Value::Stateful(object) => Ok(object),
        other => fail(format!("a {} has no turns", other.type_name())),
    }
}

fn next<'t>(_: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("next", [])?;
    let object = stateful(value)?;
    let item = object.turn();
    object.asked.set(object.asked.get() + 1);
    Ok(item)
}

fn reset<'t>(_: &mut Interpreter<'t>, value: &Value, arguments: Arguments<'t>) -> Result<Value> {
    let [] = arguments.exactly("reset", [])?;
    stateful(value)?.asked.set(0);
    Ok(Value::None)
}
